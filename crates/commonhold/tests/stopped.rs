//! A writer that is stopped disturbs no reader.
//!
//! For every named step and every scenario that passes it: a victim stops itself (SIGSTOP) exactly
//! there, inside its critical section. Then readers that had opened the hold before, one writable handle
//! and one read-only, read every key in every way and finish. Then the victim is continued, or killed,
//! and everything is right and whole.

use crate::support::expiry;
use crate::support::process::{Board, Child, End, until};
use crate::support::scenario::{self, Scenario, word};
use crate::support::script::{Expected, Op, read};
use crate::support::shape::Shape;
use crate::support::test_dir::TestDir;
use commonhold::map::{Cursor, Map, MapOptions, Values};
use commonhold::queue::QueueOptions;
use commonhold::{ErrorKind, Hold, steps};
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Duration;

const VICTIM: u32 = 1;
const BYSTANDER: u32 = 2;

/// Keys that nobody touches while the victim is stopped.
fn bystanders(shape: Shape) -> Vec<Op> {
    let first = scenario::first(BYSTANDER);
    let count = if shape == Shape::Big { 40 } else { 400 };
    (0..count).map(|n| Op::Set(first + n, shape.fit(1))).collect()
}

/// Makes the hold, then reads whenever it is told to, through handles opened before.
fn keep(path: &Path, scenario: &Scenario, board: &Board) {
    let (hold, map) = scenario::open(path, scenario.shape);
    let script = bystanders(scenario.shape);
    for op in &script {
        op.perform(&map, scenario.shape).unwrap();
    }
    let read_only = Hold::options().read_only(true).open(path).unwrap();
    let view = read_only.maps().open(scenario::COMMON).unwrap();
    let expected = Expected::after(scenario.shape, &script, script.len(), script.len());
    board.put(word::ANSWER, 1);
    until("told to read", || board.get(word::ORDER) >= 1);
    if scenario.shape.forgets() {
        for map in [&map, &view] {
            right_or_gone(map, scenario.shape, &script);
        }
    } else {
        for (map, what) in [(&map, "writable handle"), (&view, "read-only handle")] {
            expected.verify(map, what);
            assert!(map.random_pair().unwrap().is_some());
        }
        if scenario.script(VICTIM).is_some() {
            scenario.verify(&read_only, VICTIM, board, word::VICTIM, "while the victim is stopped");
            scenario.verify(&hold, VICTIM, board, word::VICTIM, "while the victim is stopped");
        }
    }
    board.put(word::ANSWER, 2);
    until("told that the victim has ended", || board.get(word::ORDER) >= 2);
    hold.sweep().unwrap();
    expected.verify(&map, "afterwards");
    scenario.verify(&hold, VICTIM, board, word::VICTIM, "afterwards");
    let report = hold.check().unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.allocated, report.reachable, "{report:?}");
}

/// Whoever has to evict what a stopped one holds, and nothing else is left, waits for it as for any lock.
#[test]
fn eviction_waits_for_a_stopped_writer_only_if_nothing_else_is_left() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::options().lock_timeout(Duration::from_millis(20)).create(&path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::cache().max_entries(2)).unwrap();
    map.set("held", "1").unwrap();
    let mut victim = Child::run("victim", || {
        let map = Hold::open(&path).unwrap().maps().open("it").unwrap();
        steps::arm("write.locked:stop").unwrap();
        map.delete("held").unwrap();
    });
    assert!(victim.wait_stopped());
    // Of the other one's pairs there is always one to evict.
    let segment_of_its_own = |key: &u32| map.set(key.to_le_bytes(), "1").is_ok();
    let others: Vec<u32> = (0..100).filter(segment_of_its_own).collect();
    assert!(others.len() > 50, "{others:?}");
    let only = hold.maps().open_or_create("only", MapOptions::cache().max_entries(1)).unwrap();
    only.set("held", "1").unwrap();
    victim.signal(Signal::SIGCONT);
    assert_eq!(victim.wait(), End::Well);
    let mut victim = Child::run("victim", || {
        let only = Hold::open(&path).unwrap().maps().open("only").unwrap();
        steps::arm("write.locked:stop").unwrap();
        only.delete("held").unwrap();
    });
    assert!(victim.wait_stopped());
    assert_eq!(only.set("other", "1").unwrap_err().kind(), ErrorKind::TimedOut);
    victim.signal(Signal::SIGCONT);
    assert_eq!(victim.wait(), End::Well);
    only.set("other", "1").unwrap();
    assert_eq!(only.len().unwrap(), 1);
}

