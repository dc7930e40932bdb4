//! Short values that change in place: which ones do, that nobody sees a torn one, and that nothing
//! that remembers a sequence takes the old value for the present one.

use crate::support::process::{Board, Child};
use crate::support::standstill::{PATIENCE, go_on, killed, stopped, timed_out};
use crate::support::test_dir::TestDir;
use crate::support::{Dice, long};
use commonhold::map::{Map, MapOptions, Values};
use commonhold::{Hold, steps};
use std::path::Path;

const STORED: usize = 0;
const DONE: usize = 1;

fn open(path: &Path) -> (Hold, Map) {
    let hold = Hold::open_or_create(path).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    (hold, map)
}

fn whole(hold: &Hold) {
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

/// How many stores in place an update does that follows a set.
fn stores(options: MapOptions, streams: bool, key: &[u8], lengths: [usize; 2]) -> u64 {
    let (test_dir, board) = (TestDir::memory(), Board::new(1));
    let board: &'static Board = Box::leak(Box::new(board));
    Child::run(format!("{} + {lengths:?}", key.len()), || {
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().create("it", options).unwrap();
        if streams {
            hold.maps().begin_stream("it", 1 << 20).unwrap();
        }
        map.set(key, vec![1; lengths[0]]).unwrap();
        steps::observe(|name| {
            board.count(STORED, u64::from(name == "replace.committed"));
        });
        map.set(key, vec![2; lengths[1]]).unwrap();
        assert_eq!(map.get(key).unwrap(), Some(vec![2; lengths[1]]));
        whole(&hold);
    })
    .finish();
    board.get(STORED)
}

#[test]
fn values_that_one_load_reads_change_in_place() {
    let general =
        |key: usize, lengths| stores(MapOptions::general(), false, &vec![7; key], lengths);
    for (key, len) in [(4, 4), (8, 8), (0, 8), (16, 8), (12, 4), (3, 1), (6, 2), (2, 2), (5, 1)] {
        assert_eq!(general(key, [len, len]), 1, "{key} + {len}");
    }
    // At no multiple of its length, of a length that takes several loads, or of another length.
    for (key, lengths) in [(4, [8, 8]), (3, [2, 2]), (6, [4, 4]), (8, [3, 3]), (8, [0, 0])] {
        assert_eq!(general(key, lengths), 0, "{key} + {lengths:?}");
    }
    for lengths in [[4, 8], [8, 4], [16, 16]] {
        assert_eq!(general(8, lengths), 0, "{lengths:?}");
    }
    assert_eq!(stores(MapOptions::general(), true, &[7; 8], [8, 8]), 0, "a follower needs a frame");
    assert_eq!(stores(MapOptions::cache().into(), false, &[7; 8], [8, 8]), 0, "a new expiry");
}

#[test]
fn numbers_are_added_in_place() {
    let test_dir = TestDir::memory();
    let (hold, map) = open(&test_dir.path("it.hold"));
    for key in [&b"12345678"[..], b"1234"] {
        assert_eq!(map.increment(key, 5).unwrap(), 5);
        assert_eq!(map.increment(key, -7).unwrap(), -2);
        assert_eq!(map.get(key).unwrap().unwrap(), (-2i64).to_le_bytes());
        map.set(key, b"text").unwrap();
        assert!(map.increment(key, 1).is_err());
        assert_eq!(map.get(key).unwrap().unwrap(), b"text");
    }
    whole(&hold);
}

/// Every byte of a value is the same, so a torn one shows.
fn same_bytes(value: &[u8]) -> u8 {
    assert!(value.iter().all(|byte| *byte == value[0]), "torn: {value:?}");
    value[0]
}

fn read_in_every_way(map: &Map, keys: &[Vec<u8>], values: &mut Values) {
    map.get_many(keys, values).unwrap();
    for (number, key) in keys.iter().enumerate() {
        same_bytes(values.get(number).expect("a key that stays"));
        same_bytes(&map.get(key).unwrap().unwrap());
        let uid = map.uid(key).unwrap().unwrap();
        same_bytes(&map.get_uid(uid).unwrap().unwrap().1);
    }
    for pair in map.iter() {
        same_bytes(&pair.unwrap().1);
    }
}

#[test]
fn readers_never_see_a_torn_value() {
    let test_dir = TestDir::memory();
    let (path, board) = (test_dir.path("it.hold"), Board::new(2));
    // In place, and not.
    let shapes = [(4, 4), (8, 8), (6, 2), (4, 8), (8, 5)];
    let keys: Vec<Vec<u8>> = (0..).zip(shapes).map(|(id, (len, _))| vec![id; len]).collect();
    let set = |map: &Map, number: usize, byte: u8| {
        map.set(&keys[number], vec![byte; shapes[number].1]).unwrap();
    };
    let (hold, map) = open(&path);
    (0..keys.len()).for_each(|number| set(&map, number, 0));
    let write = |seed: u64| {
        let (_hold, map) = open(&path);
        let mut dice = Dice::new(seed);
        while board.get(DONE) == 0 {
            set(&map, dice.below(keys.len() as u64) as usize, dice.below(256) as u8);
        }
    };
    let read = || {
        let (map, mut values) = (open(&path).1, Values::new());
        for _ in 0..if long() { 200_000 } else { 4_000 } {
            read_in_every_way(&map, &keys, &mut values);
        }
    };
    let writers: Vec<_> = (0..2).map(|seed| Child::run("writer", || write(seed))).collect();
    let readers: Vec<_> = (0..2).map(|_| Child::run("reader", read)).collect();
    readers.into_iter().for_each(Child::finish);
    board.put(DONE, 1);
    writers.into_iter().for_each(Child::finish);
    whole(&hold);
}

/// An update compares more than the record's sequence, which stays.
#[test]
fn an_update_does_not_undo_a_change_in_place() {
    let test_dir = TestDir::memory();
    let (_hold, map) = open(&test_dir.path("it.hold"));
    map.increment("12345678", 1).unwrap();
    let mut calls = 0;
    map.update("12345678", |value| {
        calls += 1;
        if calls == 1 {
            map.increment("12345678", 10).unwrap();
        }
        let number = i64::from_le_bytes(value.unwrap().try_into().unwrap());
        Some((number + 100).to_le_bytes().to_vec())
    })
    .unwrap();
    assert_eq!((map.increment("12345678", 0).unwrap(), calls), (111, 2));
}

/// A process that empties a sparse extent copies each pair before it locks the segment.
#[test]
fn compaction_does_not_undo_a_change_in_place() {
    const PAIRS: u64 = 6000;
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let kept: Vec<u64> = (0..PAIRS).step_by(40).collect();
    Child::run("filler", || {
        let (_hold, map) = open(&path);
        for id in 0..PAIRS {
            map.set(id.to_le_bytes(), id.to_le_bytes()).unwrap();
        }
        for id in (0..PAIRS).filter(|id| id % 40 != 0) {
            assert!(map.delete(id.to_le_bytes()).unwrap());
        }
    })
    .finish();
    let compacting = stopped("write.prepared", || open(&path).0.trim().map(drop).unwrap());
    let (hold, map) = open(&path);
    for id in &kept {
        map.set(id.to_le_bytes(), (id + 1).to_le_bytes()).unwrap();
    }
    go_on(compacting);
    for id in &kept {
        assert_eq!(map.get(id.to_le_bytes()).unwrap().unwrap(), (id + 1).to_le_bytes(), "{id}");
    }
    whole(&hold);
}

/// A segment that is the same in two passes of a backup is written once.
#[test]
fn a_backup_has_the_changes_in_place_that_came_before_its_end() {
    const ADDED: usize = 0;
    const FROZEN: usize = 1;
    let test_dir = TestDir::memory();
    let (path, copy) = (test_dir.path("it.hold"), test_dir.path("copy.hold"));
    let board: &'static Board = Box::leak(Box::new(Board::new(2)));
    Child::run("backup", || {
        let (hold, map) = open(&path);
        map.increment("12345678", 0).unwrap();
        steps::observe(|name| {
            if name == "freeze.closed" {
                board.put(FROZEN, board.get(ADDED));
            }
        });
        steps::observe_faults(move |name| {
            if name == "backup.write" {
                map.increment("12345678", 1).unwrap();
                board.count(ADDED, 1);
            }
        });
        hold.backup(test_dir.path("backup")).unwrap();
    })
    .finish();
    commonhold::hold::restore(test_dir.path("backup"), &copy).unwrap();
    let number = open(&copy).1.increment("12345678", 0).unwrap();
    assert!(board.get(FROZEN) > 0, "nothing changed during the backup");
    assert_eq!(number as u64, board.get(FROZEN));
}

/// A killed writer leaves a lock, and the old value or the new one.
#[test]
fn a_writer_killed_at_the_store_leaves_one_of_both_values() {
    for (step, value) in [("replace.counted", 1u64), ("replace.committed", 2)] {
        let test_dir = TestDir::memory();
        let path = test_dir.path("it.hold");
        let (hold, map) = open(&path);
        map.set("12345678", 1u64.to_le_bytes()).unwrap();
        killed(step, || drop(open(&path).1.set("12345678", 2u64.to_le_bytes())));
        assert_eq!(map.get("12345678").unwrap().unwrap(), value.to_le_bytes(), "{step}");
        map.set("12345678", 3u64.to_le_bytes()).unwrap();
        assert_eq!(map.get("12345678").unwrap().unwrap(), 3u64.to_le_bytes());
        hold.sweep().unwrap();
        whole(&hold);
    }
}

/// A stream begins only when no change in place is in progress that does not know of it.
#[test]
fn a_stream_waits_for_a_change_in_place() {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    open(&path).1.set("12345678", 1u64.to_le_bytes()).unwrap();
    let writer = stopped("replace.counted", || drop(open(&path).1.set("12345678", [2; 8])));
    let hold = Hold::options().lock_timeout(PATIENCE).open(&path).unwrap();
    timed_out(hold.maps().begin_stream("it", 1 << 20), &writer);
    go_on(writer);
    hold.maps().begin_stream("it", 1 << 20).unwrap();
    let map = hold.maps().open("it").unwrap();
    assert_eq!(map.get("12345678").unwrap().unwrap(), [2; 8]);
    let mut follower = map.follow().unwrap();
    map.set("12345678", [3; 8]).unwrap();
    assert_eq!(follower.try_recv().unwrap().expect("a frame").value, [3; 8]);
}
