//! Following a map: every change, once, in each key's order; positions; being lapped; the map's end.

use crate::support::Dice;
#[cfg(feature = "steps")]
use crate::support::process::End;
use crate::support::process::{Board, Child, until};
use crate::support::refused;
use crate::support::shape::Shape;
use crate::support::test_dir::TestDir;
use commonhold::map::{Map, MapMode, MapOptions};
use commonhold::raw::fit_stream;
use commonhold::stream::{ChangeKind, Follower, StreamPosition};
use commonhold::{ErrorKind, Hold};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::time::Duration;

const SHAPES: [Shape; 4] = [Shape::General, Shape::Fixed(4, 4), Shape::Fixed(16, 16), Shape::Cache];

fn make(shape: Shape, bytes: u64) -> (TestDir, Hold, Map) {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", shape.options()).unwrap();
    assert!(hold.maps().begin_stream("it", bytes).unwrap());
    (test_dir, hold, map)
}

/// What a follower has been told.
#[derive(Default)]
struct Told {
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    frames: u64,
}

impl Told {
    /// Takes what there is, at most up to a position.
    fn take(&mut self, follower: &mut Follower, end: StreamPosition) -> commonhold::Result<()> {
        while follower.position() != end {
            let frame = follower.try_recv()?.expect("a frame before the end");
            match frame.kind {
                ChangeKind::Set => drop(self.pairs.insert(frame.key.into(), frame.value.into())),
                _ => drop(self.pairs.remove(frame.key)),
            }
            self.frames += 1;
        }
        Ok(())
    }
}

fn pairs(map: &Map) -> BTreeMap<Vec<u8>, Vec<u8>> {
    map.iter().map(Result::unwrap).collect()
}

#[test]
fn each_kind_of_change_is_in_the_stream() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    map.set("before", "1").unwrap();
    refused(map.follow(), ErrorKind::NotFound, "no stream");
    assert!(hold.maps().begin_stream("it", 1).unwrap());
    assert!(!hold.maps().begin_stream("it", 0).unwrap(), "it has one already");
    assert!(!hold.maps().begin_stream("it", 1 << 16).unwrap(), "it has this one already");
    let mut follower = map.follow().unwrap();
    assert_eq!(follower.try_recv().unwrap(), None);

    map.set("a", "1").unwrap();
    assert!(map.add("b", 5i64.to_le_bytes()).unwrap().is_some());
    assert!(map.add("b", "2").unwrap().is_none());
    assert!(map.replace("a", "3").unwrap().is_some());
    assert!(map.replace("c", "3").unwrap().is_none());
    assert!(map.compare_exchange("a", Some(b"3"), Some(b"4")).unwrap());
    assert!(!map.compare_exchange("a", Some(b"3"), Some(b"5")).unwrap());
    map.increment("b", 2).unwrap();
    map.set_many(&[("d", ""), ("e", "5")]).unwrap();
    map.update("e", |_| Some(b"6".to_vec())).unwrap();
    assert!(map.delete("a").unwrap());
    assert!(!map.delete("a").unwrap());
    assert!(map.take("d").unwrap().is_some());
    use ChangeKind::{Clear, Delete, Set};
    let seven = 7i64.to_le_bytes();
    for (kind, key, value) in [
        (Set, "a", &b"1"[..]),
        (Set, "b", &5i64.to_le_bytes()),
        (Set, "a", b"3"),
        (Set, "a", b"4"),
        (Set, "b", &seven),
        (Set, "d", b""),
        (Set, "e", b"5"),
        (Set, "e", b"6"),
        (Delete, "a", b""),
        (Delete, "d", b""),
    ] {
        let frame = follower.try_recv().unwrap().unwrap();
        assert_eq!((frame.kind, frame.key, frame.value), (kind, key.as_bytes(), value));
        assert_eq!(frame.expires_ms, 0);
    }
    assert_eq!(follower.try_recv().unwrap(), None);
    assert_eq!(map.clear().unwrap(), 3);
    let mut cleared = Vec::new();
    while let Some(frame) = follower.try_recv().unwrap() {
        assert_eq!(frame.kind, Clear);
        cleared.push(frame.key.to_vec());
    }
    cleared.sort();
    assert_eq!(cleared, [&b"b"[..], b"before", b"e"]);
    assert!(hold.check().unwrap().ok);
}

