//! [`Cache`]: what a place for entries can do.

use crate::payload::Contents;
use crate::store::tag::Tag;
use std::sync::Arc;

/// A place for entries, whose tags carry marks `M` of an eviction. From any thread.
pub trait Cache<M>: Send + Sync + 'static {
    /// A look-up's result, which stays as it is.
    type Pinned: AsRef<[u8]> + Into<Contents> + Send + 'static;

    /// Whether other processes add and remove entries, too.
    const SHARED: bool = false;

    /// The value of a key; `used` is called with the mark of one that is there.
    fn find(&self, key: &[u8], used: impl FnOnce(&M)) -> Option<Self::Pinned>;

    /// Counts so many bytes more, unless that were over the limit; then false.
    fn reserve(&self, bytes: u64, limit: u64) -> bool;

    /// Counts so many bytes less.
    fn release(&self, bytes: u64);

    /// Keeps a value, whose bytes are reserved.
    fn insert(&self, tag: &Arc<Tag<M>>, value: Vec<u8>) -> Inserted<M>;

    /// Takes an entry out, whose bytes are to be released.
    fn take(&self, key: &[u8]) -> Option<Taken<M>>;

    /// The same, if it is the one of this tag. Returns its bytes. Where other processes have
    /// entries, the key decides.
    fn take_tagged(&self, tag: &Arc<Tag<M>>) -> Option<u64>;

    /// Some entry, any of them, where an eviction may not know of all.
    fn any(&self) -> Option<Arc<Tag<M>>> {
        None
    }

    /// Takes a result back.
    fn recycle(&self, contents: Contents) {
        drop(contents);
    }

    /// Entries that could not be taken out when they had to go, and were taken out later.
    fn taken_later(&self) -> u64 {
        0
    }

    /// Entries.
    fn entries(&self) -> u64;

    /// Bytes that are counted.
    fn bytes(&self) -> u64;
}

/// What became of a value.
pub enum Inserted<M> {
    /// Its key had none.
    New,
    /// It is there instead of another; the tag that the entry has now.
    Over(Arc<Tag<M>>, Old),
    /// It is not there. What it should have replaced may be.
    Refused(Old),
}

/// Entries that went for a value of their key: one, or more where processes are quick.
#[derive(Clone, Copy, Default)]
pub struct Old {
    /// How many.
    pub entries: u64,
    /// What they count, to be released.
    pub bytes: u64,
}

/// An entry that was taken out.
pub struct Taken<M> {
    /// What it counts.
    pub bytes: u64,
    /// Its tag, where entries have one.
    pub tag: Option<Arc<Tag<M>>>,
}
