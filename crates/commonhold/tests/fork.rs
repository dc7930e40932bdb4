//! Forked processes go on with the handle they inherited, as pre-fork servers do.
//!
//! A child takes a participant slot of its own before its first operation, gives up every thread-local
//! state it inherited, and neither keeps the parent's slot alive nor ends it. That must hold however the
//! process was forked (the bare system call skips fork handlers), whatever other threads were doing, and
//! after a program closed every descriptor it did not know.

use crate::support::process::{
    Board, Child, End, bare_clone, outlive_parent, until, wait_for_clone,
};
use crate::support::script::{self, Expected};
use crate::support::shape::Shape;
use crate::support::standstill::{go_on, stopped, third};
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long, refused};
use commonhold::log::{LogLevel, LogOptions, Written};
use commonhold::map::{Map, MapOptions};
use commonhold::queue::QueueOptions;
use commonhold::{ErrorKind, Hold};
use nix::sys::signal::Signal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SHAPES: [Shape; 4] = [Shape::General, Shape::Fixed(4, 4), Shape::Fixed(8, 8), Shape::Cache];

fn open(test_dir: &TestDir, shape: Shape) -> (Hold, Map) {
    let hold = Hold::open_or_create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", shape.options()).unwrap();
    (hold, map)
}

/// Sweeps first: what a dead child had claimed is not yet free.
#[track_caller]
fn sound(hold: &Hold) {
    hold.sweep().unwrap();
    let report = hold.check().unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.allocated, report.reachable);
}

/// Runs `len` mixed operations on keys that belong to `number` alone.
fn work(map: &Map, shape: Shape, number: u32, len: usize, board: &Board) {
    let script = plan(shape, number, len);
    script::run(map, shape, &script, board, number as usize * 2);
    Expected::from_board(shape, &script, board, number as usize * 2).verify(map, "own keys");
}

fn plan(shape: Shape, number: u32, len: usize) -> Vec<script::Op> {
    let keys = if shape == Shape::Fixed(4, 4) { 1 << 10 } else { 200 };
    script::mixed(shape, number << 12, keys, len, &mut Dice::new(number as u64))
}

#[test]
fn parent_and_children_go_on_with_one_handle() {
    for shape in SHAPES {
        let test_dir = TestDir::memory();
        let (hold, map) = open(&test_dir, shape);
        let board = Board::new(16);
        work(&map, shape, 0, 500, &board);
        let (hold, map) = (&hold, &map);
        let children: Vec<_> = (1..5)
            .map(|n| {
                let board = &board;
                Child::run(format!("child {n}"), move || {
                    work(map, shape, n, 3000, board);
                    let me = std::process::id();
                    let all = hold.participants().unwrap();
                    assert!(all.iter().any(|p| p.pid == me), "no slot of its own: {all:?}");
                    assert_eq!(hold.participant().unwrap().pid, me);
                    // And a child of the child.
                    Child::run("grandchild", || work(map, shape, n + 10, 500, &Board::new(64)))
                        .finish();
                })
            })
            .collect();
        work(map, shape, 5, 3000, &board);
        children.into_iter().for_each(Child::finish);
        for number in 0..6 {
            let len = if number == 0 { 500 } else { 3000 };
            let script = plan(shape, number, len);
            Expected::after(shape, &script, len, len).verify(map, "after all ended");
        }
        sound(hold);
    }
}