#[test]
fn caches_report_evictions() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::cache().max_entries(10)).unwrap();
    hold.maps().begin_stream("it", 1 << 20).unwrap();
    let mut follower = map.follow().unwrap();
    map.set_with_ttl("short", "1", Duration::from_millis(1)).unwrap();
    let frame = follower.try_recv().unwrap().unwrap();
    assert!(frame.kind == ChangeKind::Set && frame.expires_ms > 1_600_000_000_000, "{frame:?}");
    std::thread::sleep(Duration::from_millis(5));
    let mut seen = Vec::new();
    for n in 0..200u32 {
        map.set(n.to_le_bytes(), "2").unwrap();
        while let Some(frame) = follower.try_recv().unwrap() {
            seen.push((frame.kind, frame.key.to_vec()));
        }
    }
    assert_eq!(seen.iter().filter(|(kind, _)| *kind == ChangeKind::Set).count(), 200);
    assert!(seen.contains(&(ChangeKind::Expire, b"short".to_vec())), "{seen:?}");
    assert!(seen.iter().filter(|(kind, _)| *kind == ChangeKind::Evict).count() >= 189);
}

#[test]
fn a_follower_has_what_the_map_has_in_every_mode() {
    for shape in SHAPES {
        // Smaller than what is told: the ring goes round many times.
        let (_test_dir, hold, map) = make(shape, 1 << 16);
        let (mut follower, mut told, mut dice) =
            (map.follow().unwrap(), Told::default(), Dice::new(1));
        for turn in 1..20_000u64 {
            let id = dice.below(2000) as u32;
            match dice.below(4) {
                0 => drop(map.delete(shape.key(id)).unwrap()),
                _ => drop(map.set(shape.key(id), shape.value(id, shape.fit(turn))).unwrap()),
            }
            if turn % 100 == 0 {
                let end = follower.end().unwrap();
                told.take(&mut follower, end).unwrap();
            }
        }
        let end = follower.end().unwrap();
        told.take(&mut follower, end).unwrap();
        assert_eq!(told.pairs, pairs(&map), "{shape:?}");
        assert!(end.offset > 10 << 16 && told.frames > 10_000, "{shape:?}: {end}");
        let report = hold.check().unwrap();
        assert!(report.ok && report.allocated == report.reachable, "{report:?}");
    }
}

#[test]
fn a_follower_that_first_reads_the_map_misses_nothing() {
    for shape in SHAPES {
        let (test_dir, hold, map) = make(shape, 32 << 20);
        let board = Board::new(1);
        let path = test_dir.path("it.hold");
        let writers: Vec<Child> = (1..3u32)
            .map(|actor| {
                Child::run("writer", || {
                    let map = Hold::open(&path).unwrap().maps().open("it").unwrap();
                    let mut dice = Dice::new(actor.into());
                    for turn in 1..30_000u64 {
                        // Both write all keys.
                        let id = dice.below(3000) as u32;
                        match dice.below(5) {
                            0 => drop(map.delete(shape.key(id)).unwrap()),
                            _ => drop(
                                map.set(shape.key(id), shape.value(id, shape.fit(turn))).unwrap(),
                            ),
                        }
                        board.count(0, 1);
                    }
                })
            })
            .collect();
        until("they write", || board.get(0) > 1000);
        let mut follower = map.follow().unwrap();
        // A reading of the map while they write, then what they did meanwhile.
        let mut told = Told { pairs: pairs(&map), frames: 0 };
        let end = follower.end().unwrap();
        told.take(&mut follower, end).unwrap();
        writers.into_iter().for_each(Child::finish);
        let end = follower.end().unwrap();
        told.take(&mut follower, end).unwrap();
        assert_eq!(told.pairs, pairs(&map), "{shape:?}");
        assert!(hold.check().unwrap().ok);
    }
}