/// What is there of a cache that evicts is what was stored, however it is read.
fn right_or_gone(map: &Map, shape: Shape, script: &[Op]) {
    let ids: Vec<u32> = script.iter().flat_map(Op::keys).collect();
    let keys: Vec<_> = ids.iter().map(|id| shape.key(*id)).collect();
    let mut values = Values::default();
    let many = map.get_many(&keys, &mut values).unwrap();
    let found = ids.iter().enumerate().filter_map(|(n, id)| Some((*id, values.get(n)?.to_vec())));
    let found: Vec<_> = found.collect();
    assert_eq!(found.len(), many);
    let one_by_one = ids.iter().filter_map(|id| Some((*id, map.get(shape.key(*id)).unwrap()?)));
    let walked = map.iter().map(Result::unwrap).map(|(key, v)| (shape.id(&key).unwrap(), v));
    for (id, value) in found.into_iter().chain(one_by_one).chain(walked) {
        read(shape, id, &value);
    }
}

/// Returns false if the scenario does not pass the step so often.
fn stop_at(scenario: &Scenario, step: &str, time: u32, then: Signal) -> bool {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(word::ALL));
    let what = format!("'{}' stopped at {step}, time {time}, then {then}", scenario.name);
    let keeper = Child::run(format!("reader; {what}"), || keep(&path, scenario, &board));
    until("the hold is there", || board.get(word::ANSWER) == 1 || keeper.is_gone());
    let mut victim = Child::run(format!("victim; {what}"), || {
        steps::arm(&format!("{step}:stop:{time}")).unwrap();
        scenario.run(&path, VICTIM, &board, word::VICTIM);
    });
    let stopped = victim.wait_stopped();
    board.put(word::ORDER, 1);
    until("the readers have read", || board.get(word::ANSWER) == 2 || keeper.is_gone());
    if stopped {
        victim.signal(then);
    }
    let end = victim.wait();
    let killed = stopped && then == Signal::SIGKILL;
    assert_eq!(end, if killed { End::By(Signal::SIGKILL) } else { End::Well }, "{what}");
    board.put(word::ORDER, 2);
    keeper.finish();
    stopped
}

fn stop_everywhere(name: &str) {
    let scenario = scenario::by_name(name);
    let steps = scenario.steps();
    let mut missed = Vec::new();
    for (number, step) in (1..).zip(&steps) {
        if stop_at(&scenario, step, 1, Signal::SIGCONT) {
            stop_at(&scenario, step, 1 + number % 7, Signal::SIGKILL);
        } else {
            missed.push(step);
        }
    }
    // In company a hold has grown before, say.
    assert!(steps.len() >= 3 + 2 * missed.len(), "'{name}' misses {missed:?} of {steps:?}");
}