#[test]
fn a_child_does_not_keep_the_parents_slot_alive() {
    let test_dir = TestDir::memory();
    let (hold, map) = open(&test_dir, Shape::General);
    let board = Board::new(4);
    let path = test_dir.path("it.hold");
    let middle = Child::run("parent of one", || {
        let map =
            Hold::open(&path).unwrap().maps().open_or_create("it", MapOptions::general()).unwrap();
        map.set("middle", "1").unwrap();
        board.put(0, std::process::id() as u64);
        let orphan = Child::run("orphan", || {
            // The handle is inherited but not used yet: no slot of its own.
            outlive_parent();
            board.put(1, 1);
            until("told to write", || board.get(2) == 1);
            map.set("orphan", "1").unwrap();
            board.put(3, 1);
        });
        until("killed", || orphan.pid() == 0);
    });
    until("the orphan is there", || board.get(1) == 1);
    let pid = board.get(0) as u32;
    let alive = || hold.participants().unwrap().iter().any(|p| p.pid == pid && p.alive);
    assert!(alive());
    middle.slay();
    assert!(!alive(), "the dead parent's slot is kept alive by its child");
    hold.sweep().unwrap();
    board.put(2, 1);
    until("the orphan has written", || board.get(3) == 1);
    assert_eq!(map.get("orphan").unwrap(), Some(b"1".to_vec()));
    assert_eq!(map.get("middle").unwrap(), Some(b"1".to_vec()));
    sound(&hold);
}

#[test]
fn a_child_that_dies_does_not_take_the_parents_locks_along() {
    for shape in SHAPES {
        let test_dir = TestDir::memory();
        let (hold, map) = open(&test_dir, shape);
        let board = Board::new(64);
        let mut dice = Dice::new(1);
        for round in 0..if long() { 500 } else { 40 } {
            let number = 1 + round % 20;
            board.put(number as usize * 2, 0);
            let script = plan(shape, number, 4000);
            let mut child = Child::run("victim", || {
                script::run(&map, shape, &script, &board, number as usize * 2);
            });
            let enough = 1 + dice.below(2000);
            until("the child has begun", || board.get(number as usize * 2) >= enough);
            child.signal(Signal::SIGKILL);
            let end = child.wait();
            assert!(matches!(end, End::Well | End::By(Signal::SIGKILL)), "{end:?}");
            let left = Expected::from_board(shape, &script, &board, number as usize * 2);
            left.verify(&map, "after the child's death");
            for id in 0..1 << 12 {
                map.delete(shape.key(number << 12 | id)).unwrap();
                map.delete(shape.key(number << 12 | id | crate::support::shape::COUNTER)).unwrap();
            }
            board.put(number as usize * 2 + 1, 0);
        }
        sound(&hold);
    }
}

#[test]
fn threads_of_parent_and_child_use_one_handle() {
    for shape in SHAPES {
        let test_dir = TestDir::memory();
        let (hold, map) = open(&test_dir, shape);
        let board = Board::new(64);
        let threads = |map: &Map, first: u32| {
            std::thread::scope(|s| {
                for number in first..first + 4 {
                    let board = &board;
                    s.spawn(move || work(map, shape, number, 2000, board));
                }
            });
        };
        let child = Child::run("child with threads", || threads(&map, 4));
        threads(&map, 0);
        child.finish();
        for number in 0..8 {
            let script = plan(shape, number, 2000);
            Expected::after(shape, &script, 2000, 2000).verify(&map, "after all ended");
        }
        sound(&hold);
    }
}

