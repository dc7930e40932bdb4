//! Killed anywhere, nothing is lost.
//!
//! For every named step and every scenario that passes it, a victim is killed (SIGKILL) exactly there
//! while a companion reads and writes in the same map: the companion goes on, every value that anybody
//! reads is one that was written for that key, everything that the victim had completed is there, the
//! one operation under way has happened wholly or not at all, and afterwards the hold is whole:
//! allocated = reachable. Then the same with the recoverer killed at every step of recovery, and at
//! random instants, thousands of them. Every process has a watchdog: a hang is a failure.

use crate::support::company::{COMPANION, SECOND, VICTIM, accompany};
use crate::support::process::{Board, Child, End, until};
use crate::support::scenario::{self, Scenario, first, word};
use crate::support::script::{self, Expected};
use crate::support::shape::Shape;
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long, whole};
use commonhold::channel::ChannelOptions;
use commonhold::map::{Map, MapOptions};
use commonhold::{Hold, steps};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a root says of the structure that it had before is nothing to a map that was being made in it.
#[test]
fn a_map_is_not_made_in_the_place_of_a_channel() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    let map = hold.maps().open_or_create("first", MapOptions::general()).unwrap();
    let set = |from: u32| {
        for id in from..from + 100 {
            map.set(id.to_le_bytes(), b"value").unwrap();
        }
    };
    set(0);
    // Rings of all lengths: each leaves another number where a map has the link of a chunk.
    for ring in (12..=20).map(|bits| 1u64 << bits) {
        hold.channels().open_or_create("channel", ChannelOptions::new(ring)).unwrap();
        assert!(hold.channels().drop("channel").unwrap());
        let mut victim = Child::run(format!("victim after a ring of {ring} bytes"), || {
            let hold = Hold::open(&path).unwrap();
            steps::arm("create.claimed:kill").unwrap();
            hold.maps().open_or_create("second", MapOptions::general()).unwrap();
        });
        assert_eq!(victim.wait(), End::By(Signal::SIGKILL));
        whole(&hold, "nobody's directory is given away");
        hold.maps().open_or_create("third", MapOptions::general()).unwrap();
        assert!(hold.maps().drop("third").unwrap());
        set(ring as u32);
        assert_eq!(map.get(7u32.to_le_bytes()).unwrap().as_deref(), Some(&b"value"[..]));
        whole(&hold, "with another map made");
    }
}

/// Returns false if the scenario does not pass the step so often.
fn kill_at(scenario: &Scenario, step: &str, time: u32) -> bool {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(word::ALL));
    let what = format!("'{}' killed at {step}, time {time}", scenario.name);
    if scenario.streams {
        scenario.prepare(&path);
    }
    let companion = Child::run(format!("companion; {what}"), || {
        accompany(&path, scenario, &board, |hold, when| {
            scenario.verify(hold, VICTIM, &board, word::VICTIM, when);
        });
    });
    until("the companion works", || board.get(word::PROGRESS) > 2 || companion.is_gone());
    let killed = victim(&what, &path, scenario, VICTIM, &board, word::VICTIM, step, time);
    let goes_on = board.get(word::PROGRESS) + 100;
    until("the companion goes on", || board.get(word::PROGRESS) > goes_on || companion.is_gone());
    board.put(word::ORDER, 1);
    companion.finish();
    killed
}

/// Runs a scenario to its end or to the step. True if it was killed there.
#[allow(clippy::too_many_arguments)]
fn victim(
    what: &str,
    path: &Path,
    scenario: &Scenario,
    actor: u32,
    board: &Board,
    at: usize,
    step: &str,
    time: u32,
) -> bool {
    let mut child = Child::run(what, || {
        steps::arm(&format!("{step}:kill:{time}")).unwrap();
        scenario.run(path, actor, board, at);
    });
    match child.wait() {
        End::By(Signal::SIGKILL) => true,
        End::Well => false,
        other => panic!("{what}: {other:?}"),
    }
}

