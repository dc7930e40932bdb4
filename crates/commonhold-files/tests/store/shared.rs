//! Stores in a hold: all processes have the entries of each, also after the last one ended; a hold
//! without room is not an error.

use super::{FILES, Kinds, look, value, version};
use commonhold::map::MapOptions;
use commonhold::queue::QueueOptions;
use commonhold::{ErrorKind, Hold};
use commonhold_files::store::{CacheKind, EvictionKind, Store, StoreStat, WithStore, choose_store};
use commonhold_testing::support::process::Child;
use commonhold_testing::support::test_dir::TestDir;
use std::sync::Arc;

const LIMIT: u64 = 1 << 20;

/// A store behind a pointer, for tests that do not depend on the store.
pub trait AnyStore: Send + Sync {
    fn look(&self, key: u64) -> Option<Vec<u8>>;
    fn put(&self, key: u64, value: Vec<u8>);
    fn remove(&self, key: u64);
    fn stat(&self) -> StoreStat;
}

impl<S: Store> AnyStore for S {
    fn look(&self, key: u64) -> Option<Vec<u8>> {
        look(self, key)
    }

    fn put(&self, key: u64, value: Vec<u8>) {
        Store::put(self, &key.to_le_bytes(), value);
    }

    fn remove(&self, key: u64) {
        Store::remove(self, &key.to_le_bytes());
    }

    fn stat(&self) -> StoreStat {
        Store::stat(self)
    }
}

struct AsAny;

impl WithStore for AsAny {
    type Output = Arc<dyn AnyStore>;
    fn run<S: Store>(self, store: Arc<S>) -> Arc<dyn AnyStore> {
        store
    }
}

/// A store of the hold at `it.hold`, through a handle of its own.
pub fn open(kinds: Kinds, test_dir: &TestDir, limit: u64) -> Arc<dyn AnyStore> {
    let hold = Hold::open_or_create(test_dir.path("it.hold")).unwrap();
    kinds.choose(limit, &hold, AsAny)
}

#[test]
fn entries_of_one_process_are_there_in_the_others() {
    for kinds in Kinds::shared() {
        let test_dir = TestDir::memory();
        let here = open(kinds, &test_dir, LIMIT);
        here.put(1, value(1, 1, 1000));
        here.put(2, value(2, 1, 1000));
        Child::run(format!("{kinds:?}"), || {
            let there = open(kinds, &test_dir, LIMIT);
            assert_eq!(version(1, &there.look(1).unwrap()), 1);
            there.put(1, value(1, 2, 2000));
            there.put(3, value(3, 1, 3000));
            there.remove(2);
            assert_eq!(there.stat().entries, 2);
        })
        .finish();
        assert_eq!(here.look(1), Some(value(1, 2, 2000)), "{kinds:?}");
        assert_eq!((here.look(2), here.look(3)), (None, Some(value(3, 1, 3000))), "{kinds:?}");
        let stat = here.stat();
        assert_eq!((stat.entries, stat.hits, stat.misses), (2, 2, 1), "{kinds:?}");
        drop(here);
        // Warm after a restart, and the bytes are right.
        let again = open(kinds, &test_dir, LIMIT);
        assert_eq!(again.look(3), Some(value(3, 1, 3000)), "{kinds:?}");
        assert_eq!((again.stat().entries, again.stat().bytes), (2, stat.bytes), "{kinds:?}");
        [1, 3].iter().for_each(|key| again.remove(*key));
        assert_eq!(again.stat().bytes, 0, "{kinds:?}");
    }
}

#[test]
fn two_fill_it_together_and_neither_exceeds_the_limit() {
    for kinds in Kinds::shared() {
        let test_dir = TestDir::memory();
        let stores = [(); 2].map(|()| open(kinds, &test_dir, LIMIT));
        for key in 0..2000 {
            let store = &stores[key as usize % 2];
            store.put(key, value(key, 1, 2000));
            assert!(store.stat().bytes <= LIMIT + 4096, "{kinds:?}: {:?}", store.stat());
            // Either may have to evict an entry that only the other one knows.
            assert!(!kinds.evicts() || store.look(key).is_some(), "{kinds:?}");
        }
        let [one, other] = stores.map(|store| store.stat());
        assert_eq!((one.entries, one.bytes), (other.entries, other.bytes), "{kinds:?}");
        assert!(one.entries > LIMIT / 3000, "{kinds:?}: {one:?}");
    }
}

