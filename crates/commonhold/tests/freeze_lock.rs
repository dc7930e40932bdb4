//! Locks over everything: the names and the freeze lock. Nobody waits behind them for somebody whom he
//! does not need.
//!
//! A writer, a dropper or a maker of maps is stopped (SIGSTOP) in the middle. Whoever freezes waits
//! for the writer, and writers elsewhere go on; what is dropped is gone at once, its name is free,
//! and its memory comes back when the stopped one has gone on or is dead.

use crate::support::process::{Board, Child, End, until};
use crate::support::test_dir::TestDir;
use crate::support::whole;
use commonhold::map::MapOptions;
use commonhold::queue::QueueOptions;
use commonhold::{ErrorKind, Hold, steps};
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(200);
const KEYS: u32 = 600;

/// What a process does with the hold.
type Act = fn(&Hold);

/// Words of the board.
const WRITES: usize = 0;
const ORDER: usize = 1;
const ANSWER: usize = 2;

fn impatient(path: &Path) -> Hold {
    Hold::options().lock_timeout(SHORT).open(path).unwrap()
}

fn fill(hold: &Hold, name: &str) {
    let map = hold.maps().open_or_create(name, MapOptions::general()).unwrap();
    for id in 0..KEYS {
        map.set(id.to_le_bytes(), [7; 300]).unwrap();
    }
}

/// A process that stops itself at the step, the `time`-th one that it passes in `act`.
fn stopped(path: &Path, step: &str, time: u32, act: impl FnOnce(&Hold)) -> Child {
    let mut child = Child::run(format!("stopped at {step}"), || {
        let hold = Hold::open(path).unwrap();
        steps::arm(&format!("{step}:stop:{time}")).unwrap();
        act(&hold);
        steps::arm("").unwrap();
    });
    assert!(child.wait_stopped(), "{step} is not passed {time} times");
    child
}

fn stopped_writer(path: &Path, map: &str) -> Child {
    stopped(path, "write.locked", 1, |hold| {
        hold.maps().open(map).unwrap().set(3u32.to_le_bytes(), "other").unwrap();
    })
}

/// The same while somebody is stopped: what he holds is on its way.
#[track_caller]
fn sound(hold: &Hold, what: &str) {
    let report = hold.check().unwrap();
    assert!(report.ok, "{what}: {:?}", report.problems);
    assert_eq!(report.allocated, report.reachable, "{what}: {report:?}");
}

/// Ends a stopped process the one way or the other.
fn end(mut child: Child, how: Signal) {
    child.signal(how);
    let expected = if how == Signal::SIGCONT { End::Well } else { End::By(how) };
    assert_eq!(child.wait(), expected);
}

/// Writes without a pause until told to end.
fn write(path: &Path, board: &Board) {
    let hold = Hold::open(path).unwrap();
    let map = hold.maps().open_or_create("free", MapOptions::general()).unwrap();
    while board.get(ORDER) == 0 {
        let turn = board.count(WRITES, 1);
        map.set((turn as u32 % KEYS).to_le_bytes(), turn.to_le_bytes()).unwrap();
    }
}

/// Writers have gone on many times since, one after the other.
fn writers_go_on(board: &Board, waits: &Child) {
    for _ in 0..20 {
        let before = board.get(WRITES);
        until("a writer elsewhere goes on", || board.get(WRITES) > before + 20);
    }
    assert_eq!(board.get(ANSWER), 0);
    assert!(!waits.is_gone(), "it waits for the stopped writer");
}

#[test]
fn a_freeze_next_to_a_stopped_writer_keeps_nobody_else_waiting() {
    let acts: [(&str, Act); 4] = [
        ("freeze", |hold| drop(hold.freeze().unwrap())),
        ("check", |hold| assert!(hold.check().unwrap().ok)),
        ("backup", |hold| {
            hold.backup(hold.path().with_extension("backup")).unwrap();
        }),
        ("begin_stream", |hold| assert!(hold.maps().begin_stream("other", 1 << 16).unwrap())),
    ];
    for (what, act) in acts {
        let test_dir = TestDir::memory();
        let (path, board) = (test_dir.path("it.hold"), Board::new(3));
        let hold = Hold::create(&path).unwrap();
        fill(&hold, "held");
        fill(&hold, "other");
        let writer = Child::run("writer elsewhere", || write(&path, &board));
        let stopped = stopped_writer(&path, "held");
        let waits = Child::run(what, || {
            act(&Hold::open(&path).unwrap());
            board.put(ANSWER, 1);
        });
        writers_go_on(&board, &waits);
        // Nor are names kept from anybody.
        let hold = impatient(&path);
        hold.maps()
            .open_or_create("made meanwhile", MapOptions::general())
            .unwrap()
            .set("a", "b")
            .unwrap();
        assert!(hold.maps().drop("made meanwhile").unwrap());
        end(stopped, Signal::SIGCONT);
        waits.finish();
        board.put(ORDER, 1);
        writer.finish();
        whole(&hold, what);
    }
}