fn kill_everywhere(name: &str) {
    let scenario = scenario::by_name(name);
    let steps = scenario.steps();
    let mut missed = Vec::new();
    for (number, step) in (0..).zip(&steps) {
        if !kill_at(&scenario, step, 1) {
            missed.push(step);
            continue;
        }
        let more = if long() { 40 } else { 1 };
        for time in 1..=more {
            kill_at(&scenario, step, 1 + time * (1 + number % 5));
        }
    }
    // In company a hold has grown before, say.
    assert!(steps.len() >= 3 + 2 * missed.len(), "'{name}' misses {missed:?} of {steps:?}");
}

macro_rules! killed {
    ($($test:ident = $name:literal;)*) => { $(#[test] fn $test() { kill_everywhere($name); })* };
}

killed! {
    killed_while_a_map_grows = "grow";
    killed_among_mixed_operations = "mixed";
    killed_among_short_values = "mixed short";
    killed_among_large_values = "large";
    killed_among_batches = "many";
    killed_among_words = "words";
    killed_among_mixed_words = "mixed words";
    killed_among_pairs = "pairs";
    killed_among_mixed_pairs = "mixed pairs";
    killed_in_a_cache = "cache";
    killed_in_a_cache_that_evicts = "evicting";
    killed_while_pairs_expire = "expiring";
    killed_among_streamed_changes = "streamed";
    killed_while_a_streamed_map_grows = "streamed growth";
    killed_among_streamed_words = "streamed words";
    killed_among_streamed_pairs = "streamed pairs";
    killed_in_a_streamed_cache = "streamed cache";
    killed_while_making_and_dropping_maps = "maps";
    killed_while_moving_elements = "queue";
    killed_while_passing_messages = "channel";
    killed_while_opening_and_closing = "visits";
    killed_while_caring_for_the_hold = "care";
    killed_while_emptying_a_map = "empty";
}

#[test]
fn killed_while_the_tables_of_maps_and_participants_grow() {
    let scenario = scenario::by_name("tables");
    for step in ["table.made", "table.linked"] {
        for time in 1..=2 {
            assert!(kill_at(&scenario, step, time), "{step} is not passed {time} times");
        }
    }
}

/// Steps that only a map of millions of pairs passes: its directory outgrows the first chunk.
const DOUBLING: [&str; 2] = ["double.claimed", "double.linked"];

#[test]
fn killed_while_a_large_directory_doubles() {
    const WORDS: Shape = Shape::Fixed(4, 4);
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(1));
    let set = |map: &Map, id: u32| assert!(map.set(WORDS.key(id), WORDS.value(id, 1)).is_ok());
    let grow = || {
        let (_hold, map) = scenario::open(&path, WORDS);
        for id in board.get(0) as u32.. {
            set(&map, id);
            board.put(0, id as u64 + 1);
        }
    };
    for step in DOUBLING {
        let mut victim = Child::run(step, || {
            steps::arm(&format!("{step}:kill")).unwrap();
            grow();
        });
        assert_eq!(
            victim.wait_for(crate::support::process::PATIENCE * 2),
            End::By(Signal::SIGKILL)
        );
        Child::run(format!("successor after {step}"), || {
            let (hold, map) = scenario::open(&path, WORDS);
            let (done, depth) = (board.get(0) as u32, map.stat().unwrap().depth);
            for id in 0..done {
                let value = map.get(WORDS.key(id)).unwrap().expect("a key that was set");
                script::read(WORDS, id, &value);
            }
            whole(&hold, step);
            if step == DOUBLING[1] {
                let mut id = done;
                while map.stat().unwrap().depth == depth {
                    (id..id + 1000).for_each(|id| set(&map, id));
                    id += 1000;
                }
                whole(&hold, "after the doubling");
            }
        })
        .finish();
    }
}

#[test]
fn every_step_is_passed_by_some_scenario() {
    let passed: BTreeSet<_> = scenario::ALL.iter().flat_map(|s| s.steps()).collect();
    let missed: Vec<_> = steps::ALL
        .iter()
        .filter(|step| !step.starts_with("recover.") && !DOUBLING.contains(step))
        .filter(|step| !step.starts_with("log.") && !step.starts_with("collect."))
        // These are passed by those of drafts.rs and rotation.rs.
        .filter(|s| !["draft.", "salvage.", "backup."].iter().any(|area| s.starts_with(area)))
        // A hold on a disk passes it; clean_mark.rs kills there.
        .filter(|step| **step != "mark.synced")
        .filter(|step| !passed.contains(**step))
        .collect();
    assert!(missed.is_empty(), "no scenario passes {missed:?}");
}

/// Kills a victim at `step`, then who recovers it at `recovering`, then looks at what a third finds.
/// True if the recoverer was killed there.
fn kill_recoverer(scenario: &Scenario, step: &str, recovering: &str) -> bool {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(word::ALL));
    let what = format!("'{}' killed at {step}, recoverer at {recovering}", scenario.name);
    scenario.prepare(&path);
    assert!(victim(&what, &path, scenario, VICTIM, &board, word::VICTIM, step, 1), "{what}");
    let second =
        scenario::by_name(if scenario.shape == Shape::General { "mixed" } else { scenario.name });
    let killed = victim(&what, &path, &second, SECOND, &board, word::SECOND, recovering, 1);
    let judge = Child::run(format!("judge; {what}"), || {
        let (hold, _map) = scenario::open(&path, scenario.shape);
        scenario.verify(&hold, VICTIM, &board, word::VICTIM, &what);
        second.verify(&hold, SECOND, &board, word::SECOND, &what);
        whole(&hold, &what);
    });
    judge.finish();
    killed
}

