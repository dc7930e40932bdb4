//! How good the evictions are: hits among the requests of traces. A lock-free eviction must not be
//! worse than exact LRU.
//!
//! The test `figure` is ignored: it measures more, and writes the figure and the table of
//! docs/guide/serving-files.md.

mod figure;

use super::trace::{self, Trace};
use super::{Kinds, hold};
use commonhold_files::store::{CacheKind, ENTRY_BYTES, EvictionKind, Store, WithStore};
use commonhold_testing::support::test_dir::TestDir;
use std::sync::Arc;

const SEED: u64 = 5;
/// Requests before hits count, and those that count.
const WARMING: usize = 150_000;
const COUNTED: usize = 250_000;

/// Serves a trace: a missing file is fetched and put.
struct Serve(Trace);

/// The result of a trace.
struct Served {
    /// Hits among all requests that count, 0 to 1.
    ratio: f64,
    /// The store's statistics at the end.
    entries: u64,
    bytes: u64,
}

impl WithStore for Serve {
    type Output = Served;

    fn run<S: Store>(self, store: Arc<S>) -> Served {
        let content = vec![0; trace::LONGEST];
        let mut before = 0;
        for (at, file) in (0..WARMING + COUNTED).zip(self.0.requests(SEED)) {
            if at == WARMING {
                before = store.stat().hits;
            }
            match store.get(&file.to_le_bytes()) {
                Some(found) => store.recycle(found.into()),
                None => store.put(&file.to_le_bytes(), content[..trace::len(file)].to_vec()),
            }
        }
        let stat = store.stat();
        let ratio = (stat.hits - before) as f64 / COUNTED as f64;
        Served { ratio, entries: stat.entries, bytes: stat.bytes }
    }
}

/// Bytes of a store that has room for this share of all files.
fn bytes_for(share: f64) -> u64 {
    ((trace::all_bytes() + trace::FILES * (8 + ENTRY_BYTES)) as f64 * share) as u64
}

fn serve(kinds: Kinds, trace: Trace, limit_bytes: u64) -> Served {
    let test_dir = TestDir::memory();
    let hold = hold(&test_dir);
    kinds.choose(limit_bytes, &hold, Serve(trace))
}

/// The hit ratio with room for this share of all files.
fn hit_ratio(kinds: Kinds, trace: Trace, share: f64) -> f64 {
    let limit = bytes_for(share);
    let served = serve(kinds, trace, limit);
    if !kinds.evicts_itself() {
        return served.ratio;
    }
    // It counts other bytes: once more, with room for as many files as the others have.
    let lru = Kinds { cache: CacheKind::Hashbrown, eviction: EvictionKind::Mutex };
    let entries = serve(lru, trace, limit).entries;
    serve(kinds, trace, served.bytes * entries / served.entries).ratio
}

#[test]
fn the_lock_free_eviction_is_no_worse_than_exact_lru() {
    for trace in Trace::ALL {
        for share in [0.02, 0.2] {
            let of = |cache, eviction| hit_ratio(Kinds { cache, eviction }, trace, share);
            let lru = of(CacheKind::Hashbrown, EvictionKind::Mutex);
            for cache in [CacheKind::Hashbrown, CacheKind::Hold] {
                let lockfree = of(cache, EvictionKind::Lockfree);
                assert!(lockfree >= lru, "{cache}, {trace:?}, {share}: {lockfree} to {lru}");
            }
        }
    }
}

/// The table does not matter, nor where it is.
#[test]
fn an_eviction_is_as_good_in_every_cache() {
    let trace = Trace::ALL[4];
    let of = |cache, eviction| hit_ratio(Kinds { cache, eviction }, trace, 0.1);
    for eviction in EvictionKind::ALL {
        let hashbrown = of(CacheKind::Hashbrown, eviction);
        assert_eq!(of(CacheKind::Std, eviction), hashbrown, "{eviction}");
        assert!(hashbrown > 0.1, "{eviction}: {hashbrown}");
    }
    // As long as one process alone fills it.
    let [hold, hashbrown] =
        [CacheKind::Hold, CacheKind::Hashbrown].map(|cache| of(cache, EvictionKind::Mutex));
    assert!((hold - hashbrown).abs() < 0.001, "{hold} to {hashbrown}");
}
