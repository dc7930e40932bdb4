//! Growing, shrinking, and the memory that goes with it.
//!
//! From nothing to two million keys: every key is found, walked exactly once, and keeps its uid through
//! growth and updates; deleting them gives the memory back. Then the bounds on memory: values that grow
//! byte by byte, values that shrink, and churn.

use crate::support::process::until;
use crate::support::script::read;
use crate::support::shape::Shape;
use crate::support::test_dir::TestDir;
use crate::support::{Dice, mix};
use commonhold::Hold;
use commonhold::map::{Map, MapOptions, Uid};

const MANY: u32 = 2_000_000;

/// Grows from nothing to [`MANY`] keys and back.
fn grow(shape: Shape, back_below: impl Fn(u64) -> u64) {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", shape.options()).unwrap();
    let empty = hold.stat().unwrap().memory_bytes;
    let mut uids: Vec<(u32, Uid)> = Vec::new();
    for id in 0..MANY {
        let uid = map.set(shape.key(id), shape.value(id, shape.fit(1))).unwrap();
        if id % 1000 == 0 {
            uids.push((id, uid));
        }
        if id.is_power_of_two() {
            same_uids(&map, shape, &uids);
            assert_eq!(map.len().unwrap(), id as u64 + 1);
        }
    }
    for id in (0..MANY).step_by(7) {
        map.set(shape.key(id), shape.value(id, shape.fit(2))).unwrap();
    }
    same_uids(&map, shape, &uids);
    walk_once(&map, shape);
    let report = hold.check().unwrap();
    assert!(report.ok, "{:?}", report.problems);
    let full = hold.stat().unwrap().memory_bytes;
    for id in 0..MANY {
        assert!(map.delete(shape.key(id)).unwrap(), "key {id} is gone");
    }
    assert_eq!((map.len().unwrap(), map.iter().count()), (0, 0));
    let report = hold.check().unwrap();
    assert!(report.ok, "{:?}", report.problems);
    let bound = back_below(full);
    // What has been free for a quarter of a second is given back, and not before.
    until(&format!("the memory is back: {empty} bytes empty, {full} full, {bound} wanted"), || {
        // Whoever comes or goes sees to it.
        drop(Hold::open(hold.path()).unwrap());
        hold.stat().unwrap().memory_bytes <= bound
    });
}

fn same_uids(map: &Map, shape: Shape, uids: &[(u32, Uid)]) {
    for (id, uid) in uids {
        assert_eq!(map.uid(shape.key(*id)).unwrap(), Some(*uid), "the uid of key {id} changed");
        let (key, value) = map.get_uid(*uid).unwrap().expect("a uid that finds its pair");
        assert_eq!(shape.id(&key), Ok(*id));
        read(shape, *id, &value);
    }
}

fn walk_once(map: &Map, shape: Shape) {
    let mut seen = vec![false; MANY as usize];
    for pair in map.iter() {
        let (key, value) = pair.unwrap();
        let id = shape.id(&key).unwrap();
        assert!(!std::mem::replace(&mut seen[id as usize], true), "key {id} walked twice");
        let wanted = shape.fit(if id.is_multiple_of(7) { 2 } else { 1 });
        assert_eq!(read(shape, id, &value), wanted, "key {id}");
    }
    assert!(seen.iter().all(|s| *s), "{} keys not walked", seen.iter().filter(|s| !**s).count());
}

#[test]
fn two_million_keys_come_and_give_their_memory_back() {
    // The index stays (its memory is reused by maps only), the records' memory goes back.
    grow(Shape::General, |full| full / 4);
}

#[test]
fn two_million_pairs_come_and_go_in_a_cache() {
    // A cache keeps its memory.
    grow(Shape::Cache, |full| full);
}

#[test]
fn two_million_words_come_and_go() {
    grow(Shape::Fixed(4, 4), |full| full);
}

#[test]
fn two_million_inline_pairs_come_and_go() {
    grow(Shape::Fixed(8, 8), |full| full);
}

/// Stated bound: what is held is at most twice what is stored (key, value, 64 bytes each) and 16 MiB.
fn bound(pairs: u64, stored: u64) -> u64 {
    2 * (stored + 64 * pairs) + (16 << 20)
}

#[test]
fn values_that_grow_byte_by_byte_stay_within_the_bound() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let (keys, most) = (2000u32, 1500usize);
    let text = vec![b'x'; most];
    for len in 0..=most {
        for key in 0..keys {
            // Keys grow at different paces, so that size classes empty slowly.
            let len = len * (1 + mix(key as u64) as usize % 8) / 8;
            map.set(key.to_le_bytes(), &text[..len]).unwrap();
        }
    }
    let stored: u64 = map.iter().map(|p| p.unwrap()).map(|(k, v)| (k.len() + v.len()) as u64).sum();
    let held = hold.stat().unwrap().memory_bytes;
    let bound = bound(keys as u64, stored);
    assert!(held <= bound, "{held} bytes held for {stored} stored; bound {bound}");
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

#[test]
fn values_that_shrink_leave_no_holes_behind() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let keys = 100_000u32;
    for key in 0..keys {
        map.set(key.to_le_bytes(), [7; 1000]).unwrap();
    }
    let full = hold.stat().unwrap().memory_bytes;
    for key in 0..keys {
        map.set(key.to_le_bytes(), [7; 10]).unwrap();
    }
    let bound = bound(keys as u64, keys as u64 * 14);
    until(&format!("{full} bytes fall below {bound}"), || {
        hold.trim().unwrap();
        hold.stat().unwrap().memory_bytes <= bound
    });
}

#[test]
fn churn_does_not_grow() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
    let mut dice = Dice::new(11);
    let text = [b'y'; 4000];
    let mut peak = 0;
    for round in 0..40 {
        for _ in 0..20_000 {
            let key = (dice.below(10_000) as u32).to_le_bytes();
            if dice.one_in(3) {
                map.delete(key).unwrap();
            } else {
                map.set(key, &text[..dice.below(800) as usize]).unwrap();
            }
        }
        let held = hold.stat().unwrap().memory_bytes;
        if round < 10 {
            peak = peak.max(held);
        }
        let allowed = peak + peak / 4;
        assert!(round < 10 || held <= allowed, "round {round}: {held} bytes, at first {peak}");
    }
    assert!(hold.check().unwrap().ok);
}