#[test]
fn a_freeze_waits_for_a_stopped_writer_as_long_as_it_may() {
    let test_dir = TestDir::memory();
    let (path, copy) = (test_dir.path("it.hold"), test_dir.path("it.backup"));
    let hold = Hold::create(&path).unwrap();
    fill(&hold, "held");
    let stopped = stopped_writer(&path, "held");
    let hold = impatient(&path);
    let named = format!("process {}", stopped.pid());
    for error in [hold.freeze().map(drop).unwrap_err(), hold.backup(&copy).map(drop).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains(&named), "{error}");
    }
    assert!(!copy.exists());
    // Neither the freeze lock nor the names lock is left locked.
    fill(&hold, "other");
    end(stopped, Signal::SIGKILL);
    drop(hold.freeze().unwrap());
    assert_eq!(hold.backup(&copy).unwrap().maps, 2);
    whole(&hold, "afterwards");
}

#[test]
fn a_map_that_a_stopped_writer_holds_is_dropped_at_once_and_freed_later() {
    for how in [Signal::SIGCONT, Signal::SIGKILL] {
        for options in [
            MapOptions::general(),
            MapOptions::fixed(4, 4),
            MapOptions::cache().max_entries(99).into(),
        ] {
            let test_dir = TestDir::memory();
            let path = test_dir.path("it.hold");
            // Without a timeout: what is not needed is not waited for.
            let hold = Hold::create(&path).unwrap();
            let map = hold.maps().open_or_create("held", options.clone()).unwrap();
            let value = [1u8; 4];
            for id in 0..KEYS {
                map.set(id.to_le_bytes(), value).unwrap();
            }
            let step = if map.options() == &MapOptions::fixed(4, 4) {
                "inline.locked"
            } else {
                "write.locked"
            };
            let stopped = stopped(&path, step, 1, |hold| {
                let _ = hold.maps().open("held").unwrap().set(3u32.to_le_bytes(), [2; 4]).unwrap();
            });
            assert!(hold.maps().drop("held").unwrap());
            assert_eq!(map.get(3u32.to_le_bytes()).unwrap_err().kind(), ErrorKind::NotFound);
            assert!(!hold.maps().drop("held").unwrap());
            sound(&hold, "with a drop to be finished");
            fill(&hold, "held");
            fill(&hold, "other");
            drop(hold.freeze().unwrap());
            sound(&hold, "with new maps");
            end(stopped, how);
            whole(&hold, "afterwards");
            assert_eq!(hold.maps().open("held").unwrap().len().unwrap(), u64::from(KEYS));
        }
    }
}

/// Whatever anybody does next finishes a drop.
#[test]
fn a_drop_that_had_to_stop_is_finished_by_whoever_comes() {
    type Act = fn(Hold);
    let acts: [(&str, Act); 5] = [
        ("sweep", |hold| assert_eq!(hold.sweep().unwrap(), 1)),
        ("trim", |hold| {
            hold.trim().unwrap();
        }),
        ("drop", |hold| assert!(hold.maps().drop("other").unwrap())),
        ("open", |hold| drop(Hold::open(hold.path()).unwrap())),
        ("close", |hold| hold.close().unwrap()),
    ];
    for (what, act) in acts {
        let (test_dir, board) = (TestDir::memory(), &*Box::leak(Box::new(Board::new(3))));
        let path = test_dir.path("it.hold");
        let hold = Hold::create(&path).unwrap();
        fill(&hold, "held");
        hold.maps().open_or_create("other", MapOptions::general()).unwrap();
        let next = Child::run(what, || {
            let hold = Hold::open(&path).unwrap();
            board.put(ANSWER, 1);
            until("told to", || board.get(ORDER) == 1);
            steps::observe(|step| {
                if step == "drop.done" {
                    board.count(WRITES, 1);
                }
            });
            act(hold);
            // The one that it drops, if that is what it does, and the other.
            assert_eq!(board.get(WRITES), 1 + u64::from(what == "drop"), "{what}");
        });
        until("it has opened the hold", || board.get(ANSWER) == 1 || next.is_gone());
        let stopped = stopped_writer(&path, "held");
        assert!(hold.maps().drop("held").unwrap());
        end(stopped, Signal::SIGKILL);
        board.put(ORDER, 1);
        next.finish();
        whole(&hold, what);
    }
}

