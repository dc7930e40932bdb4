//! A handle on one pair is the map for its key, whatever happens to the pair and to the map.

use crate::support::Dice;
use crate::support::process::{Board, Child, until};
use crate::support::script;
use crate::support::shape::Shape;
use crate::support::test_dir::TestDir;
use commonhold::map::{CacheOptions, Map, MapOptions, PairHandle};
use commonhold::{ErrorKind, Hold};
use std::collections::HashMap;

const SHAPES: [Shape; 8] = [
    Shape::General,
    Shape::Short,
    Shape::Big,
    Shape::Fixed(4, 4),
    Shape::Fixed(8, 8),
    Shape::Fixed(16, 16),
    Shape::Fixed(20, 100),
    Shape::Cache,
];

fn open(test_dir: &TestDir, shape: Shape) -> (Hold, Map) {
    let hold = Hold::open_or_create(test_dir.path("it.hold")).unwrap();
    let map = hold.maps().open_or_create("it", shape.options()).unwrap();
    (hold, map)
}

fn whole(hold: &Hold) {
    let report = hold.check().unwrap();
    assert!(report.ok && report.allocated == report.reachable, "{report:?}");
}

/// Operations by the handle and by the map, in any order, have the results of one variable.
#[test]
fn it_agrees_with_its_map() {
    for shape in SHAPES {
        let test_dir = TestDir::memory();
        let (hold, map) = open(&test_dir, shape);
        let mut dice = Dice::new(5);
        let pairs: Vec<PairHandle> = (0..20).map(|id| map.pair(shape.key(id)).unwrap()).collect();
        let mut model: HashMap<u32, u64> = HashMap::new();
        for turn in 1..6000u64 {
            let id = dice.below(20) as u32;
            let (pair, version) = (&pairs[id as usize], shape.fit(turn));
            let (key, value) = (shape.key(id), shape.value(id, version));
            let mut into = b"rubbish".to_vec();
            match dice.below(16) {
                0..=2 => {
                    pair.set(&value).unwrap();
                    model.insert(id, version);
                }
                3 | 4 => {
                    map.set(&key, &value).unwrap();
                    model.insert(id, version);
                }
                5 => assert_eq!(pair.delete().unwrap(), model.remove(&id).is_some()),
                6 => assert_eq!(map.delete(&key).unwrap(), model.remove(&id).is_some()),
                7 => {
                    pair.update(|old| {
                        let old = old.map(|old| script::read(shape, id, old));
                        assert_eq!(old, model.get(&id).copied());
                        Some(value.clone())
                    })
                    .unwrap();
                    model.insert(id, version);
                }
                // Others come and go, and the map grows.
                8 => {
                    let other = 1000 + dice.below(if shape == Shape::Big { 50 } else { 4000 });
                    let other = other as u32;
                    map.set(shape.key(other), shape.value(other, version)).unwrap();
                }
                9 => {
                    map.delete(shape.key(1000 + dice.below(4000) as u32)).unwrap();
                }
                10 if dice.one_in(40) => hold.trim().map(drop).unwrap(),
                11 if dice.one_in(200) => {
                    map.clear().unwrap();
                    model.clear();
                }
                12 | 13 => {
                    let found = pair.get_into(&mut into).unwrap();
                    let read = found.then(|| script::read(shape, id, &into));
                    assert_eq!(read, model.get(&id).copied(), "{shape:?}");
                    assert!(found || into.is_empty());
                }
                _ => {
                    let read = pair.get().unwrap().map(|value| script::read(shape, id, &value));
                    assert_eq!(read, model.get(&id).copied(), "{shape:?}");
                }
            }
        }
        whole(&hold);
    }
}

#[test]
fn it_counts() {
    for options in [MapOptions::general(), MapOptions::fixed(8, 8), MapOptions::cache().into()] {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().create("it", options).unwrap();
        let pair = map.pair("12345678").unwrap();
        assert_eq!(pair.increment(5).unwrap(), 5);
        assert_eq!(pair.increment(5).unwrap(), 10);
        assert_eq!(map.increment("12345678", -11).unwrap(), -1);
        assert_eq!(pair.increment(0).unwrap(), -1);
        assert_eq!(pair.key(), b"12345678");
        assert_eq!(pair.map().name(), "it");
        whole(&hold);
    }
}