#[test]
fn forking_while_other_threads_are_inside_operations() {
    for shape in SHAPES {
        let test_dir = TestDir::memory();
        let (hold, map) = open(&test_dir, shape);
        let board = Board::new(64);
        let (over, turns) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|s| {
            for number in 0..3u32 {
                let (map, over, turns) = (&map, &over, &turns);
                s.spawn(move || {
                    let mut version = 0;
                    while !over.load(Ordering::SeqCst) {
                        version += 1;
                        for id in number << 12..(number << 12) + 300 {
                            map.set(shape.key(id), shape.value(id, shape.fit(version))).unwrap();
                        }
                        turns.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            for round in 0..if long() { 2000 } else { 100 } {
                let number = 3 + round % 20;
                let child = Child::run(format!("child {round}"), || {
                    for id in number << 12..(number << 12) + 20 {
                        map.set(shape.key(id), shape.value(id, shape.fit(round as u64))).unwrap();
                        assert!(map.get(shape.key(id)).unwrap().is_some());
                    }
                    // A key that the parent's threads are writing just now.
                    map.get(shape.key(5)).unwrap();
                    assert!(map.update(shape.key(7), |v| v.map(<[u8]>::to_vec)).is_ok());
                });
                child.finish();
            }
            let before = turns.load(Ordering::SeqCst);
            until("the threads go on", || turns.load(Ordering::SeqCst) > before + 3);
            over.store(true, Ordering::SeqCst);
        });
        drop(board);
        sound(&hold);
    }
}

/// What a handle keeps of its logs is never found locked or half changed by a child.
#[test]
fn forking_while_other_threads_open_logs() {
    let test_dir = TestDir::memory();
    let (hold, _map) = open(&test_dir, Shape::General);
    let options = || LogOptions::new().rings(8).ring_bytes(4096);
    let log = hold.logs().open_or_create("log", options()).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    drop(hold.logs().open_or_create("log", options()).unwrap());
                }
            });
        }
        for round in 0..if long() { 5000 } else { 200 } {
            let child = Child::run(format!("child {round}"), || {
                drop(hold.logs().open_or_create("log", options()).unwrap());
                // Waits for who is inside a log.
                hold.clone().close().unwrap();
            });
            child.finish();
        }
        over.store(true, Ordering::SeqCst);
    });
    drop(log);
    sound(&hold);
}

#[test]
fn a_bare_clone_takes_a_slot_of_its_own() {
    let test_dir = TestDir::memory();
    let (hold, map) = open(&test_dir, Shape::General);
    map.set("parent", "1").unwrap();
    let (hold, map) = (&hold, &map);
    // In a child, because a bare clone needs a process with one thread.
    Child::run("cloner", || {
        map.set("cloner", "1").unwrap();
        let pid = bare_clone(|| {
            for i in 0..2000u32 {
                map.set(i.to_le_bytes(), "clone").unwrap();
            }
            let me = nix::unistd::getpid().as_raw() as u32;
            assert!(hold.participants().unwrap().iter().any(|p| p.pid == me && p.alive));
        });
        for i in 2000..4000u32 {
            map.set(i.to_le_bytes(), "cloner").unwrap();
        }
        assert_eq!(wait_for_clone(pid), End::Well);
        assert_eq!(map.len().unwrap(), 4002);
    })
    .finish();
    assert_eq!(map.len().unwrap(), 4002);
    sound(hold);
}

#[test]
fn closing_every_descriptor_changes_nothing() {
    for shape in SHAPES {
        let test_dir = TestDir::memory();
        let (hold, map) = open(&test_dir, shape);
        let board = Board::new(8);
        let path = test_dir.path("it.hold");
        let child = Child::run("daemon", || {
            let inner = Hold::open(&path).unwrap();
            let own = inner.maps().open("it").unwrap();
            own.set(shape.key(1), shape.value(1, 1)).unwrap();
            crate::support::process::close_everything();
            // The numbers are used again for something else: it must stay untouched.
            let others: Vec<_> =
                (0..20).map(|_| tempfile::tempfile_in("/dev/shm").unwrap()).collect();
            for id in 0..5000 {
                own.set(shape.key(id), shape.value(id, 1)).unwrap();
            }
            let me = std::process::id();
            assert!(inner.participants().unwrap().iter().any(|p| p.pid == me && p.alive));
            assert!(inner.stat().is_ok() && inner.check().unwrap().ok);
            board.put(0, 1);
            until("seen by the other", || board.get(1) == 1);
            drop((own, inner));
            for file in others {
                assert_eq!(file.metadata().unwrap().len(), 0, "wrote into a foreign descriptor");
            }
        });
        until("the daemon has worked", || board.get(0) == 1 || child.is_gone());
        let pid = child.pid() as u32;
        assert!(hold.participants().unwrap().iter().any(|p| p.pid == pid && p.alive));
        assert_eq!(map.len().unwrap(), 5000);
        board.put(1, 1);
        child.finish();
        sound(&hold);
    }
}