#[test]
fn positions_are_kept_and_come_back_to() {
    let (test_dir, hold, map) = make(Shape::General, 1 << 20);
    let mut follower = map.follow().unwrap();
    map.set("a", "1").unwrap();
    map.set("b", "2").unwrap();
    assert_eq!(follower.recv().unwrap().key, b"a");
    let text = follower.position().to_string();
    Child::run("another process", || {
        let map = Hold::open(test_dir.path("it.hold")).unwrap().maps().open("it").unwrap();
        let mut follower = map.follow_from(text.parse().unwrap()).unwrap();
        assert_eq!(follower.recv().unwrap().key, b"b");
        assert_eq!(follower.recv_timeout(Duration::from_millis(10)).unwrap(), None);
    })
    .finish();
    // Who may only read may follow.
    let reader = Hold::options().read_only(true).open(test_dir.path("it.hold")).unwrap();
    let mut reading = reader.maps().open("it").unwrap().follow_from(follower.position()).unwrap();
    assert_eq!(reading.recv().unwrap().key, b"b");
    assert_eq!(reading.recv_timeout(Duration::from_millis(10)).unwrap(), None);
    map.set("c", "3").unwrap();
    assert_eq!(reading.recv().unwrap().key, b"c");

    let here = follower.position();
    let wrong = StreamPosition { stream: here.stream ^ 1, ..here };
    refused(map.follow_from(wrong), ErrorKind::Mismatch, &wrong.to_string());
    let between = StreamPosition { offset: here.offset - 8, ..here };
    refused(map.follow_from(between), ErrorKind::Mismatch, "no frame");
    let ahead = StreamPosition { offset: 1 << 30, ..here };
    refused(map.follow_from(ahead), ErrorKind::Mismatch, "no position");
    // A map of the same name has another stream.
    assert!(hold.maps().drop("it").unwrap());
    refused(follower.try_recv(), ErrorKind::NotFound, "dropped");
    refused(follower.recv(), ErrorKind::NotFound, "dropped");
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    hold.maps().begin_stream("it", 1 << 20).unwrap();
    refused(map.follow_from(here), ErrorKind::Mismatch, "no position");
    // So has a copy of the hold.
    let (stream, copy) = (map.follow().unwrap().position().stream, test_dir.path("copy.hold"));
    drop((reading, reader, follower, map));
    let path = hold.path().to_owned();
    hold.close().unwrap();
    std::fs::copy(&path, &copy).unwrap();
    let of =
        |path| Hold::open(path).unwrap().maps().open("it").unwrap().follow().unwrap().position();
    assert_ne!(of(&copy).stream, stream);
    assert_eq!(of(&path).stream, stream);
}

#[test]
fn a_follower_that_is_too_slow_gets_an_error() {
    let (_test_dir, _hold, map) = make(Shape::General, 1 << 16);
    let mut follower = map.follow().unwrap();
    let beginning = follower.position();
    for id in 0..5000u32 {
        map.set(id.to_le_bytes(), "a value").unwrap();
    }
    refused(follower.try_recv(), ErrorKind::Lapped, "65536 bytes");
    refused(follower.recv(), ErrorKind::Lapped, "follow it again");
    refused(map.follow_from(beginning), ErrorKind::Lapped, "behind");
    let (lag, kept) = follower.lag_bytes().unwrap();
    assert!(lag > kept && kept == 1 << 16);
    // What is kept is told from any frame on.
    let mut follower = map.follow().unwrap();
    map.set("more", "").unwrap();
    assert_eq!(follower.recv().unwrap().key, b"more");
}

