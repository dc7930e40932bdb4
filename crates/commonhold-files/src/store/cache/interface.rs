//! [`Cache`]: the interface of a place for entries.

use crate::payload::Contents;
use crate::store::tag::Tag;
use std::sync::Arc;

/// A place for entries, whose tags carry marks `M` of an eviction. All methods may be called from
/// any thread.
pub trait Cache<M>: Send + Sync + 'static {
    /// A look-up's result, which does not change.
    type Pinned: AsRef<[u8]> + Into<Contents> + Send + 'static;

    /// Whether other processes add and remove entries, too.
    const SHARED: bool = false;

    /// The value of a key; calls `used` with the mark of a key that is there.
    fn find(&self, key: &[u8], used: impl FnOnce(&M)) -> Option<Self::Pinned>;

    /// Counts `bytes` more bytes, unless they would exceed the limit; then false.
    fn reserve(&self, bytes: u64, limit: u64) -> bool;

    /// Counts `bytes` fewer bytes.
    fn release(&self, bytes: u64);

    /// Keeps a value, whose bytes are reserved.
    fn insert(&self, tag: &Arc<Tag<M>>, value: Vec<u8>) -> Inserted<M>;

    /// Takes an entry out, whose bytes the caller releases.
    fn take(&self, key: &[u8]) -> Option<Taken<M>>;

    /// Takes the entry of a key out, if it has this tag. Returns its bytes. Where other processes
    /// have entries, the key decides.
    fn take_tagged(&self, tag: &Arc<Tag<M>>) -> Option<u64>;

    /// Any entry, where an eviction may not know all of them.
    fn any(&self) -> Option<Arc<Tag<M>>> {
        None
    }

    /// Takes a result back.
    fn recycle(&self, contents: Contents) {
        drop(contents);
    }

    /// Entries that could not be taken out at once, and were taken out later.
    fn taken_later(&self) -> u64 {
        0
    }

    /// The number of entries.
    fn entries(&self) -> u64;

    /// The number of counted bytes.
    fn bytes(&self) -> u64;
}

/// The result of inserting a value.
pub enum Inserted<M> {
    /// The key had no value.
    New,
    /// The value replaced another; the present tag of the entry.
    Over(Arc<Tag<M>>, Old),
    /// The value is not there. The value that it should have replaced may be.
    Refused(Old),
}

/// The entries that a value of their key replaced: one, or more where processes are quick.
#[derive(Clone, Copy, Default)]
pub struct Old {
    /// Their number.
    pub entries: u64,
    /// Their counted bytes, to be released.
    pub bytes: u64,
}

/// An entry that was taken out.
pub struct Taken<M> {
    /// Its counted bytes.
    pub bytes: u64,
    /// Its tag, where entries have one.
    pub tag: Option<Arc<Tag<M>>>,
}
