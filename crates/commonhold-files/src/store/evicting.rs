//! [`Evicting`]: a map of a hold in cache mode, as a store. The map evicts by visited bits that all
//! processes set (`crates/commonhold/src/map/engine/cache.rs`), and counts its bytes, so no
//! eviction is joined to it here.

use super::bounded::bytes_of;
use super::cache::{SharedMap, shared_map};
use super::contract::{Store, StoreStat};
use super::striped_counters::{Event, StripedCounters};
use crate::payload::Contents;
use commonhold::map::MapOptions;
use commonhold::{Hold, Result};

/// A store that all processes share that open it. Writers that arrive together may exceed the limit
/// by one entry each.
pub struct Evicting {
    shared: SharedMap,
    limit_bytes: u64,
    tally: StripedCounters,
}

impl Evicting {
    /// The map of this name, which is created if it is missing. A map with other options, such as
    /// another limit, is dropped. A limit of 0 keeps nothing.
    ///
    /// # Errors
    /// Those of opening a hold once more and of making a map; `Mismatch` if the name is that of
    /// another kind of structure.
    pub fn open(hold: &Hold, name: &str, limit_bytes: u64) -> Result<Evicting> {
        // For the map, 0 is invalid as a limit.
        let options = MapOptions::cache().max_bytes(limit_bytes.max(1));
        let impatient = shared_map::impatient(hold)?;
        let shared = SharedMap::new(shared_map::open(hold, &impatient, name, options.into())?);
        Ok(Evicting { shared, limit_bytes, tally: StripedCounters::default() })
    }

    fn forget(&self, key: &[u8]) {
        let delete = || Ok(self.shared.map().delete(key)?.then_some(()));
        if self.shared.remove(key, delete).is_some() {
            self.tally.count(Event::Removed);
        }
    }

    /// Keeps a value; false if it is not kept.
    fn keep(&self, key: &[u8], value: &[u8]) -> bool {
        let map = self.shared.map();
        let fits = bytes_of(key, value.len()) <= self.limit_bytes;
        if !fits || !self.shared.remove_doomed(key, |doomed| self.forget(doomed)) {
            return false;
        }
        match self.shared.change(|| map.add(key, value)) {
            Some(Some(_)) => self.tally.count(Event::Added),
            Some(None) => return self.shared.change(|| map.set(key, value)).is_some(),
            None => return false,
        }
        true
    }
}

impl Store for Evicting {
    type Pinned = Vec<u8>;

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let found = self.shared.find(key);
        self.tally.count(if found.is_some() { Event::Hit } else { Event::Miss });
        found
    }

    fn put(&self, key: &[u8], value: Vec<u8>) {
        if !self.keep(key, &value) {
            self.forget(key);
            self.tally.count(Event::Refused);
        }
        self.shared.recycle(value);
    }

    fn remove(&self, key: &[u8]) {
        self.forget(key);
    }

    fn recycle(&self, contents: Contents) {
        if let Contents::Own(bytes) = contents {
            self.shared.recycle(bytes);
        }
    }

    fn stat(&self) -> StoreStat {
        let sum = |event| self.tally.sum(event);
        // A map that was dropped has nothing.
        let charged = self.shared.map().charged().unwrap_or_default();
        StoreStat {
            entries: charged.entries,
            bytes: charged.bytes,
            limit_bytes: self.limit_bytes,
            hits: sum(Event::Hit),
            misses: sum(Event::Miss),
            added: sum(Event::Added),
            evicted: charged.evicted,
            removed: sum(Event::Removed),
            refused: sum(Event::Refused),
        }
    }
}
