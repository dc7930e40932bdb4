//! Stores of files' contents: every cache with every eviction.

#[cfg(feature = "steps")]
mod broken;
mod every;
mod quality;
mod shared;
mod trace;

use commonhold::Hold;
use commonhold_files::store::{CacheKind, EvictionKind, Store, WithStore, choose_store};
use commonhold_testing::support::test_dir::TestDir;
use std::fmt;

/// The name of the map in tests.
const FILES: &str = ".files";

/// One of all stores.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kinds {
    cache: CacheKind,
    eviction: EvictionKind,
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cache {}, eviction {}", self.cache, self.eviction)
    }
}

impl Kinds {
    fn all() -> impl Iterator<Item = Kinds> {
        let of = |cache| EvictionKind::ALL.map(|eviction| Kinds { cache, eviction });
        CacheKind::ALL.into_iter().flat_map(of)
    }

    /// Those that processes share.
    fn shared() -> impl Iterator<Item = Kinds> {
        Kinds::all().filter(|kinds| kinds.cache == CacheKind::Hold)
    }

    fn keeps(self) -> bool {
        self.cache != CacheKind::None
    }

    fn evicts(self) -> bool {
        self.keeps() && self.eviction != EvictionKind::None
    }

    /// The map does it by itself.
    fn evicts_itself(self) -> bool {
        self.cache == CacheKind::Hold && self.eviction == EvictionKind::Lockfree
    }

    fn choose<W: WithStore>(self, limit_bytes: u64, hold: &Hold, with: W) -> W::Output {
        choose_store(self.cache, self.eviction, limit_bytes, Some(hold), FILES, with).unwrap()
    }
}

/// A value that proves which key and which version it is of.
fn value(key: u64, version: u64, len: usize) -> Vec<u8> {
    let mut value = [key.to_le_bytes(), version.to_le_bytes()].concat();
    let fill = (key as u8) ^ (version as u8).wrapping_mul(31);
    value.resize(len.max(16), fill);
    value
}

/// The version of a value, which is whole.
#[track_caller]
fn version(key: u64, seen: &[u8]) -> u64 {
    let version = u64::from_le_bytes(seen[8..16].try_into().unwrap());
    assert!(seen == value(key, version, seen.len()), "key {key}: no value of it: {seen:?}");
    version
}

/// The value of a number.
fn look<S: Store>(store: &S, key: u64) -> Option<Vec<u8>> {
    let found = store.get(&key.to_le_bytes())?;
    let copy = found.as_ref().to_vec();
    store.recycle(found.into());
    Some(copy)
}

fn hold(test_dir: &TestDir) -> Hold {
    Hold::create(test_dir.path("it.hold")).unwrap()
}