#[test]
fn recoverers_are_killed_at_every_step_of_recovery() {
    let recovering: Vec<&str> =
        steps::ALL.iter().copied().filter(|s| s.starts_with("recover.")).collect();
    let names = [
        "grow",
        "mixed",
        "mixed short",
        "large",
        "mixed words",
        "mixed pairs",
        "cache",
        "streamed",
        "maps",
        "empty",
        "queue",
    ];
    let of = |scenario: Scenario| scenario.steps().into_iter().map(move |step| (scenario, step));
    let deaths: Vec<_> = names.into_iter().map(scenario::by_name).flat_map(of).collect();
    let mut killed = BTreeSet::new();
    for (turn, (scenario, step)) in deaths.iter().enumerate() {
        for (number, recovering) in recovering.iter().enumerate() {
            // All pairs of steps take minutes; every third of them, another third after the next death.
            let chosen = long() || (turn + number).is_multiple_of(3);
            if chosen && kill_recoverer(scenario, step, recovering) {
                killed.insert(*recovering);
            }
        }
    }
    // Some steps are passed after few deaths only, none of which may have been chosen.
    for recovering in recovering.iter().filter(|step| !killed.contains(**step)).collect::<Vec<_>>()
    {
        if deaths.iter().any(|(scenario, step)| kill_recoverer(scenario, step, recovering)) {
            killed.insert(*recovering);
        }
    }
    let missed: Vec<_> = recovering.iter().filter(|s| !killed.contains(**s)).collect();
    assert!(missed.is_empty(), "no recoverer passed {missed:?}");
}

const RANDOM_SHAPES: [Shape; 6] = [
    Shape::General,
    Shape::Short,
    Shape::Big,
    Shape::Fixed(4, 4),
    Shape::Fixed(8, 8),
    Shape::Cache,
];

fn random_script(shape: Shape, actor: u32) -> Vec<script::Op> {
    let (keys, len) = if shape == Shape::Big { (8, 500) } else { (300, 2000) };
    script::mixed(shape, first(actor), keys, len, &mut Dice::new(actor as u64))
}