macro_rules! stopped {
    ($($test:ident = $name:literal;)*) => { $(#[test] fn $test() { stop_everywhere($name); })* };
}

stopped! {
    readers_go_on_while_a_map_grows = "grow";
    readers_go_on_among_mixed_operations = "mixed";
    readers_go_on_among_short_values = "mixed short";
    readers_go_on_among_large_values = "large";
    readers_go_on_among_batches = "many";
    readers_go_on_among_words = "words";
    readers_go_on_among_mixed_words = "mixed words";
    readers_go_on_among_pairs = "pairs";
    readers_go_on_among_mixed_pairs = "mixed pairs";
    readers_go_on_in_a_cache = "cache";
    readers_go_on_in_a_cache_that_evicts = "evicting";
    readers_go_on_while_pairs_expire = "expiring";
    readers_go_on_while_maps_come_and_go = "maps";
    readers_go_on_while_elements_move = "queue";
    readers_go_on_while_messages_pass = "channel";
    readers_go_on_while_others_come_and_go = "visits";
    readers_go_on_while_the_hold_is_cared_for = "care";
    readers_go_on_while_a_map_is_emptied = "empty";
}

#[test]
fn readers_go_on_while_a_recoverer_is_stopped() {
    // A first victim is killed; who recovers it is stopped in the middle of that.
    for (name, step) in [
        ("grow", "split.publishing"),
        ("grow", "split.copied"),
        ("grow", "double.locked"),
        ("mixed", "write.committed"),
        ("large", "run.head-claimed"),
        ("words", "inline.locked"),
        ("pairs", "cell.written"),
        ("maps", "drop.emptied"),
        ("maps", "create.segment"),
        ("queue", "pull.armed"),
        ("queue", "push.released"),
        ("queue", "push.committed"),
        ("queue", "block.taken"),
    ] {
        let scenario = scenario::by_name(name);
        for recovering in steps::ALL.iter().filter(|s| s.starts_with("recover.")) {
            stop_recoverer(&scenario, step, recovering);
        }
    }
}

fn stop_recoverer(scenario: &Scenario, step: &str, recovering: &str) {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(word::ALL));
    let what = format!("'{}' killed at {step}, recoverer stopped at {recovering}", scenario.name);
    let keeper = Child::run(format!("reader; {what}"), || keep(&path, scenario, &board));
    until("the hold is there", || board.get(word::ANSWER) == 1 || keeper.is_gone());
    let mut victim = Child::run(format!("victim; {what}"), || {
        steps::arm(&format!("{step}:kill")).unwrap();
        scenario.run(&path, VICTIM, &board, word::VICTIM);
    });
    assert_eq!(victim.wait(), End::By(Signal::SIGKILL), "{what}");
    let mut recoverer = Child::run(format!("recoverer; {what}"), || {
        steps::arm(&format!("{recovering}:stop")).unwrap();
        Hold::open(&path).unwrap().sweep().unwrap();
    });
    let stopped = recoverer.wait_stopped();
    board.put(word::ORDER, 1);
    until("the readers have read", || board.get(word::ANSWER) == 2 || keeper.is_gone());
    if stopped {
        recoverer.signal(Signal::SIGCONT);
    }
    recoverer.finish();
    board.put(word::ORDER, 2);
    keeper.finish();
}

#[test]
fn removing_expired_pairs_waits_for_nobody() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run("preparation", || {
        let map = expiry::open(&Hold::create(&path).unwrap()).unwrap();
        expiry::set_pairs(&map, 1).unwrap();
    })
    .finish();
    let all = u64::from(expiry::STAYING + expiry::GOING);
    for step in ["freeze.closed", "stream.locked", "write.locked"] {
        let mut victim = Child::run(format!("stopped at {step}"), || {
            let hold = Hold::open(&path).unwrap();
            let map = expiry::open(&hold).unwrap();
            steps::arm(&format!("{step}:stop")).unwrap();
            // One that has expired.
            let id = expiry::STAYING;
            map.set(Shape::Cache.key(id), Shape::Cache.value(id, 2)).unwrap();
            drop(hold.freeze().unwrap());
        });
        assert!(victim.wait_stopped(), "{step}");
        let sweeper = Child::run(format!("sweeps while one is stopped at {step}"), || {
            let hold = Hold::open(&path).unwrap();
            let map = hold.maps().open(expiry::PASSING).unwrap();
            let mut cursor = Cursor::START;
            let removed = map.try_expire(&mut cursor, u64::MAX).unwrap();
            match step {
                // All but those of one segment.
                "write.locked" => assert!(cursor.is_end() && (100..200).contains(&removed)),
                _ => assert!(!cursor.is_end() && removed == 0, "{step}: {removed}"),
            }
            assert!(map.len().unwrap() == all - removed, "{step}");
        });
        sweeper.finish();
        victim.signal(Signal::SIGCONT);
        assert_eq!(victim.wait(), End::Well, "{step}");
    }
    let hold = Hold::open(&path).unwrap();
    let map = hold.maps().open(expiry::PASSING).unwrap();
    expiry::go_round(&map).unwrap();
    assert_eq!(map.len().unwrap(), u64::from(expiry::STAYING) + 1);
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

#[test]
fn a_wait_for_a_stopped_process_can_end() {
    let test_dir = TestDir::memory();
    let (path, shape) = (test_dir.path("it.hold"), Shape::General);
    let make = || Hold::open_or_create(&path).unwrap();
    let options = || QueueOptions::new(4, 8).queues(["free", "lost"]).orphans("lost");
    Child::run("preparation", || {
        let hold = make();
        hold.maps()
            .open_or_create("it", shape.options())
            .unwrap()
            .set(shape.key(1), shape.value(1, 1))
            .unwrap();
        drop(hold.queues().open_or_create("moving", options()).unwrap());
    })
    .finish();
    for step in ["write.locked", "pull.held", "push.written", "freeze.closed", "create.filled"] {
        let mut victim = Child::run(format!("stopped at {step}"), || {
            let hold = make();
            let map = hold.maps().open("it").unwrap();
            let queue = hold.queues().open("moving").unwrap();
            steps::arm(&format!("{step}:stop")).unwrap();
            map.set(shape.key(1), shape.value(1, 2)).unwrap();
            queue
                .named("free")
                .unwrap()
                .push(queue.named("free").unwrap().pull().unwrap().unwrap())
                .unwrap();
            drop(hold.freeze().unwrap());
            drop(hold.maps().open_or_create("another", shape.options()).unwrap());
            assert!(hold.maps().drop("another").unwrap());
        });
        assert!(victim.wait_stopped(), "{step}");
        let waiter = Child::run(format!("waits for one stopped at {step}"), || {
            let patience = std::time::Duration::from_millis(50);
            let hold = Hold::options().lock_timeout(patience).open(&path).unwrap();
            let map = hold.maps().open("it").unwrap();
            let read_value = || map.get(shape.key(1)).unwrap().map(|v| read(shape, 1, &v));
            let before = read_value();
            let told = |result: commonhold::Result<()>| {
                let error = result.expect_err("nobody lets go");
                assert_eq!(error.kind(), ErrorKind::TimedOut, "{error:?}");
                let process = format!("(process {})", victim.pid());
                assert!(error.to_string().contains(&process), "{error}, not {process}");
            };
            match step {
                "write.locked" => {
                    told(map.set(shape.key(1), shape.value(1, 9)).map(drop));
                    told(map.delete(shape.key(1)).map(drop));
                    told(hold.freeze().map(drop));
                }
                "pull.held" => told(
                    hold.queues().open("moving").unwrap().named("free").unwrap().pull().map(drop),
                ),
                "push.written" => {
                    let queue = hold.queues().open("moving").unwrap();
                    let free = queue.named("free").unwrap();
                    let element = free.pull().unwrap().unwrap();
                    let (element, error) = free.try_push(element).unwrap_err();
                    told(Err(error));
                    let (element, error) = free.try_push_pull(element, free).unwrap_err();
                    told(Err(error));
                    element.write(0, b"element").unwrap();
                }
                "freeze.closed" => {
                    told(map.set(shape.key(1), shape.value(1, 9)).map(drop));
                    told(hold.maps().drop("it").map(drop));
                }
                _ => told(hold.maps().open_or_create("third", shape.options()).map(drop)),
            }
            assert_eq!(read_value(), before);
        });
        waiter.finish();
        victim.signal(Signal::SIGCONT);
        assert_eq!(victim.wait(), End::Well, "{step}");
    }
    let hold = make();
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}
