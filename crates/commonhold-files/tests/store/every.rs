//! The common behaviour of all stores.

use super::{Kinds, hold, look, value, version};
use commonhold_files::store::{
    CacheKind, ENTRY_BYTES, EvictionKind, Store, WithStore, choose_store,
};
use commonhold_testing::support::Dice;
use commonhold_testing::support::process::until;
use commonhold_testing::support::test_dir::TestDir;
use std::sync::Arc;
use std::thread;

/// One test of all stores, each of `$limit` bytes.
macro_rules! every_store {
    ($(#[$attribute:meta])* fn $name:ident($limit:expr, $kinds:ident, $store:ident) $body:block) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            struct Case(Kinds);
            impl WithStore for Case {
                type Output = ();
                fn run<S: Store>(self, $store: Arc<S>) {
                    let $kinds = self.0;
                    $body
                }
            }
            for kinds in Kinds::all() {
                let test_dir = TestDir::memory();
                let hold = hold(&test_dir);
                kinds.choose($limit, &hold, Case(kinds));
                assert!(hold.check().unwrap().ok, "{kinds:?}");
            }
        }
    };
}

const LARGE: u64 = 16 << 20;
const SMALL: u64 = 64 << 10;

every_store! {
    fn values_come_are_replaced_and_go(LARGE, kinds, store) {
        assert!(store.get(b"a").is_none());
        let get = |key: &[u8]| store.get(key).map(|found| found.as_ref().to_vec());
        let kept = |value: &[u8]| kinds.keeps().then(|| value.to_vec());
        for value in [&b"one"[..], b"another", b"", &[7; 100_000], b"last"] {
            store.put(b"a", value.to_vec());
            store.put(b"b", b"second".to_vec());
            assert_eq!(get(b"a"), kept(value), "{kinds:?}");
        }
        store.put(b"", b"of the empty key".to_vec());
        assert_eq!(get(b""), kept(b"of the empty key"), "{kinds:?}");
        store.remove(b"a");
        store.remove(b"never there");
        assert_eq!((get(b"a"), get(b"b")), (None, kept(b"second")), "{kinds:?}");
        store.put(b"a", b"again".to_vec());
        assert_eq!(get(b"a"), kept(b"again"), "{kinds:?}");
        for key in [&b"a"[..], b"b", b""] {
            store.remove(key);
        }
        let stat = store.stat();
        assert_eq!((stat.entries, stat.bytes, stat.limit_bytes), (0, 0, LARGE), "{kinds:?}");
        let expected = if kinds.keeps() { (8, 2, 4, 4, 0) } else { (0, 10, 0, 0, 12) };
        let seen = (stat.hits, stat.misses, stat.added, stat.removed, stat.refused);
        assert_eq!((seen, stat.evicted), (expected, 0), "{kinds:?}");
    }
}

every_store! {
    fn the_limit_holds(SMALL, kinds, store) {
        let mut dice = Dice::new(1);
        // Records are charged whole, and a little more is charged than is asked for.
        let over = if kinds.evicts_itself() { 4096 } else { 0 };
        for key in 0..1000u64 {
            let len = dice.below(2000) as usize;
            let full = store.stat().bytes + len.max(16) as u64 + 8 + ENTRY_BYTES > SMALL;
            store.put(&key.to_le_bytes(), value(key, 1, len));
            let stat = store.stat();
            assert!(stat.bytes <= SMALL + over, "{kinds:?}: {stat:?}");
            let there = look(&*store, key).map(|seen| version(key, &seen));
            let wanted = kinds.evicts() || (kinds.keeps() && !full);
            assert_eq!(there, wanted.then_some(1), "{kinds:?}: {stat:?}");
        }
        let stat = store.stat();
        let there = (0..1000).filter(|key| look(&*store, *key).is_some()).count() as u64;
        assert_eq!(stat.entries, there, "{kinds:?}");
        assert_eq!(stat.entries, stat.added - stat.evicted - stat.removed, "{kinds:?}: {stat:?}");
        assert_eq!(stat.added + stat.refused, 1000, "{kinds:?}: {stat:?}");
        assert_eq!(stat.evicted > 0, kinds.evicts(), "{kinds:?}: {stat:?}");
        assert_eq!(stat.bytes > SMALL / 2, kinds.keeps(), "{kinds:?}: {stat:?}");
    }
}

every_store! {
    fn too_large_an_entry_is_not_kept_and_harms_nothing(SMALL, kinds, store) {
        for key in 0..10u64 {
            store.put(&key.to_le_bytes(), value(key, 1, 1000));
        }
        store.put(&3u64.to_le_bytes(), value(3, 2, SMALL as usize));
        store.put(&20u64.to_le_bytes(), value(20, 1, 10 << 20));
        assert!(look(&*store, 20).is_none(), "{kinds:?}");
        for key in 0..10u64 {
            // The value that it should have replaced is old: it is removed, too.
            let wanted = kinds.keeps() && key != 3;
            assert_eq!(look(&*store, key).is_some(), wanted, "{kinds:?}: {key}");
        }
        let stat = store.stat();
        assert_eq!(stat.refused, if kinds.keeps() { 2 } else { 12 }, "{kinds:?}");
        assert_eq!(stat.evicted, 0, "{kinds:?}");
    }
}

