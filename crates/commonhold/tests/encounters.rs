//! Two that meet at a bad moment.
//!
//! A reader stopped in the middle of a record while everything under it changes; a map bound by name
//! while it is dropped; runs freed and claimed while a recoverer stands still; one freeze behind
//! another, and before a full cache; a channel or log dropped by one thread while another leaves it. All by stopping one
//! process, or thread, at a named step and letting the others work.

use crate::support::Dice;
use crate::support::process::{Board, Child, End, until};
use crate::support::scenario::{self, word};
use crate::support::script;
use crate::support::shape::Shape;
use crate::support::standstill::{go_on, stopped};
use crate::support::test_dir::TestDir;
use commonhold::channel::{ChannelOptions, Join, Policy};
use commonhold::log::Written;
use commonhold::log::{LogLevel, LogOptions};
use commonhold::map::{Map, MapOptions, Values};
use commonhold::{ErrorKind, Hold};
use commonhold::{Result, steps};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

const KEY: u32 = 7;
const ABSENT: u64 = u64::MAX;
const DROPPED: u64 = u64::MAX - 1;

fn whole(hold: &Hold) {
    hold.sweep().unwrap();
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

// ---- a reader stopped while everything changes under it ------------------------------------

/// What happens meanwhile, and what the reader may find in the end.
struct Meddling {
    name: &'static str,
    act: fn(&Hold, Shape) -> Result<()>,
    allowed: &'static [u64],
}

fn it(hold: &Hold, shape: Shape) -> Result<Map> {
    hold.maps().open_or_create("it", shape.options())
}

/// Sets `count` other keys to version 3, which uses memory that was freed again.
fn fill(hold: &Hold, shape: Shape, count: u32) -> Result<()> {
    let map = it(hold, shape)?;
    (0..count)
        .map(|n| KEY + 1 + n)
        .try_for_each(|id| map.set(shape.key(id), shape.value(id, shape.fit(3))).map(drop))
}

const MEDDLINGS: &[Meddling] = &[
    Meddling {
        name: "update",
        act: |hold, shape| it(hold, shape)?.set(shape.key(KEY), shape.value(KEY, 2)).map(drop),
        allowed: &[1, 2],
    },
    Meddling {
        name: "many updates",
        act: |hold, shape| {
            let map = it(hold, shape)?;
            (0..200)
                .try_for_each(|n| map.set(shape.key(KEY), shape.value(KEY, 2 - n % 2)).map(drop))
        },
        allowed: &[1, 2],
    },
    Meddling {
        name: "delete and fill",
        act: |hold, shape| {
            it(hold, shape)?.delete(shape.key(KEY))?;
            fill(hold, shape, 100)
        },
        allowed: &[1, ABSENT],
    },
    Meddling {
        name: "growth",
        act: |hold, shape| fill(hold, shape, if shape == Shape::Big { 200 } else { 8000 }),
        allowed: &[1],
    },
    Meddling {
        name: "clear and fill",
        act: |hold, shape| {
            it(hold, shape)?.clear()?;
            fill(hold, shape, 100)
        },
        allowed: &[1, ABSENT],
    },
    Meddling {
        name: "compaction",
        act: |hold, shape| {
            fill(hold, shape, 2000)?;
            let map = it(hold, shape)?;
            (0..2000).try_for_each(|n| map.delete(shape.key(KEY + 1 + n)).map(drop))?;
            hold.trim().map(drop)
        },
        allowed: &[1],
    },
    Meddling {
        name: "deletion, and memory given back",
        act: |hold, shape| {
            // More than the blocks that every hold keeps.
            let count = if shape == Shape::Big { 400 } else { 80_000 };
            fill(hold, shape, count)?;
            let map = it(hold, shape)?;
            map.clear()?;
            // A hold with a cache keeps its memory, and a map its segments, in which fixed pairs lie.
            // Short pairs are fewer bytes than those blocks.
            let kept = matches!(shape, Shape::Cache | Shape::Fixed(..) | Shape::Short);
            until("memory is given back", || kept || hold.trim().unwrap() > 0);
            Ok(())
        },
        allowed: &[1, ABSENT],
    },
    Meddling {
        name: "drop",
        act: |hold, _| hold.maps().drop("it").map(drop),
        allowed: &[1, DROPPED],
    },
    Meddling {
        name: "drop and reuse",
        act: |hold, shape| {
            hold.maps().drop("it")?;
            // The same key in the same place, with another value, and the old record's memory used again.
            it(hold, shape)?.set(shape.key(KEY), shape.value(KEY, 2))?;
            fill(hold, shape, 300)
        },
        allowed: &[1, DROPPED],
    },
];

/// A way to look the key up: its value if it is there.
type Way = fn(&Map, Shape) -> Result<Option<Vec<u8>>>;

const WAYS: &[(&str, Way)] = &[
    ("get", |map, shape| map.get(shape.key(KEY))),
    ("get_many", |map, shape| {
        let mut values = Values::new();
        map.get_many(&[shape.key(KEY)], &mut values)?;
        Ok(values.get(0).map(<[u8]>::to_vec))
    }),
    ("iteration", |map, shape| {
        for pair in map.iter() {
            let (key, value) = pair?;
            if shape.id(&key) == Ok(KEY) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }),
];

fn look(map: &Map, shape: Shape, way: Way) -> u64 {
    match way(map, shape) {
        Ok(Some(value)) => script::read(shape, KEY, &value),
        Ok(None) => ABSENT,
        Err(e) if e.kind() == ErrorKind::NotFound => DROPPED,
        Err(e) => panic!("{e:?}"),
    }
}

/// Stops a reader at the step, lets the meddler act, and sees what the reader says then.
fn meet(shape: Shape, step: &str, (how, way): (&str, Way), meddling: &Meddling, read_only: bool) {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(1));
    let what = format!("{shape:?}, {how} stopped at {step}, {}", meddling.name);
    let hold = Hold::create(&path).unwrap();
    it(&hold, shape).unwrap().set(shape.key(KEY), shape.value(KEY, 1)).unwrap();
    let mut reader = Child::run(format!("reader; {what}"), || {
        let hold = Hold::options().read_only(read_only).open(&path).unwrap();
        let map = hold.maps().open("it").unwrap();
        steps::arm(&format!("{step}:stop")).unwrap();
        board.put(0, look(&map, shape, way));
    });
    assert!(reader.wait_stopped(), "{what}: it does not pass");
    (meddling.act)(&hold, shape).unwrap();
    reader.signal(Signal::SIGCONT);
    reader.finish();
    let found = board.get(0);
    assert!(
        meddling.allowed.contains(&found),
        "{what}: {found}, not one of {:?}",
        meddling.allowed
    );
    whole(&hold);
}

#[test]
fn a_stopped_reader_finds_what_was_there_or_what_is() {
    for shape in [Shape::General, Shape::Short, Shape::Big, Shape::Fixed(16, 16), Shape::Cache] {
        for step in ["read.found", "read.copied"] {
            for (number, way) in WAYS.iter().enumerate() {
                for meddling in MEDDLINGS {
                    // Iteration may have passed the place, or end early in a map that was dropped.
                    let read_only = number % 2 == 0;
                    meet(shape, step, *way, meddling, read_only);
                }
            }
        }
    }
}

// ---- a map bound by name while it is dropped -----------------------------------------------

const PAIRS: u32 = 40;

fn fill_it(hold: &Hold, version: u64) {
    let map = it(hold, Shape::General).unwrap();
    for id in 0..PAIRS {
        map.set(Shape::General.key(id), Shape::General.value(id, version)).unwrap();
    }
}

/// Everything that a handle of the map says while it is being dropped: right values, or that it is gone.
fn looks_right(map: Result<Map>, what: &str) {
    let gone = |e: &commonhold::Error| e.kind() == ErrorKind::NotFound;
    let map = match map {
        Ok(map) => map,
        Err(e) => return assert!(gone(&e), "{what}: {e:?}"),
    };
    for id in 0..PAIRS {
        match map.get(Shape::General.key(id)) {
            Ok(Some(value)) => assert_eq!(script::read(Shape::General, id, &value), 1, "{what}"),
            Ok(None) => panic!("{what}: key {id} is absent, but nobody deleted it"),
            Err(e) => assert!(gone(&e), "{what}: {e:?}"),
        }
    }
}

fn drop_stopped_at(step: &str, then: Signal) {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(1));
    let what = format!("dropped, stopped at {step}, then {then}");
    let hold = Hold::create(&path).unwrap();
    fill_it(&hold, 1);
    let old = hold.maps().open("it").unwrap();
    let mut dropper = Child::run(format!("dropper; {what}"), || {
        let hold = Hold::open(&path).unwrap();
        steps::arm(&format!("{step}:stop")).unwrap();
        assert!(hold.maps().drop("it").unwrap());
    });
    assert!(dropper.wait_stopped(), "{what}: it does not pass");
    looks_right(hold.maps().open("it"), &what);
    looks_right(Ok(old), &what);
    assert!(hold.maps().list().unwrap().len() <= 1);
    // Who wants a map of that name waits for the dropper, dead or alive, and gets a new one.
    let maker = Child::run(format!("maker; {what}"), || {
        let hold = Hold::open(&path).unwrap();
        board.put(0, 1);
        let map = it(&hold, Shape::General).unwrap();
        assert_eq!((map.len().unwrap(), map.iter().count()), (0, 0), "a new map is empty");
        fill_it(&hold, 2);
    });
    until("the maker is at it", || board.get(0) == 1 || maker.is_gone());
    dropper.signal(then);
    let killed = then == Signal::SIGKILL;
    assert_eq!(dropper.wait(), if killed { End::By(then) } else { End::Well }, "{what}");
    maker.finish();
    let map = hold.maps().open("it").unwrap();
    for id in 0..PAIRS {
        let value = map.get(Shape::General.key(id)).unwrap().expect("a pair of the new map");
        assert_eq!(script::read(Shape::General, id, &value), 2, "{what}");
    }
    whole(&hold);
}

