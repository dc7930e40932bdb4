//! [`HoldCache`]: a map of a hold, for evictions that are not its own.
//!
//! A number in the hold, in a second map, counts the bytes of all entries. A process that adds an
//! entry reserves its bytes before, in one atomic step; a process that removes one releases them
//! after. So the number is right across processes, except after a kill in between: then it is too
//! large by one entry at most. The next process that finds itself alone counts again, and so does
//! one that finds the map empty.
//!
//! Each process has its own notes about the use of entries: it learns of an entry of another
//! process when it uses the entry.

use super::interface::{Cache, Inserted, Old, Taken};
use super::shared_map::{self, SharedMap};
use crate::payload::Contents;
use crate::store::bounded::bytes_of;
use crate::store::caches::is_alone;
use crate::store::tag::Tag;
use commonhold::map::{Map, MapOptions};
use commonhold::{Hold, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The one key of the map of bytes.
const BYTES: [u8; 1] = [b'b'];

/// Entries in a map that all processes share.
pub struct HoldCache {
    shared: SharedMap,
    /// One pair: the bytes of all entries.
    account: Map,
    /// Bytes that could not be released, to be released later.
    owed: AtomicI64,
    /// Entries that were removed after the removal had become possible again.
    taken_later: AtomicU64,
}

impl HoldCache {
    /// The map of this name, which is created if it is missing, and the map `NAME.bytes`. Maps of
    /// these names with other options are dropped.
    ///
    /// # Errors
    /// Those of opening a hold once more and of making maps; `Mismatch` if a name is that of
    /// another kind of structure.
    pub fn open(hold: &Hold, name: &str) -> Result<HoldCache> {
        let impatient = shared_map::impatient(hold)?;
        let open = |name: &str, options| shared_map::open(hold, &impatient, name, options);
        let shared = SharedMap::new(open(name, MapOptions::general())?);
        let account = open(&format!("{name}.bytes"), MapOptions::fixed(1, 8))?;
        let cache =
            HoldCache { shared, account, owed: AtomicI64::new(0), taken_later: AtomicU64::new(0) };
        if is_alone(hold)? {
            cache.recount()?;
        }
        Ok(cache)
    }

    /// Sets the bytes to those of the entries, unless another process changes them meanwhile.
    fn recount(&self) -> Result<()> {
        let seen = self.account.get(BYTES)?;
        let mut bytes = 0;
        for pair in self.shared.map().iter() {
            let (key, value) = pair?;
            bytes += bytes_of(&key, value.len());
        }
        let counted = bytes.to_le_bytes();
        self.account.compare_exchange(BYTES, seen.as_deref(), Some(&counted))?;
        Ok(())
    }

    fn counted(&self) -> Result<(Option<Vec<u8>>, u64)> {
        let word = self.account.get(BYTES)?;
        let number =
            word.as_deref().and_then(|bytes| bytes.try_into().ok()).map_or(0, i64::from_le_bytes);
        // Negative: the entries were counted again while another process changed them.
        Ok((word, number.max(0) as u64))
    }

    fn try_reserve(&self, bytes: u64, limit: u64) -> Result<bool> {
        loop {
            let (word, used) = self.counted()?;
            let Some(sum) = used.checked_add(bytes).filter(|sum| *sum <= limit) else {
                return Ok(false);
            };
            let sum = (sum as i64).to_le_bytes();
            if self.account.compare_exchange(BYTES, word.as_deref(), Some(&sum))? {
                return Ok(true);
            }
        }
    }

    fn try_take(&self, key: &[u8]) -> Result<Option<u64>> {
        // A look is not a change, and most keys that are put have no value yet.
        if !self.shared.map().contains(key)? {
            return Ok(None);
        }
        let value = self.shared.map().take(key)?;
        Ok(value.map(|value| bytes_of(key, value.len())))
    }

    fn take_bytes(&self, key: &[u8]) -> Option<u64> {
        self.shared.remove(key, || self.try_take(key))
    }

    /// Removes the doomed keys; false if `key` is still doomed.
    fn remove_doomed(&self, key: &[u8]) -> bool {
        self.shared.remove_doomed(key, |doomed| {
            if let Some(bytes) = self.take_bytes(doomed) {
                Cache::<()>::release(self, bytes);
                // Relaxed: a number on its own.
                self.taken_later.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Removes an older value, which `old` counts, and adds the new one; false if another process
    /// was quicker.
    fn exchange(&self, key: &[u8], value: &[u8], old: &mut Old) -> Result<bool> {
        for _ in 0..2 {
            if let Some(bytes) = self.try_take(key)? {
                *old = Old { entries: old.entries + 1, bytes: old.bytes + bytes };
            }
            if self.shared.map().add(key, value)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Cache<()> for HoldCache {
    type Pinned = Vec<u8>;

    const SHARED: bool = true;

    fn find(&self, key: &[u8], used: impl FnOnce(&())) -> Option<Vec<u8>> {
        let found = self.shared.find(key)?;
        used(&());
        Some(found)
    }

    fn reserve(&self, bytes: u64, limit: u64) -> bool {
        if self.owed.load(Ordering::Relaxed) != 0 {
            Cache::<()>::release(self, 0);
        }
        self.shared.change(|| self.try_reserve(bytes, limit)).unwrap_or(false)
    }

    fn release(&self, bytes: u64) {
        // Relaxed: a number on its own.
        let all = self.owed.swap(0, Ordering::Relaxed).saturating_add(bytes as i64);
        if all != 0 && self.shared.change(|| self.account.increment(BYTES, -all)).is_none() {
            self.owed.fetch_add(all, Ordering::Relaxed);
        }
    }

    fn insert(&self, tag: &Arc<Tag<()>>, value: Vec<u8>) -> Inserted<()> {
        if !self.remove_doomed(tag.key()) {
            return Inserted::Refused(Old::default());
        }
        let mut old = Old::default();
        let added = self.shared.change(|| self.exchange(tag.key(), &value, &mut old));
        self.shared.recycle(value);
        match (added, old.entries) {
            (Some(true), 0) => Inserted::New,
            (Some(true), _) => Inserted::Over(Arc::clone(tag), old),
            _ => Inserted::Refused(old),
        }
    }

    fn take(&self, key: &[u8]) -> Option<Taken<()>> {
        self.take_bytes(key).map(|bytes| Taken { bytes, tag: None })
    }

    fn take_tagged(&self, tag: &Arc<Tag<()>>) -> Option<u64> {
        self.shared.change(|| self.try_take(tag.key())).flatten()
    }

    fn any(&self) -> Option<Arc<Tag<()>>> {
        let some = self.shared.change(|| self.shared.map().random_pair())?;
        if some.is_none() {
            // The map is empty, yet there is no room: a process was killed.
            self.shared.change(|| self.recount());
        }
        let (key, value) = some?;
        Some(Tag::new(&key, bytes_of(&key, value.len())))
    }

    fn recycle(&self, contents: Contents) {
        if let Contents::Own(bytes) = contents {
            self.shared.recycle(bytes);
        }
    }

    fn taken_later(&self) -> u64 {
        self.taken_later.load(Ordering::Relaxed)
    }

    fn entries(&self) -> u64 {
        self.shared.map().len().unwrap_or(0)
    }

    fn bytes(&self) -> u64 {
        self.counted().map_or(0, |(_, bytes)| bytes)
    }
}