#[test]
fn its_errors_are_those_of_the_map() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let fixed = hold.maps().create("fixed", MapOptions::fixed(4, 4)).unwrap();
    assert_eq!(fixed.pair("12345").unwrap_err().kind(), ErrorKind::Invalid);
    let pair = fixed.pair("1234").unwrap();
    pair.set("abcd").unwrap();
    assert_eq!(pair.set("abc").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(pair.increment(1).unwrap_err().kind(), ErrorKind::Mismatch);
    assert_eq!(pair.get().unwrap().unwrap(), b"abcd");
    let general = hold.maps().create("general", MapOptions::general()).unwrap();
    let text = general.pair("12345678").unwrap();
    text.set("text").unwrap();
    assert_eq!(text.increment(1).unwrap_err().kind(), ErrorKind::Mismatch);
    let reader = Hold::options().read_only(true).open(test_dir.path("it.hold")).unwrap();
    let pair = reader.maps().open("general").unwrap().pair("12345678").unwrap();
    for _ in 0..2 {
        assert_eq!(pair.get().unwrap().unwrap(), b"text");
        assert_eq!(pair.set("long").unwrap_err().kind(), ErrorKind::ReadOnly);
    }
    let frozen = hold.freeze().unwrap();
    assert_eq!(text.set("busy").unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(text.get().unwrap().unwrap(), b"text");
    drop(frozen);
    text.set("four").unwrap();
    hold.close().unwrap();
    assert_eq!(text.get().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(text.set("text").unwrap_err().kind(), ErrorKind::Closed);
}

/// A replica's map that takes the place of another has its own seed, so its own hashes.
#[test]
fn it_follows_a_replica_to_the_next_map() {
    for options in [MapOptions::general(), MapOptions::fixed(8, 8), MapOptions::fixed(20, 100)] {
        let test_dir = TestDir::memory();
        let hold = Hold::open_or_create(test_dir.path("it.hold")).unwrap();
        let replica = || hold.maps().open_replica("it", options.clone()).unwrap();
        let shape = if options == MapOptions::fixed(20, 100) { 20 } else { 8 };
        let (key, value) = (vec![b'k'; shape], vec![b'1'; if shape == 20 { 100 } else { 8 }]);
        replica().set(&key, &value).unwrap();
        let map = hold.maps().open("it").unwrap();
        let pair = map.pair(&key).unwrap();
        assert_eq!(pair.get().unwrap().as_ref(), Some(&value));
        hold.maps().drop("it").unwrap();
        let value = vec![b'2'; value.len()];
        replica().set(&key, &value).unwrap();
        assert_eq!(map.get(&key).unwrap().as_ref(), Some(&value));
        for _ in 0..3 {
            assert_eq!(pair.get().unwrap().as_ref(), Some(&value), "{options:?}");
        }
        whole(&hold);
    }
}

/// Writes through the handle are no lookups of a cache.
#[test]
fn its_writes_are_no_lookups_of_a_cache() {
    let test_dir = TestDir::memory();
    let (hold, map) = open(&test_dir, Shape::Cache);
    let pair = map.pair("12345678").unwrap();
    for _ in 0..100 {
        pair.set("12345678").unwrap();
    }
    drop((pair, map));
    let stat = hold.maps().open("it").unwrap().stat().unwrap();
    assert_eq!((stat.hits, stat.misses), (0, 0));
}

/// The handle is the dropped map's, not that of a map with the same name.
#[test]
fn it_ends_with_its_map() {
    for shape in SHAPES {
        let test_dir = TestDir::memory();
        let (hold, map) = open(&test_dir, shape);
        let pair = map.pair(shape.key(7)).unwrap();
        pair.set(shape.value(7, 1)).unwrap();
        assert!(pair.get().unwrap().is_some());
        hold.maps().drop("it").unwrap();
        let (_, again) = open(&test_dir, shape);
        again.set(shape.key(7), shape.value(7, 2)).unwrap();
        assert_eq!(pair.get().unwrap_err().kind(), ErrorKind::NotFound, "{shape:?}");
        assert_eq!(pair.set(shape.value(7, 3)).unwrap_err().kind(), ErrorKind::NotFound);
        let value = again.pair(shape.key(7)).unwrap().get().unwrap().unwrap();
        assert_eq!(script::read(shape, 7, &value), 2);
        whole(&hold);
    }
}

#[test]
fn a_pair_of_a_cache_expires_under_it() {
    let test_dir = TestDir::memory();
    let hold = Hold::create(test_dir.path("it.hold")).unwrap();
    let options = CacheOptions::new().ttl(std::time::Duration::from_millis(50));
    let map = hold.maps().create("it", options).unwrap();
    let pair = map.pair("12345678").unwrap();
    pair.set("12345678").unwrap();
    assert!(pair.get().is_ok());
    until("it expires", || pair.get().unwrap().is_none());
}

/// A map that gets a stream has every later change of the handle in it.
#[test]
fn its_changes_are_in_a_stream_that_begins() {
    for shape in [Shape::Short, Shape::Fixed(4, 4), Shape::Fixed(8, 8)] {
        let test_dir = TestDir::memory();
        let (hold, map) = open(&test_dir, shape);
        let pair = map.pair(shape.key(1)).unwrap();
        (1..4).for_each(|version| pair.set(shape.value(1, version)).map(drop).unwrap());
        hold.maps().begin_stream("it", 1 << 20).unwrap();
        let mut follower = map.follow().unwrap();
        pair.set(shape.value(1, 5)).unwrap();
        let frame = follower.try_recv().unwrap().expect("a frame");
        assert_eq!(frame.value, shape.value(1, 5), "{shape:?}");
    }
}

#[test]
fn a_forked_child_uses_what_it_inherits() {
    for shape in [Shape::Short, Shape::Fixed(8, 8)] {
        let test_dir = TestDir::memory();
        let (hold, map) = open(&test_dir, shape);
        let pair = map.pair(shape.key(3)).unwrap();
        pair.set(shape.value(3, 1)).unwrap();
        pair.set(shape.value(3, 2)).unwrap();
        Child::run("child", || {
            assert_eq!(script::read(shape, 3, &pair.get().unwrap().unwrap()), 2);
            (3..6).for_each(|version| pair.set(shape.value(3, version)).map(drop).unwrap());
        })
        .finish();
        assert_eq!(script::read(shape, 3, &pair.get().unwrap().unwrap()), 5);
        pair.set(shape.value(3, 6)).unwrap();
        assert_eq!(script::read(shape, 3, &map.get(shape.key(3)).unwrap().unwrap()), 6);
        hold.sweep().unwrap();
        whole(&hold);
    }
}

/// Several processes add to one counter, by handles and by the map. Some delete other keys, and
/// make the map grow.
#[test]
fn no_addition_is_lost() {
    const EACH: i64 = 3000;
    for options in [MapOptions::general(), MapOptions::fixed(8, 8)] {
        let test_dir = TestDir::memory();
        let hold = Hold::create(test_dir.path("it.hold")).unwrap();
        let map = hold.maps().create("it", options).unwrap();
        let board = Board::new(1);
        let add = |number: u64| {
            let map = Hold::open(test_dir.path("it.hold")).unwrap().maps().open("it").unwrap();
            let pair = map.pair("12345678").unwrap();
            board.count(0, 1);
            until("all are there", || board.get(0) == 3);
            for turn in 0..EACH as u64 {
                if number == 2 {
                    map.increment("12345678", 1).unwrap();
                } else {
                    pair.increment(1).unwrap();
                }
                map.set((number << 32 | turn).to_le_bytes(), turn.to_le_bytes()).unwrap();
                let value = pair.get().unwrap().unwrap();
                assert!(i64::from_le_bytes(value.try_into().unwrap()) > turn as i64);
            }
        };
        let adding: Vec<_> = (0..3).map(|n| Child::run("adding", move || add(n))).collect();
        adding.into_iter().for_each(Child::finish);
        assert_eq!(map.pair("12345678").unwrap().increment(0).unwrap(), 3 * EACH);
        whole(&hold);
    }
}