#[test]
fn a_name_leads_to_a_whole_map_or_to_none_while_it_is_dropped() {
    for step in steps::ALL.iter().filter(|s| s.starts_with("drop.")) {
        drop_stopped_at(step, Signal::SIGCONT);
        drop_stopped_at(step, Signal::SIGKILL);
    }
}

// ---- runs freed and claimed while a recoverer stands still ---------------------------------

/// Large values come and go until told to stop.
fn churn(path: &Path, board: &Board) {
    let (_hold, map) = scenario::open(path, Shape::Big);
    let mut dice = Dice::new(11);
    let first = scenario::first(2);
    let mut version = 1;
    while board.get(word::ORDER) == 0 {
        let id = first + dice.below(8) as u32;
        version += 1;
        map.set(Shape::Big.key(id), Shape::Big.value(id, version)).unwrap();
        let found = map.get(Shape::Big.key(id)).unwrap().expect("a value just set");
        assert_eq!(script::read(Shape::Big, id, &found), version);
        if dice.one_in(3) {
            assert!(map.delete(Shape::Big.key(id)).unwrap());
        }
        board.count(word::PROGRESS, 1);
    }
}

fn recoverer_stands_still(step: &str, time: u32, recovering: &str) {
    const VICTIM: u32 = 1;
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(word::ALL));
    let scenario = scenario::by_name("large");
    let what = format!("killed at {step}, recoverer stopped at {recovering}");
    let churner = Child::run(format!("churner; {what}"), || churn(&path, &board));
    until("large values come and go", || board.get(word::PROGRESS) > 3 || churner.is_gone());
    let mut victim = Child::run(format!("victim; {what}"), || {
        steps::arm(&format!("{step}:kill:{time}")).unwrap();
        scenario.run(&path, VICTIM, &board, word::VICTIM);
    });
    victim.wait();
    let mut recoverer = Child::run(format!("recoverer; {what}"), || {
        steps::arm(&format!("{recovering}:stop")).unwrap();
        Hold::open(&path).unwrap().sweep().unwrap();
    });
    if recoverer.wait_stopped() {
        // The churner goes on unless it needs what is being recovered; then it waits, and that is right.
        let (before, late) =
            (board.get(word::PROGRESS), Instant::now() + Duration::from_millis(50));
        until("the churner has worked or waits", || {
            board.get(word::PROGRESS) > before + 20 || Instant::now() > late
        });
        recoverer.signal(Signal::SIGCONT);
    }
    recoverer.finish();
    let goes_on = board.get(word::PROGRESS) + 5;
    until("the churner goes on", || board.get(word::PROGRESS) > goes_on || churner.is_gone());
    board.put(word::ORDER, 1);
    churner.finish();
    let hold = Hold::open(&path).unwrap();
    scenario.verify(&hold, VICTIM, &board, word::VICTIM, &what);
    whole(&hold);
}