#[test]
fn a_change_that_does_not_fit_is_a_gap() {
    let (_test_dir, _hold, map) = make(Shape::General, 1 << 16);
    let mut follower = map.follow().unwrap();
    map.set("large", vec![1; 20_000]).unwrap();
    map.set("small", vec![2; 10_000]).unwrap();
    assert_eq!(map.get("large").unwrap().unwrap().len(), 20_000);
    let frame = follower.recv().unwrap();
    assert_eq!((frame.kind, frame.key, frame.value), (ChangeKind::Gap, &b""[..], &b""[..]));
    assert_eq!(follower.recv().unwrap().key, b"small");
}

#[test]
fn a_follower_that_waits_is_woken() {
    let (test_dir, hold, map) = make(Shape::General, 1 << 20);
    let (path, board) = (test_dir.path("it.hold"), Board::new(1));
    let follower = Child::run("follower", || {
        let map = Hold::open(&path).unwrap().maps().open("it").unwrap();
        let mut follower = map.follow().unwrap();
        board.put(0, 1);
        for n in 0..200u32 {
            assert_eq!(follower.recv().unwrap().key, n.to_le_bytes());
            board.put(0, n as u64 + 2);
        }
        let error = follower.recv().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
    for n in 0..200u32 {
        until("it waits", || board.get(0) == n as u64 + 1 || follower.is_gone());
        map.set(n.to_le_bytes(), "").unwrap();
    }
    until("all is told", || board.get(0) == 201 || follower.is_gone());
    assert!(hold.maps().drop("it").unwrap());
    follower.finish();
}

#[test]
fn followers_hold_up_nobody() {
    let (test_dir, hold, map) = make(Shape::General, 1 << 16);
    let path = test_dir.path("it.hold");
    let followers: Vec<(Board, Child)> = (0..4)
        .map(|_| {
            let board = Board::new(1);
            let child = Child::run("follower", || {
                let map = Hold::open(&path).unwrap().maps().open("it").unwrap();
                let mut follower = map.follow().unwrap();
                loop {
                    board.count(0, 1);
                    match follower.recv().map(|frame| frame.value.to_vec()) {
                        Ok(value) => assert!(value.iter().all(|byte| *byte == value[0])),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Lapped);
                            follower = map.follow().unwrap();
                        }
                    }
                }
            });
            (board, child)
        })
        .collect();
    let mut dice = Dice::new(9);
    for (board, child) in followers {
        until("it follows", || board.get(0) > 0 || child.is_gone());
        for n in 0..3000u32 {
            map.set(dice.below(100).to_le_bytes(), vec![n as u8; 1 + n as usize % 300]).unwrap();
        }
        child.signal(Signal::SIGSTOP);
        for n in 0..3000u32 {
            map.set(dice.below(100).to_le_bytes(), vec![n as u8; 1 + n as usize % 300]).unwrap();
        }
        child.slay();
    }
    hold.sweep().unwrap();
    assert!(hold.check().unwrap().ok);
}

#[test]
fn a_stream_that_cannot_be_is_refused() {
    let (_test_dir, hold, map) = make(Shape::General, 1);
    refused(hold.maps().begin_stream("none", 1 << 20), ErrorKind::NotFound, "none");
    refused(hold.maps().begin_stream("it", 1 << 40), ErrorKind::Invalid, "4 GiB");
    let small = TestDir::memory();
    let full = Hold::options().max_bytes(4 << 20).create(small.path("it.hold")).unwrap();
    full.maps().open_or_create("it", MapOptions::general()).unwrap();
    refused(full.maps().begin_stream("it", 64 << 20), ErrorKind::Full, "");
    assert!(full.maps().begin_stream("it", 1 << 18).unwrap());
    assert!(full.check().unwrap().ok);
    drop(map);
}