/// Steps at which who makes or drops a map holds no lock over everything.
const WITHOUT_NAMES: [(&str, Act); 12] = [
    ("create.directory", make),
    ("create.segment", make),
    ("drop.claimed", remove),
    ("drop.begun", remove),
    ("drop.segment-emptied", remove),
    ("drop.emptied", remove),
    ("drop.segment-freed", remove),
    ("drop.directory-taken", remove),
    ("drop.directory-unlinked", remove),
    ("drop.directory-freed", remove),
    ("drop.done", remove),
    ("block.zeroed", |hold| {
        drop(hold.queues().open_or_create("it", QueueOptions::new(9, 64)).unwrap())
    }),
];

fn make(hold: &Hold) {
    drop(hold.maps().open_or_create("it", MapOptions::general()).unwrap());
}

fn remove(hold: &Hold) {
    assert!(hold.maps().drop("it").unwrap());
}

#[test]
fn a_stopped_creation_or_drop_holds_neither_names_nor_the_freeze_lock() {
    for (step, act) in WITHOUT_NAMES {
        for how in [Signal::SIGCONT, Signal::SIGKILL] {
            let test_dir = TestDir::memory();
            let path = test_dir.path("it.hold");
            let hold = Hold::create(&path).unwrap();
            fill(&hold, "other");
            if step.starts_with("drop.") {
                fill(&hold, "it");
            }
            let stopped = stopped(&path, step, 1, act);
            let hold = impatient(&path);
            // Dropped, the name is free.
            if step.starts_with("drop.") {
                assert!(!hold.maps().drop("it").unwrap(), "{step}");
                fill(&hold, "it");
            }
            fill(&hold, "a third");
            assert!(hold.maps().drop("a third").unwrap());
            drop(hold.queues().open_or_create("a queue", QueueOptions::new(9, 64)).unwrap());
            assert!(hold.queues().drop("a queue").unwrap());
            drop(hold.freeze().unwrap());
            sound(&hold, step);
            let (copy, other) = (test_dir.path("it.backup"), test_dir.path("restored.hold"));
            hold.backup(&copy).unwrap();
            commonhold::hold::restore(&copy, &other).unwrap();
            whole(&Hold::open(&other).unwrap(), step);
            end(stopped, how);
            whole(&hold, step);
        }
    }
}

/// Where memory has to be waited for, names have not.
#[test]
fn a_wait_for_memory_keeps_no_name_locked() {
    let (test_dir, board) = (TestDir::memory(), Board::new(3));
    let path = test_dir.path("it.hold");
    let hold = Hold::create(&path).unwrap();
    hold.maps().open_or_create("small", MapOptions::general()).unwrap();
    let stopped = stopped(&path, "grow.locked", 1, |hold| {
        let map = hold.maps().open_or_create("large", MapOptions::general()).unwrap();
        map.set("a", vec![1; 1 << 24]).unwrap();
    });
    let maker = Child::run("makes a queue", || {
        let hold = Hold::open(&path).unwrap();
        board.put(ANSWER, 1);
        drop(hold.queues().open_or_create("a queue", QueueOptions::new(1000, 10_000)).unwrap());
    });
    let stat = format!("/proc/{}/stat", maker.pid());
    let sleeps = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
    until("it waits for memory", || board.get(ANSWER) == 1 && sleeps());
    let hold = impatient(&path);
    drop(hold.freeze().unwrap());
    hold.maps().open_or_create("small", MapOptions::general()).unwrap();
    assert!(hold.maps().drop("small").unwrap());
    assert!(!maker.is_gone(), "it waits for memory");
    end(stopped, Signal::SIGCONT);
    maker.finish();
    whole(&hold, "afterwards");
}

/// An error in the middle leaves nothing half made, and no lock.
#[test]
fn a_failed_creation_leaves_no_name_locked() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let hold = Hold::options().max_bytes(2 << 20).create(&path).unwrap();
    let mut made = 0;
    let error = loop {
        match hold.maps().open_or_create(&format!("map {made}"), MapOptions::general()) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let queue =
        hold.queues().open_or_create("a queue", QueueOptions::new(1000, 10_000)).unwrap_err();
    assert_eq!(queue.kind(), ErrorKind::Full, "{queue}");
    whole(&hold, "full");
    let other = impatient(&path);
    assert!(other.maps().drop("map 0").unwrap());
    drop(other.maps().open_or_create("another", MapOptions::general()).unwrap());
    whole(&other, "with another map");
}