/// Two victims work and die at a time: the first has the even number.
const PLACES: [usize; 2] = [word::VICTIM, word::SECOND];

/// Verifies one pair of victims after the other when told to, and writes meanwhile.
fn judge(path: &Path, shape: Shape, board: &Board) {
    let (hold, map) = scenario::open(path, shape);
    let mut turn = 0;
    loop {
        turn += 1;
        let id = first(COMPANION) + turn as u32 % 500;
        map.set(shape.key(id), shape.value(id, shape.fit(turn))).unwrap();
        board.count(word::PROGRESS, 1);
        let order = board.get(word::ORDER);
        if order == u64::MAX {
            return whole(&hold, "at the end");
        }
        if order != board.get(word::ANSWER) {
            for (actor, at) in (order as u32..).zip(PLACES) {
                let script = random_script(shape, actor);
                let what = format!("{shape:?}, victim {actor}");
                Expected::from_board(shape, &script, board, at).verify(&map, &what);
                for key in script.iter().flat_map(script::Op::keys) {
                    map.delete(shape.key(key)).unwrap();
                }
            }
            if order.is_multiple_of(20) {
                whole(&hold, &format!("{shape:?}, after victim {order}"));
            }
            board.put(word::ANSWER, order);
        }
    }
}

/// Reads what everybody writes.
fn watch(path: &Path, shape: Shape, board: &Board) {
    let hold = Hold::options().read_only(true).open(path).unwrap();
    let map = hold.maps().open(scenario::COMMON).unwrap();
    while board.get(word::ORDER) != u64::MAX {
        for pair in map.iter() {
            let (key, value) = pair.unwrap();
            script::read(shape, shape.id(&key).unwrap(), &value);
        }
    }
}

fn random_kills(shape: Shape, seconds: u64) -> u32 {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(word::ALL));
    Child::run("preparation", || drop(scenario::open(&path, shape))).finish();
    let judge = Child::run("judge", || judge(&path, shape, &board));
    let watcher = Child::run("watcher", || watch(&path, shape, &board));
    let mut dice = Dice::new(3);
    let late = Instant::now() + Duration::from_secs(seconds);
    let mut actor = 10;
    while Instant::now() < late && actor < 2000 && !judge.is_gone() && !watcher.is_gone() {
        actor += 2;
        for at in PLACES {
            board.put(at, 0);
            board.put(at + 1, 0);
        }
        let victims: Vec<(u32, usize, Child)> = (actor..)
            .zip(PLACES)
            .map(|(actor, at)| {
                let work = || {
                    let script = random_script(shape, actor);
                    let (_hold, map) = scenario::open(&path, shape);
                    script::run(&map, shape, &script, &board, at);
                };
                (actor, at, Child::run(format!("victim {actor}"), work))
            })
            .collect();
        for (actor, at, mut victim) in victims {
            let begun = 1 + dice.below(60);
            until("the victim has begun", || {
                board.get(at) >= begun || dice.one_in(400) || victim.is_gone()
            });
            for _ in 0..dice.below(4000) {
                std::hint::spin_loop();
            }
            victim.signal(Signal::SIGKILL);
            let end = victim.wait();
            assert!(matches!(end, End::By(Signal::SIGKILL) | End::Well), "victim {actor}: {end:?}");
        }
        board.put(word::ORDER, actor as u64);
        until("the judge has looked", || {
            board.get(word::ANSWER) == actor as u64 || judge.is_gone()
        });
    }
    board.put(word::ORDER, u64::MAX);
    judge.finish();
    watcher.finish();
    actor - 10
}

#[test]
fn killed_at_random_instants() {
    let seconds = if long() { 300 } else { 7 };
    let kills: u32 = RANDOM_SHAPES.iter().map(|shape| random_kills(*shape, seconds)).sum();
    eprintln!("{kills} victims were killed at random instants");
    assert!(kills > 100, "only {kills} kills");
}