every_store! {
    fn the_room_of_the_value_that_is_replaced_will_do(SMALL, kinds, store) {
        // Without another entry there is no other victim, and no room for both.
        for version in 1..20 {
            let len = 40_000 + version as usize;
            store.put(&7u64.to_le_bytes(), value(7, version, len));
            assert_eq!(look(&*store, 7), kinds.keeps().then(|| value(7, version, len)), "{kinds:?}");
        }
        assert_eq!(store.stat().entries, u64::from(kinds.keeps()), "{kinds:?}");
    }
}

every_store! {
    fn pinned_entries_stay_as_they_are(SMALL, kinds, store) {
        let pin = |key: u64| {
            store.put(&key.to_le_bytes(), value(key, 1, 5000));
            let pinned = store.get(&key.to_le_bytes());
            assert_eq!(pinned.is_some(), kinds.keeps(), "{kinds:?}");
            pinned
        };
        let pinned = [1, 2, 3].map(pin);
        store.remove(&1u64.to_le_bytes());
        store.put(&2u64.to_le_bytes(), value(2, 2, 6000));
        // Where use counts, others are used more.
        for key in 100..200u64 {
            store.put(&key.to_le_bytes(), value(key, 1, 3000));
            assert!(look(&*store, key).is_some() || !kinds.evicts(), "{kinds:?}");
        }
        assert!(look(&*store, 1).is_none(), "{kinds:?}");
        if kinds.evicts() {
            assert!(look(&*store, 2).is_none() && look(&*store, 3).is_none(), "{kinds:?}");
        }
        for (key, pinned) in (1..).zip(pinned) {
            if let Some(pinned) = pinned {
                assert_eq!(version(key, pinned.as_ref()), 1, "{kinds:?}");
                store.recycle(pinned.into());
            }
        }
    }
}

const THREADS: u64 = 8;
const OPERATIONS: u64 = 3000;
const KEYS: u64 = 200;

/// One of many threads: looks, puts missing values, as a server does, and now and then replaces or
/// removes. Returns how often it looked.
fn hammer<S: Store>(store: &S, thread: u64) -> u64 {
    let mut dice = Dice::new(thread);
    let mut looks = 0;
    for turn in 0..OPERATIONS {
        // Some keys are requested more often.
        let key = dice.below(dice.clone().below(KEYS) + 1);
        let put = |dice: &mut Dice| {
            let value = value(key, thread << 32 | turn, dice.below(3000) as usize);
            store.put(&key.to_le_bytes(), value);
        };
        match dice.below(20) {
            0 => store.remove(&key.to_le_bytes()),
            1 => put(&mut dice),
            _ => {
                looks += 1;
                match look(store, key) {
                    Some(seen) => assert!(version(key, &seen) >> 32 < THREADS),
                    None => put(&mut dice),
                }
            }
        }
    }
    looks
}

every_store! {
    fn many_threads_at_once(SMALL, kinds, store) {
        let looks: u64 = thread::scope(|scope| {
            let run = |thread| {
                let store = &store;
                scope.spawn(move || hammer(&**store, thread))
            };
            let threads: Vec<_> = (0..THREADS).map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let stat = store.stat();
        assert_eq!(stat.hits + stat.misses, looks, "{kinds:?}");
        assert_eq!(stat.hits > 0, kinds.keeps(), "{kinds:?}");
        // An entry that is evicted between two steps of its replacement is there again, and not
        // counted as added.
        let replaced = if kinds.evicts_itself() { stat.entries } else { 0 };
        let left = stat.added - stat.evicted - stat.removed;
        assert!(left <= stat.entries && stat.entries <= left + replaced, "{kinds:?}: {stat:?}");
        let over = if kinds.evicts_itself() { THREADS * 4096 } else { 0 };
        assert!(stat.bytes <= SMALL + over, "{kinds:?}: {stat:?}");
        // A map whose changes pause, because a wait was too long, is emptied afterwards.
        until("all is removed, and so are its bytes", || {
            (0..KEYS).for_each(|key| store.remove(&key.to_le_bytes()));
            (store.stat().entries, store.stat().bytes) == (0, 0)
        });
    }
}

every_store! {
    fn a_store_of_no_bytes_keeps_nothing(0, kinds, store) {
        store.put(b"a", Vec::new());
        assert!(store.get(b"a").is_none(), "{kinds:?}");
        assert_eq!((store.stat().entries, store.stat().refused), (0, 1), "{kinds:?}");
    }
}

#[test]
fn the_words_are_those_that_are_shown() {
    for kinds in Kinds::all() {
        assert_eq!(kinds.cache.to_string().parse(), Ok(kinds.cache));
        assert_eq!(kinds.eviction.to_string().parse(), Ok(kinds.eviction));
    }
    let unknown = "redis".parse::<CacheKind>().unwrap_err();
    assert_eq!(unknown.to_string(), "'redis': expected one of none, std, hashbrown, hold");
    let unknown = "lru".parse::<EvictionKind>().unwrap_err();
    assert_eq!(unknown.to_string(), "'lru': expected one of none, mutex, lockfree");
}

#[test]
fn a_cache_in_a_hold_needs_one() {
    struct Never;
    impl WithStore for Never {
        type Output = ();
        fn run<S: Store>(self, _: Arc<S>) {
            panic!("there is no hold");
        }
    }
    for eviction in EvictionKind::ALL {
        let refused = choose_store(CacheKind::Hold, eviction, SMALL, None, ".files", Never);
        commonhold_testing::support::refused(
            refused,
            commonhold::ErrorKind::Invalid,
            "needs a hold",
        );
    }
}