#[test]
fn a_stopped_writer_delays_the_writers_of_its_map_and_no_follower() {
    let (test_dir, hold, map) = make(Shape::General, 1 << 20);
    let mut follower = map.follow().unwrap();
    map.set("before", "1").unwrap();
    let mut victim = Child::run("writer", || {
        let map = Hold::open(test_dir.path("it.hold")).unwrap().maps().open("it").unwrap();
        commonhold::steps::arm("stream.armed:stop").unwrap();
        map.set("stopped", "2").unwrap();
    });
    assert!(victim.wait_stopped());
    assert_eq!(follower.recv().unwrap().key, b"before");
    assert_eq!(follower.try_recv().unwrap(), None);
    let patient = Hold::options().lock_timeout(Duration::from_millis(50));
    let other = patient.open(test_dir.path("it.hold")).unwrap().maps().open("it").unwrap();
    for n in 0..20u32 {
        // Whichever lock it waits for.
        refused(other.set(n.to_le_bytes(), ""), ErrorKind::TimedOut, "stopped?");
    }
    assert_eq!(other.get("stopped").unwrap(), None);
    victim.signal(Signal::SIGKILL);
    victim.wait();
    other.set("after", "3").unwrap();
    assert_eq!(follower.recv().unwrap().key, b"after");
    assert_eq!(map.get("stopped").unwrap(), None);
    drop(other);
    hold.sweep().unwrap();
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

#[test]
fn a_stream_of_another_size_begins_again() {
    for bytes in [1 << 18, 1 << 22] {
        let (_test_dir, hold, map) = make(Shape::General, 1 << 20);
        map.set("before", "1").unwrap();
        let (mut follower, feed) = (map.follow().unwrap(), map.follow().unwrap().into_feed());
        let position = follower.position();
        map.set("unread", "2").unwrap();
        assert!(hold.maps().begin_stream("it", bytes).unwrap());
        refused(follower.try_recv(), ErrorKind::Lapped, "another size");
        refused(follower.end(), ErrorKind::Lapped, "another size");
        refused(feed.pending(u64::MAX, 100), ErrorKind::Lapped, "another size");
        refused(map.follow_from(position), ErrorKind::Mismatch, "no position");
        let mut follower = map.follow().unwrap();
        assert_eq!(follower.lag_bytes().unwrap(), (0, bytes));
        assert_eq!(map.get("unread").unwrap().as_deref(), Some(&b"2"[..]));
        map.set("behind", "3").unwrap();
        assert_eq!(follower.try_recv().unwrap().unwrap().key, b"behind");
        assert!(!hold.maps().begin_stream("it", bytes).unwrap());
        let report = hold.check().unwrap();
        assert!(report.ok && report.allocated == report.reachable, "{report:?}");
    }
}

#[test]
fn a_stream_becomes_large_enough_for_the_largest_change() {
    let (_test_dir, hold, map) = make(Shape::General, 1 << 16);
    assert!(!fit_stream(&map).unwrap());
    map.set("large", vec![7; 1 << 18]).unwrap();
    map.set("larger", vec![7; 1 << 19]).unwrap();
    map.set("large", vec![8; 1 << 18]).unwrap();
    assert!(fit_stream(&map).unwrap());
    assert!(!fit_stream(&map).unwrap());
    let mut follower = map.follow().unwrap();
    map.set("larger", vec![9; 1 << 19]).unwrap();
    assert_eq!(follower.try_recv().unwrap().unwrap().kind, ChangeKind::Set);
    assert!(hold.check().unwrap().ok);
}

#[test]
fn a_check_while_a_stream_begins_finds_nothing_wrong() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let mut beginner = Child::run("beginner", || {
        let hold = Hold::open(test_dir.path("it.hold")).unwrap();
        commonhold::steps::arm("stream.claimed-memory:stop").unwrap();
        assert!(hold.maps().begin_stream("it", 1 << 20).unwrap());
    });
    assert!(beginner.wait_stopped());
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
    map.set("nobody", "waits").unwrap();
    beginner.signal(Signal::SIGCONT);
    beginner.finish();
    assert_eq!(map.follow().unwrap().try_recv().unwrap(), None);
    assert!(hold.check().unwrap().ok);
}

/// The writer has its segment's lock and is about to ask whether the hold is frozen. The process
/// that begins the stream has seen that lock free before.
#[test]
fn a_change_that_meets_the_beginning_of_a_stream_is_in_it() {
    for options in [MapOptions::general(), MapOptions::fixed(3, 3), MapOptions::fixed(3, 20)] {
        change_that_meets_the_beginning_of_a_stream(options);
    }
}

