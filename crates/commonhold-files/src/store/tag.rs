//! [`Tag`]: the key of an entry, with an eviction's notes about it. A cache and an eviction share
//! it, so that a note costs no look-up.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The key of one entry. An entry that is removed and added again has another tag; an entry whose
/// value is replaced keeps it.
pub struct Tag<M> {
    key: Box<[u8]>,
    /// The bytes that the entry counts, for evictions that divide the room; a replacement of the
    /// value stores the new number.
    bytes: AtomicU64,
    /// The eviction's notes.
    pub mark: M,
}

impl<M: Default> Tag<M> {
    /// A tag of an entry that counts `bytes` bytes.
    pub fn new(key: &[u8], bytes: u64) -> Arc<Tag<M>> {
        Arc::new(Tag { key: key.into(), bytes: AtomicU64::new(bytes), mark: M::default() })
    }
}

impl<M> Tag<M> {
    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The bytes that the entry counts.
    pub fn bytes(&self) -> u64 {
        // Relaxed: a number on its own.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sets the bytes that the entry counts.
    pub fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// A tag as a key of tables, which find it by the bytes of its key.
pub(super) struct ByKey<M>(pub(super) Arc<Tag<M>>);

impl<M> Borrow<[u8]> for ByKey<M> {
    fn borrow(&self) -> &[u8] {
        &self.0.key
    }
}

impl<M> Hash for ByKey<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl<M> PartialEq for ByKey<M> {
    fn eq(&self, other: &ByKey<M>) -> bool {
        self.0.key == other.0.key
    }
}

impl<M> Eq for ByKey<M> {}