#[test]
fn a_newcomer_takes_a_dead_ones_slot_while_others_work() {
    // Slots are few and reused at once: lock words and marks of the dead must not be taken for the
    // newcomer's. Victims die in the middle of writing the same few keys that everybody writes.
    for shape in SHAPES {
        let test_dir = TestDir::memory();
        let (hold, map) = open(&test_dir, shape);
        let board = Board::new(8);
        let path = test_dir.path("it.hold");
        let worker = |number: u64, limit: u64| {
            let map = Hold::open(&path).unwrap().maps().open("it").unwrap();
            let mut dice = Dice::new(number);
            let mut turn = 0;
            while board.get(0) == 0 && turn < limit {
                turn += 1;
                let id = dice.below(50) as u32;
                if dice.one_in(4) {
                    map.delete(shape.key(id)).unwrap();
                } else {
                    map.set(shape.key(id), shape.value(id, shape.fit(turn))).unwrap();
                }
                if let Some(value) = map.get(shape.key(id)).unwrap() {
                    script::read(shape, id, &value);
                }
                board.count(1, 1);
            }
        };
        let workers: Vec<_> =
            (0..2).map(|n| Child::run("worker", move || worker(n, u64::MAX))).collect();
        let mut dice = Dice::new(9);
        for round in 0..if long() { 2000 } else { 100 } {
            let (begun, victim) =
                (board.get(1), Child::run("victim", || worker(round + 10, u64::MAX)));
            let enough = begun + 100 + dice.below(500);
            until("work goes on", || board.get(1) > enough);
            victim.slay();
            Child::run("newcomer", || worker(round + 10, 50)).finish();
        }
        board.put(0, 1);
        workers.into_iter().for_each(Child::finish);
        let slots = hold.participants().unwrap().len();
        assert!(slots <= 8, "{slots} slots are taken by five processes at most");
        drop(map);
        sound(&hold);
    }
}

/// A stopped process keeps the hold frozen. A forked child needs the names lock for its first use
/// of a structure.
#[test]
fn a_forked_child_does_not_wait_for_the_end_of_a_freeze() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let options = QueueOptions::new(4, 16).queues(["free"]);
    let queue = hold.queues().open_or_create("it", options).unwrap();
    let log = LogOptions::new().rings(2).ring_bytes(4096);
    let log = hold.logs().open_or_create("log", log).unwrap();
    let frozen = stopped("freeze.closed", || {
        drop(Hold::open(hold.path()).unwrap().freeze().unwrap());
    });
    third("pulls", || {
        let pulled = queue.named("free").unwrap().pull_timeout(Duration::from_millis(10));
        refused(pulled, ErrorKind::TimedOut, "the names of the hold");
        let mut batch = queue.batch();
        let pulled = queue.named("free").unwrap().pull_into_timeout(&mut batch, 2, Duration::ZERO);
        refused(pulled, ErrorKind::TimedOut, "the names of the hold");
    });
    let board = Board::new(2);
    let writes = Child::run("writes", || {
        for _ in 0..2 {
            assert_eq!(log.write(LogLevel::Info, "too early").unwrap(), Written::Dropped);
        }
        board.put(0, 1);
        until("the freeze has ended", || board.get(1) == 1);
        assert_eq!(log.write(LogLevel::Info, "in time").unwrap(), Written::Accepted);
    });
    until("it has written", || board.get(0) == 1 || writes.is_gone());
    assert_eq!(log.stat().unwrap().refused, 0);
    go_on(frozen);
    board.put(1, 1);
    writes.finish();
    assert_eq!(log.stat().unwrap().refused, 2, "the child's lines are counted");
    sound(&hold);
}

