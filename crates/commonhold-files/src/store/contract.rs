//! [`Store`]: what a store is to those who serve files from it.

use crate::payload::Contents;
use serde::{Deserialize, Serialize};

/// Contents of files by key, bounded in bytes, shared by all worker threads of a process or, in a
/// hold, by all processes.
///
/// All operations may be called from any thread. None waits for a process that is stopped: of a
/// hold, an operation that meets a stopped one gives up after milliseconds, and the value is not
/// kept.
pub trait Store: Send + Sync + 'static {
    /// A look-up's result. It stays as it is while it lives, whatever becomes of the entry; a value
    /// that is pinned and was evicted or removed is not counted in the store's bytes any more.
    type Pinned: AsRef<[u8]> + Into<Contents> + Send + 'static;

    /// The value of a key.
    fn get(&self, key: &[u8]) -> Option<Self::Pinned>;

    /// Keeps a value, instead of an older one of the same key. One that is larger than the limit,
    /// or for which there is no room, is not kept, and counted as refused; then the older one is
    /// gone all the same.
    fn put(&self, key: &[u8], value: Vec<u8>);

    /// Forgets a key. From now on this store gives its value out to nobody in this process; of a
    /// hold, other processes may go on seeing it for as long as one of them is stopped at the wrong
    /// moment.
    fn remove(&self, key: &[u8]);

    /// Takes a result back, whose memory may be used again.
    fn recycle(&self, contents: Contents) {
        drop(contents);
    }

    /// Counts. Nothing is looked through for them, but of a map that does not count by itself one
    /// line for every 216 places.
    fn stat(&self) -> StoreStat;
}

/// What a store has, and what became of requests. Entries and bytes are those of all processes that
/// share the store; the other counts begin with 0 and are this process's own, but `evicted` of a
/// map that evicts by itself, which are the map's.
///
/// While nobody else changes it, a store that is not shared has `entries == added - evicted -
/// removed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreStat {
    /// Entries.
    pub entries: u64,
    /// What they are counted with: key, value and [`ENTRY_BYTES`](super::ENTRY_BYTES) each; of a
    /// map that evicts by itself, its records.
    pub bytes: u64,
    /// The most bytes.
    pub limit_bytes: u64,
    /// Look-ups that found a value.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Values kept under a key that had none.
    pub added: u64,
    /// Entries that went to make room.
    pub evicted: u64,
    /// Entries that went because they were to be forgotten.
    pub removed: u64,
    /// Values not kept.
    pub refused: u64,
}