/// A process with notes of its own may find that no entry that it knows is left.
#[test]
fn entries_that_nobody_here_knows_make_room_too() {
    let kinds = Kinds { cache: CacheKind::Hold, eviction: EvictionKind::Mutex };
    let test_dir = TestDir::memory();
    Child::run("a process that fills it", || {
        let there = open(kinds, &test_dir, LIMIT);
        (0..1000).for_each(|key| there.put(key, value(key, 1, 2000)));
    })
    .finish();
    let here = open(kinds, &test_dir, LIMIT);
    let before = here.stat().entries;
    assert!(before > LIMIT / 3000, "{before}");
    for key in 5000..5100 {
        here.put(key, value(key, 1, 2000));
        assert!(here.look(key).is_some());
    }
    assert_eq!((here.stat().entries, here.stat().refused), (before, 0));
    // As many of those that are known here went as there are among all: few.
    let there = (5000..5100).filter(|key| here.look(*key).is_some()).count();
    assert!(there > 60, "{there}");
}

#[test]
fn a_full_hold_loses_nothing_but_the_entry() {
    for kinds in Kinds::shared() {
        let test_dir = TestDir::memory();
        Hold::options().max_bytes(4 << 20).create(test_dir.path("it.hold")).unwrap();
        let store = open(kinds, &test_dir, 64 << 20);
        let mut kept = Vec::new();
        for key in 0..2000 {
            store.put(key, value(key, 1, 10_000));
            if store.look(key).is_some() {
                kept.push(key);
            }
        }
        let stat = store.stat();
        assert!(stat.refused > 0 && kept.len() > 100, "{kinds:?}: {stat:?}");
        for key in &kept {
            assert_eq!(store.look(*key), Some(value(*key, 1, 10_000)), "{kinds:?}");
        }
        assert_eq!((stat.entries, stat.evicted), (kept.len() as u64, 0), "{kinds:?}");
        // The value that should have been replaced is no longer returned.
        store.put(kept[0], value(kept[0], 2, 3 << 20));
        assert_eq!(store.look(kept[0]), None, "{kinds:?}");
        let hold = Hold::open(test_dir.path("it.hold")).unwrap();
        assert!(hold.check().unwrap().ok);
    }
}

#[test]
fn a_map_that_evicts_counts_what_is_in_it() {
    let kinds = Kinds { cache: CacheKind::Hold, eviction: EvictionKind::Lockfree };
    let test_dir = TestDir::memory();
    let store = open(kinds, &test_dir, LIMIT);
    let map = Hold::open(test_dir.path("it.hold")).unwrap().maps().open(FILES).unwrap();
    for key in 0..2000 {
        store.put(key, value(key, 1, 100 + key as usize));
        store.put(key / 2, value(key / 2, 2, 50));
        store.remove(key / 3);
        let (counted, there) = (store.stat(), map.stat().unwrap());
        assert_eq!((counted.entries, counted.bytes), (there.len, there.record_bytes), "{key}");
        assert_eq!(counted.evicted, there.evicted, "{key}");
    }
    assert!(store.stat().evicted > 0);
}

#[test]
fn other_options_begin_with_an_empty_cache() {
    let test_dir = TestDir::memory();
    for limit in [LIMIT, 2 * LIMIT] {
        for kinds in Kinds::shared().chain(Kinds::shared()) {
            let store = open(kinds, &test_dir, limit);
            store.put(1, value(1, 1, 100));
            assert_eq!(store.look(1), Some(value(1, 1, 100)), "{kinds:?}");
            assert_eq!(store.stat().entries, 1);
        }
    }
}

#[test]
fn a_name_of_another_kind_is_an_error() {
    let test_dir = TestDir::memory();
    let hold = super::hold(&test_dir);
    hold.queues().open_or_create(FILES, QueueOptions::new(16, 16)).unwrap();
    for kinds in Kinds::shared() {
        let made = choose_store(kinds.cache, kinds.eviction, LIMIT, Some(&hold), FILES, AsAny);
        assert_eq!(made.err().map(|e| e.kind()), Some(ErrorKind::Mismatch), "{kinds:?}");
    }
    hold.maps().open_or_create("prices", MapOptions::general()).unwrap();
}

#[test]
fn a_map_that_is_dropped_under_it_is_an_empty_one() {
    for kinds in Kinds::shared() {
        let test_dir = TestDir::memory();
        let store = open(kinds, &test_dir, LIMIT);
        store.put(1, value(1, 1, 100));
        Hold::open(test_dir.path("it.hold")).unwrap().maps().drop(FILES).unwrap();
        store.put(2, value(2, 1, 100));
        store.remove(1);
        assert_eq!((store.look(1), store.look(2)), (None, None), "{kinds:?}");
        assert_eq!(store.stat().entries, 0, "{kinds:?}");
    }
}