/// The table of participants grows for children too. A first extent has 60 places.
#[test]
fn more_children_take_part_than_the_table_has_places_at_first() {
    const CHILDREN: u64 = 70;
    let test_dir = TestDir::memory();
    let board = Board::new(2);
    Child::run("server", || {
        let (hold, map) = open(&test_dir, Shape::General);
        let mut workers = Vec::new();
        for number in 1..=CHILDREN {
            let (map, board) = (&map, &board);
            let worker = Child::run(format!("worker {number}"), move || {
                map.set(number.to_le_bytes(), "here").unwrap();
                board.count(0, 1);
                // Seldom: so many children would keep the processors from others.
                while board.get(1) == 0 {
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            until("it is there", || board.get(0) == number || worker.is_gone());
            workers.push(worker);
        }
        let there = hold.participants().unwrap().len() as u64;
        board.put(1, 1);
        workers.into_iter().for_each(Child::finish);
        assert_eq!(there, CHILDREN + 1);
        assert_eq!(map.len().unwrap(), CHILDREN);
        sound(&hold);
    })
    .finish();
}

/// One thread of a child begins its first operation while another one closes the handle: the child
/// is no participant afterwards.
#[test]
#[cfg(feature = "steps")]
fn a_child_that_closes_during_its_first_operation_is_no_participant() {
    let test_dir = TestDir::memory();
    let (hold, map) = open(&test_dir, Shape::General);
    let path = test_dir.path("it.hold");
    let child = Child::run("a first operation that meets a close", || {
        let closing = std::sync::Mutex::new(Some(hold.clone()));
        commonhold::steps::observe(move |step| {
            if step == "slot.claimed"
                && let Some(hold) = closing.lock().unwrap().take()
            {
                hold.close().unwrap();
            }
        });
        assert_eq!(map.set("key", "value").unwrap_err().kind(), ErrorKind::Closed);
        // The parent, and this handle.
        let again = Hold::open(&path).unwrap();
        assert_eq!(again.stat().unwrap().participants, 2);
        sound(&again);
    });
    child.finish();
    assert_eq!(hold.stat().unwrap().participants, 1);
}

/// While one thread of a child begins its first operation, another one joins a channel, and then
/// closes the handle: the child stays a participant until that producer leaves.
#[test]
#[cfg(feature = "steps")]
fn a_first_operation_that_meets_a_close_keeps_an_endpoint() {
    use commonhold::channel::{ChannelOptions, Producer};
    use std::sync::{Arc, Mutex};
    let test_dir = TestDir::memory();
    let (hold, map) = open(&test_dir, Shape::General);
    let path = test_dir.path("it.hold");
    let channel = hold.channels().create("a channel", ChannelOptions::new(4096)).unwrap();
    let child = Child::run("a first operation that meets a producer and a close", || {
        let joined: Arc<Mutex<Option<Producer>>> = Arc::default();
        let closing = Mutex::new(Some((hold.clone(), channel.clone(), joined.clone())));
        commonhold::steps::observe(move |step| {
            if step != "slot.claimed" {
                return;
            }
            let first = closing.lock().unwrap().take();
            if let Some((hold, channel, joined)) = first {
                let joining = std::thread::spawn(move || channel.producer().unwrap());
                *joined.lock().unwrap() = Some(joining.join().unwrap());
                hold.close().unwrap();
            }
        });
        assert_eq!(map.set("key", "value").unwrap_err().kind(), ErrorKind::Closed);
        let again = Hold::open(&path).unwrap();
        let producer = || again.channels().open("a channel").unwrap().producer();
        assert_eq!(producer().map(drop).unwrap_err().kind(), ErrorKind::Busy);
        drop(joined.lock().unwrap().take());
        drop(producer().unwrap());
        // The parent, and this handle.
        assert_eq!(again.stat().unwrap().participants, 2);
        sound(&again);
    });
    child.finish();
    assert_eq!(hold.stat().unwrap().participants, 1);
}
