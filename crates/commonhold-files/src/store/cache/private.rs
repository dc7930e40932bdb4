//! [`Private`]: a table of this process, behind a lock that many readers share. A look-up shares
//! the value instead of copying it, so a removed entry lives until its last send.

use super::interface::{Cache, Inserted, Old, Taken};
use crate::payload::Contents;
use crate::store::bounded::bytes_of;
use crate::store::tag::Tag;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The value of an entry, shared with its look-ups.
#[derive(Clone)]
pub struct Content(Arc<Box<[u8]>>);

impl Content {
    /// Makes no copy, if the vector has no room to spare.
    fn new(value: Vec<u8>) -> Content {
        Content(Arc::new(value.into_boxed_slice()))
    }
}

impl From<Content> for Contents {
    fn from(content: Content) -> Contents {
        Contents::Shared(content.0)
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A hash table of entries, each with its tag; for one thread at a time.
pub trait Table<M>: Default + Send + Sync + 'static {
    /// The entry of a key.
    fn find(&self, key: &[u8]) -> Option<(&Arc<Tag<M>>, &Content)>;

    /// Sets a value; returns the earlier value, whose tag stays.
    fn insert(&mut self, tag: &Arc<Tag<M>>, content: Content) -> Option<Content>;

    /// Takes an entry out.
    fn take(&mut self, key: &[u8]) -> Option<(Arc<Tag<M>>, Content)>;

    /// The number of entries.
    fn entries(&self) -> usize;
}

/// Entries in a table.
#[derive(Default)]
pub struct Private<T> {
    table: RwLock<T>,
    /// Bytes of all entries, and of those that are about to be added.
    bytes: AtomicU64,
}

impl<T> Private<T> {
    fn read(&self) -> RwLockReadGuard<'_, T> {
        // Nothing panics halfway through a change of the table.
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Send + Sync + 'static, T: Table<M>> Cache<M> for Private<T> {
    type Pinned = Content;

    fn find(&self, key: &[u8], used: impl FnOnce(&M)) -> Option<Content> {
        let table = self.read();
        let (tag, content) = table.find(key)?;
        used(&tag.mark);
        Some(content.clone())
    }

    fn reserve(&self, bytes: u64, limit: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        // Relaxed: a number on its own; entries are published by the lock.
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn release(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn insert(&self, tag: &Arc<Tag<M>>, value: Vec<u8>) -> Inserted<M> {
        let content = Content::new(value);
        let mut table = self.write();
        let Some(old) = table.insert(tag, content) else { return Inserted::New };
        let kept = table.find(tag.key()).map_or(tag, |(kept, _)| kept);
        let (tag, bytes) = (Arc::clone(kept), bytes_of(tag.key(), old.as_ref().len()));
        // Large memory goes back to the system: no other thread should wait for that.
        drop(table);
        drop(old);
        Inserted::Over(tag, Old { entries: 1, bytes })
    }

    fn take(&self, key: &[u8]) -> Option<Taken<M>> {
        let taken = self.write().take(key);
        let (tag, content) = taken?;
        Some(Taken { bytes: bytes_of(key, content.as_ref().len()), tag: Some(tag) })
    }

    fn take_tagged(&self, tag: &Arc<Tag<M>>) -> Option<u64> {
        let mut table = self.write();
        let same = table.find(tag.key()).is_some_and(|(found, _)| Arc::ptr_eq(found, tag));
        let taken = if same { table.take(tag.key()) } else { None };
        drop(table);
        taken.map(|(_, content)| bytes_of(tag.key(), content.as_ref().len()))
    }

    fn entries(&self) -> u64 {
        self.read().entries() as u64
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
