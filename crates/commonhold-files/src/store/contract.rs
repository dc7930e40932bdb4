//! [`Store`]: the interface of a store for file servers.

use crate::payload::Contents;
use serde::{Deserialize, Serialize};

/// Contents of files by key, bounded in bytes, shared by all worker threads of a process or, in a
/// hold, by all processes.
///
/// All operations may be called from any thread. None waits for a stopped process: an operation on
/// a hold that meets a stopped process fails after milliseconds, and the value is not kept.
pub trait Store: Send + Sync + 'static {
    /// A look-up's result. It does not change while it lives, whatever happens to the entry. The
    /// store's bytes no longer count a pinned value that was evicted or removed.
    type Pinned: AsRef<[u8]> + Into<Contents> + Send + 'static;

    /// The value of a key.
    fn get(&self, key: &[u8]) -> Option<Self::Pinned>;

    /// Keeps a value, instead of an older one of the same key. A value that is larger than the
    /// limit, or for which there is no room, is not kept, and counts as refused; the older one is
    /// removed all the same.
    fn put(&self, key: &[u8], value: Vec<u8>);

    /// Removes a key. From now on this store returns its value to no caller in this process. In a
    /// hold, other processes may continue to see it as long as one of them is stopped at the wrong
    /// moment.
    fn remove(&self, key: &[u8]);

    /// Takes a result back, whose memory may be reused.
    fn recycle(&self, contents: Contents) {
        drop(contents);
    }

    /// Statistics. They cost no scan; only a map that does not count by itself reads one line for
    /// every 216 places.
    fn stat(&self) -> StoreStat;
}

/// The statistics of a store. Entries and bytes are those of all processes that share the store.
/// The other counts begin with 0 and belong to this process, except `evicted` of a map that evicts
/// by itself, which belongs to the map.
///
/// While no other thread changes it, a store that is not shared has `entries == added - evicted -
/// removed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreStat {
    /// The number of entries.
    pub entries: u64,
    /// Their bytes: key, value and [`ENTRY_BYTES`](super::ENTRY_BYTES) for each; of a map that
    /// evicts by itself, its records.
    pub bytes: u64,
    /// The limit in bytes.
    pub limit_bytes: u64,
    /// Look-ups that found a value.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Values kept under a key that had none.
    pub added: u64,
    /// Entries that were evicted to make room.
    pub evicted: u64,
    /// Entries that were removed by request.
    pub removed: u64,
    /// Values that were not kept.
    pub refused: u64,
}