#[test]
fn runs_come_and_go_while_a_recoverer_stands_still() {
    let recovering: Vec<_> = steps::ALL.iter().filter(|s| s.starts_with("recover.")).collect();
    let killed =
        ["run.head-claimed", "run.claimed", "run.body-freed", "write.sequenced", "write.committed"];
    for (number, step) in (1..).zip(killed) {
        for recovering in &recovering {
            recoverer_stands_still(step, number % 3 + 1, recovering);
        }
    }
}

// ---- freezing ------------------------------------------------------------------------------

/// One process freezes the hold and does `inside`; another begins its `wish` and has to wait: nothing changes
/// until the first goes on or is killed.
fn freeze_keeps_out(path: &Path, shape: Shape, inside: impl Fn(&Hold), wish: impl Fn(&Hold)) {
    const FROZEN: usize = 0;
    const MAY_GO: usize = 1;
    const BEGUN: usize = 2;
    const DONE: usize = 3;
    let hold = Hold::open(path).unwrap();
    let map = it(&hold, shape).unwrap();
    let keys = || map.keys().map(Result::unwrap).collect::<BTreeSet<_>>();
    for end in [End::Well, End::By(Signal::SIGKILL)] {
        let board = Board::new(4);
        let mut first = Child::run("who freezes", || {
            let hold = Hold::open(path).unwrap();
            let _frozen = hold.freeze().unwrap();
            inside(&hold);
            board.put(FROZEN, 1);
            until("told to go on", || board.get(MAY_GO) == 1);
        });
        until("the hold is frozen", || board.get(FROZEN) == 1 || first.is_gone());
        let before = keys();
        let second = Child::run("who waits", || {
            let hold = Hold::open(path).unwrap();
            board.put(BEGUN, 1);
            wish(&hold);
            board.put(DONE, 1);
        });
        until("the second has begun", || board.get(BEGUN) == 1 || second.is_gone());
        // Time to do what it must not do; whatever it needs, the test cannot fail for want of it.
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(board.get(DONE), 0, "the second did not wait");
        assert!(keys() == before, "a frozen hold changed");
        match end {
            End::Well => board.put(MAY_GO, 1),
            _ => first.signal(Signal::SIGKILL),
        }
        assert_eq!(first.wait(), end);
        second.finish();
        whole(&hold);
    }
}