fn change_that_meets_the_beginning_of_a_stream(options: MapOptions) {
    let padded = |text: &str| match options.mode() {
        MapMode::Fixed { value_bytes: bytes, .. } => format!("{text:0$}", bytes as usize),
        _ => text.to_owned(),
    };
    let (test_dir, board) = (TestDir::memory(), Board::new(1));
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", options.clone()).unwrap();
    map.set("key", padded("old")).unwrap();
    let mut writer = Child::run("writer", || {
        let hold = Hold::open(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().open("it").unwrap();
        // The first change finds memory; the next one takes the short way.
        map.set("key", padded("hot")).unwrap();
        board.put(0, 1);
        until("the hold is frozen", || board.get(0) == 2);
        commonhold::steps::arm("short.locked:stop").unwrap();
        map.set("key", padded("new")).unwrap();
    });
    until("the writer is warm", || board.get(0) == 1 || writer.is_gone());
    let mut beginner = Child::run("beginner", || {
        let hold = Hold::open(test_dir.path("it.hold")).unwrap();
        commonhold::steps::arm("stream.frozen:stop").unwrap();
        assert!(hold.maps().begin_stream("it", 1 << 20).unwrap());
    });
    assert!(beginner.wait_stopped());
    board.put(0, 2);
    assert!(writer.wait_stopped());
    beginner.signal(Signal::SIGCONT);
    beginner.finish();
    let mut follower = map.follow().unwrap();
    writer.signal(Signal::SIGCONT);
    writer.finish();
    let frame = follower.try_recv().unwrap().expect("the change is not in the stream");
    assert_eq!((frame.key, frame.value), (&b"key"[..], padded("new").as_bytes()));
}

/// The next beginning of the stream gives it the size that it had.
#[test]
#[cfg(feature = "steps")]
fn a_resizing_that_is_killed_leaves_the_size() {
    for step in ["stream.renumbered", "block.unlinked", "stream.ended", "stream.linked"] {
        let (test_dir, hold, map) = make(Shape::General, 1 << 17);
        let mut victim = Child::run(step, || {
            commonhold::steps::arm(&format!("{step}:kill")).unwrap();
            let hold = Hold::open(test_dir.path("it.hold")).unwrap();
            hold.maps().begin_stream("it", 1 << 18).unwrap();
        });
        assert_eq!(victim.wait(), End::By(Signal::SIGKILL), "{step}");
        map.set("a", "1").unwrap();
        hold.maps().begin_stream("it", 0).unwrap();
        let bytes = map.stat().unwrap().stream.unwrap().bytes;
        assert!([1 << 17, 1 << 18].contains(&bytes), "{step}: {bytes}");
        let mut follower = map.follow().unwrap();
        map.set("b", "2").unwrap();
        assert_eq!(follower.recv().unwrap().key, b"b", "{step}");
        // The next map in this root has a size of its own.
        assert!(hold.maps().drop("it").unwrap());
        let map = hold.maps().create("it", MapOptions::general()).unwrap();
        hold.maps().begin_stream("it", 0).unwrap();
        assert_eq!(map.stat().unwrap().stream.unwrap().bytes, 64 << 20, "{step}");
        assert!(hold.check().unwrap().ok, "{step}");
    }
}

/// Nothing fails any more once the old stream has ended.
#[test]
#[cfg(feature = "steps")]
fn a_resizing_that_fails_leaves_the_stream() {
    let (test_dir, _hold, map) = make(Shape::General, 1 << 17);
    for call in 1..4 {
        Child::run("resizing", || {
            let hold = Hold::open(test_dir.path("it.hold")).unwrap();
            commonhold::steps::arm_fault(&format!("os.random:EPERM:once:{call}")).unwrap();
            let _ = hold.maps().begin_stream("it", 1 << (17 + call));
        })
        .finish();
        map.follow().unwrap();
    }
}
