//! The stores that every benchmark has: Commonhold's map through its public API, and the hash table
//! that a program would use for itself.

use super::store::{Found, Store};
use commonhold::map::{Map, Values};
use hashbrown::{HashMap, hash_map::EntryRef};
use std::marker::PhantomData;

/// Commonhold's map; its errors become `E`.
pub struct MapStore<E> {
    map: Map,
    values: Values,
    errors: PhantomData<fn() -> E>,
}

impl<E> MapStore<E> {
    /// One worker's handle on `map`.
    pub fn new(map: Map) -> MapStore<E> {
        MapStore { map, values: Values::default(), errors: PhantomData }
    }
}

impl<E: From<commonhold::Error>> Store for MapStore<E> {
    type Error = E;

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), E> {
        self.map.set(key, value)?;
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, E> {
        Ok(self.map.get_into(key, out)?)
    }

    fn get_owned(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, E> {
        Ok(self.map.get(key)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, E> {
        Ok(self.map.delete(key)?)
    }

    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<(), E> {
        self.map.get_many(keys, &mut self.values)?;
        for at in 0..keys.len() {
            if let Some(value) = self.values.get(at) {
                found(at, value);
            }
        }
        Ok(())
    }
}

/// hashbrown's `HashMap<Vec<u8>, Vec<u8>>` with its own fast hash function, in the fastest way to
/// use it.
#[derive(Default)]
pub struct Table(HashMap<Vec<u8>, Vec<u8>>);

impl Table {
    /// Overwrites in place, as that is its fastest way; allocates only for a new key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        match self.0.entry_ref(key) {
            EntryRef::Occupied(mut there) => {
                let old = there.get_mut();
                old.clear();
                old.extend_from_slice(value);
            }
            EntryRef::Vacant(absent) => {
                absent.insert(value.to_vec());
            }
        }
    }

    /// Copies the value into `out`; false if the key is absent.
    pub fn get(&self, key: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(value) = self.0.get(key) else { return false };
        out.clear();
        out.extend_from_slice(value);
        true
    }

    /// A copy of the value.
    pub fn get_owned(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).cloned()
    }

    /// Removes the key; false if it was absent.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        self.0.remove(key).is_some()
    }

    /// Hands out the values of those `keys` that are present.
    pub fn get_many(&self, keys: &[&[u8]], found: Found<'_>) {
        for (at, key) in keys.iter().enumerate() {
            if let Some(value) = self.0.get(*key) {
                found(at, value);
            }
        }
    }
}

/// A table that one worker has for itself, without a lock.
pub struct Private<E>(Table, PhantomData<fn() -> E>);

impl<E> Default for Private<E> {
    fn default() -> Private<E> {
        Private(Table::default(), PhantomData)
    }
}

impl<E> Store for Private<E> {
    type Error = E;

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), E> {
        self.0.put(key, value);
        Ok(())
    }

    #[inline]
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, E> {
        Ok(self.0.get(key, out))
    }

    fn get_owned(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, E> {
        Ok(self.0.get_owned(key))
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, E> {
        Ok(self.0.delete(key))
    }

    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<(), E> {
        self.0.get_many(keys, found);
        Ok(())
    }
}