/// The root that a backup was about to read belongs to a map that is only half made by then.
#[test]
fn a_backup_does_not_read_a_map_that_is_made_again() {
    let (test_dir, board) = (TestDir::memory(), Board::new(1));
    let (path, backup) = (test_dir.path("it.hold"), test_dir.path("backup"));
    let hold = Hold::create(&path).unwrap();
    let fixed = MapOptions::fixed(4, 4);
    hold.maps().open_or_create("it", fixed).unwrap().set("key1", "old1").unwrap();
    let mut saves = stopped("bind.live", || {
        let patience = Duration::from_millis(50);
        let hold = Hold::options().lock_timeout(patience).open(&path).unwrap();
        // The other process has the lock of the names.
        let error = hold.backup(&backup).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        board.put(0, 1);
        until("the map is there", || board.get(0) == 2);
        hold.backup(&backup).unwrap();
    });
    assert!(hold.maps().drop("it").unwrap());
    let makes = stopped("create.claimed", || {
        let hold = Hold::open(&path).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        map.set("another key", "new").unwrap();
    });
    saves.signal(Signal::SIGCONT);
    until("it waits for the names", || board.get(0) == 1 || saves.is_gone());
    go_on(makes);
    board.put(0, 2);
    assert_eq!(saves.wait(), End::Well);
    commonhold::hold::restore(&backup, test_dir.path("again.hold")).unwrap();
    let again = Hold::open(test_dir.path("again.hold")).unwrap();
    let map = again.maps().open("it").unwrap();
    assert_eq!(map.get("another key").unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_second_freeze_waits_for_the_first() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    fill_it(&Hold::create(&path).unwrap(), 1);
    let busy = |hold: &Hold| {
        assert_eq!(hold.freeze().err().expect("an error").kind(), ErrorKind::Busy);
    };
    freeze_keeps_out(&path, Shape::General, busy, |hold| drop(hold.freeze().unwrap()));
}

#[test]
fn a_full_cache_evicts_nothing_while_frozen() {
    const MOST: u64 = 300;
    let shape = Shape::Evicting(MOST);
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    fill(&Hold::create(&path).unwrap(), shape, 1000).unwrap();
    let busy = |hold: &Hold| {
        let error = fill(hold, shape, 1).expect_err("frozen by this very thread");
        assert_eq!(error.kind(), ErrorKind::Busy);
    };
    freeze_keeps_out(&path, shape, busy, |hold| {
        let map = it(hold, shape).unwrap();
        for id in 5000..5100 {
            map.set(shape.key(id), shape.value(id, 3)).unwrap();
        }
        assert!(map.len().unwrap() <= MOST);
    });
}

// ---- a channel or log dropped by one thread while another leaves it --------------------------

/// `leave` passes `step` in the middle; meanwhile another thread of the process begins `remove`, which has to wait.
fn removal_waits(what: &str, step: &'static str, leave: fn(&Hold), remove: fn(&Hold) -> bool) {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    Child::run(what, || {
        let hold: &'static Hold = Box::leak(Box::new(Hold::create(&path).unwrap()));
        let removed: &'static Board = Box::leak(Box::new(Board::new(2)));
        steps::observe(move |name| {
            if name == step && removed.count(0, 1) == 1 {
                std::thread::spawn(move || removed.put(1, 1 + u64::from(remove(hold))));
                // Time to do what it must not do; whatever it needs, the test cannot fail for want of it.
                std::thread::sleep(Duration::from_millis(100));
                assert_eq!(removed.get(1), 0, "removed while a thread was in the middle of {step}");
            }
        });
        leave(hold);
        until("it is removed", || removed.get(1) != 0);
        assert_eq!((removed.get(0), removed.get(1)), (1, 2), "{step} once, then removed");
        whole(hold);
    })
    .finish();
}

#[test]
fn a_channel_stays_while_a_consumer_leaves_it() {
    let leave = |hold: &Hold| {
        let channel = hold.channels().open_or_create("it", ChannelOptions::new(4096)).unwrap();
        drop(channel.consumer(Join::Now, Policy::Lossless).unwrap());
    };
    let remove = |hold: &Hold| hold.channels().drop("it").unwrap();
    removal_waits("a consumer leaves", "channel.line-left", leave, remove);
}

#[test]
fn a_log_stays_while_a_refused_line_is_counted() {
    let leave = |hold: &Hold| {
        let log =
            hold.logs().open_or_create("it", LogOptions::new().rings(1).ring_bytes(4096)).unwrap();
        assert!(log.prepare().unwrap());
        let other = log.clone();
        let second = std::thread::spawn(move || other.write(LogLevel::Error, "no ring is free"));
        assert_eq!(second.join().unwrap().unwrap(), Written::Dropped);
    };
    let remove = |hold: &Hold| hold.logs().drop("it").unwrap();
    removal_waits("a line is refused", "log.refused", leave, remove);
}
