//! [`Bounded`]: a cache and an eviction make a store.
//!
//! Invariant: room is reserved before a value is kept, and reserved bytes never exceed the limit;
//! so entries never do. The eviction knows each entry in the cache, or is about to know it. A tag
//! that the eviction names and the cache has not is not an entry, but the rest of one.

use super::cache::{Cache, Inserted};
use super::contract::{Store, StoreStat};
use super::eviction::Eviction;
use super::striped_counters::{Event, StripedCounters};
use super::tag::Tag;
use crate::payload::Contents;
use std::sync::Arc;

/// The bytes that an entry counts besides its key and its value: its places in tables and queues,
/// and the allocator's overhead of each piece.
pub const ENTRY_BYTES: u64 = 160;

/// A value is not kept when this many victims in succession were no longer entries. Where others
/// evict too, all that this process knows may be outdated.
const FRUITLESS: u32 = 64;

/// The bytes that an entry counts.
pub(super) fn bytes_of(key: &[u8], value_len: usize) -> u64 {
    (key.len() + value_len) as u64 + ENTRY_BYTES
}

/// A store with a limit in bytes.
pub struct Bounded<C, E> {
    cache: C,
    eviction: E,
    limit_bytes: u64,
    tally: StripedCounters,
}

impl<E: Eviction, C: Cache<E::Mark>> Bounded<C, E> {
    /// Keeps entries in `cache`.
    pub fn new(cache: C, limit_bytes: u64) -> Bounded<C, E> {
        Bounded {
            cache,
            eviction: E::new(limit_bytes),
            limit_bytes,
            tally: StripedCounters::default(),
        }
    }

    /// Reserves `bytes` bytes, and evicts entries for them; false if there is no room.
    fn make_room(&self, bytes: u64) -> bool {
        if bytes > self.limit_bytes {
            return false;
        }
        let mut fruitless = 0;
        while !self.cache.reserve(bytes, self.limit_bytes) {
            let Some(victim) = self.victim() else { return false };
            match self.cache.take_tagged(&victim) {
                Some(freed) => {
                    self.cache.release(freed);
                    self.tally.count(Event::Evicted);
                    fruitless = 0;
                }
                None if fruitless == FRUITLESS => return false,
                None => fruitless += 1,
            }
        }
        true
    }

    /// The entry that goes next. Where others have entries too, unknown entries go as often as they
    /// are met.
    fn victim(&self) -> Option<Arc<Tag<E::Mark>>> {
        if !E::EVICTS {
            return None;
        }
        let any = self.cache.any();
        let unknown = any.as_ref().is_some_and(|any| !self.eviction.knows(any.key()));
        if unknown { any } else { self.eviction.victim().or(any) }
    }

    /// Removes a key; false if it was not there.
    fn forget(&self, key: &[u8]) -> bool {
        let Some(taken) = self.cache.take(key) else { return false };
        self.eviction.removed(key, taken.tag.as_ref());
        self.cache.release(taken.bytes);
        self.tally.count(Event::Removed);
        true
    }

    fn refuse(&self, key: &[u8]) {
        self.forget(key);
        self.tally.count(Event::Refused);
    }
}

impl<E: Eviction, C: Cache<E::Mark>> Store for Bounded<C, E> {
    type Pinned = C::Pinned;

    fn get(&self, key: &[u8]) -> Option<C::Pinned> {
        let mut known = true;
        let found = self.cache.find(key, |mark| known = self.eviction.used(key, mark));
        if let (true, false, Some(found)) = (C::SHARED, known, &found) {
            // Another process has put it.
            self.eviction.added(&Tag::new(key, bytes_of(key, found.as_ref().len())));
        }
        self.tally.count(if found.is_some() { Event::Hit } else { Event::Miss });
        found
    }

    fn put(&self, key: &[u8], value: Vec<u8>) {
        let bytes = bytes_of(key, value.len());
        // The older value's room suffices, if no other is left.
        let has_room = self.make_room(bytes) || (self.forget(key) && self.make_room(bytes));
        if !has_room {
            return self.refuse(key);
        }
        let tag = Tag::new(key, bytes);
        match self.cache.insert(&tag, value) {
            Inserted::New => {
                self.eviction.added(&tag);
                self.tally.count(Event::Added);
            }
            Inserted::Over(tag, old) => {
                tag.set_bytes(bytes);
                self.cache.release(old.bytes);
                // The value itself counts for one of them.
                self.tally.add(Event::Removed, old.entries.saturating_sub(1));
                if !self.eviction.used(key, &tag.mark) && C::SHARED {
                    self.eviction.added(&tag);
                }
            }
            Inserted::Refused(old) => {
                self.cache.release(bytes + old.bytes);
                self.tally.add(Event::Removed, old.entries);
                self.refuse(key);
            }
        }
    }

    fn remove(&self, key: &[u8]) {
        self.forget(key);
    }

    fn recycle(&self, contents: Contents) {
        self.cache.recycle(contents);
    }

    fn stat(&self) -> StoreStat {
        let sum = |event| self.tally.sum(event);
        StoreStat {
            entries: self.cache.entries(),
            bytes: self.cache.bytes(),
            limit_bytes: self.limit_bytes,
            hits: sum(Event::Hit),
            misses: sum(Event::Miss),
            added: sum(Event::Added),
            evicted: sum(Event::Evicted),
            removed: sum(Event::Removed) + self.cache.taken_later(),
            refused: sum(Event::Refused),
        }
    }
}
