//! Reading operations of a map by key: the short way first.

use crate::error::Result;
use crate::map::api::handle::Map;
use crate::map::engine::bound::Bound;
use crate::map::engine::inline_pairs;
use crate::map::engine::many::{Batch, Values};
use crate::map::engine::read;
use crate::map::engine::short_inline;
use crate::map::engine::take::{
    Append, AppendValue, Fresh, ReadUid, ReadValue, Take, ValueAndSequence,
};
use crate::map::layout::hash::Hash;
use crate::map::layout::segment::{BUCKETS, CACHE_BUCKETS};
use crate::map::options::Uid;
use crate::memory::fetch::LARGE;
use std::mem::MaybeUninit;

impl Map {
    /// Returns a copy of the value of `key`, `None` if the key is absent.
    ///
    /// # Errors
    /// `Closed`; `NotFound` if the map was dropped; `Damaged`; `Invalid` for a length that differs
    /// from a fixed-length map's. All reading operations return these errors.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Copies the value of `key` into `out`, replacing its contents. If the key is absent, returns
    /// false and leaves `out` empty. Does not allocate once `out` is large enough.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    #[inline(always)]
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        let bound: &Bound = &self.bound;
        out.clear();
        match bound.has_short_reads {
            true => self.get_into_from::<true>(bound, key, out),
            false => self.get_into_from::<false>(bound, key, out),
        }
    }

    /// Two functions, so that the code for other pairs does not burden the one for records without
    /// expiry. In both, the length of a key that is an array is a constant.
    #[inline(never)]
    fn get_into_from<const RECORDS: bool>(
        &self,
        bound: &Bound,
        key: impl AsRef<[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let key = key.as_ref();
        match self.try_read::<RECORDS, _>(bound, key, Append(out)) {
            Some(found) => Ok(found.is_some()),
            None => self.get_into_patiently(key, out),
        }
    }

    #[inline(never)]
    fn get_into_patiently(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.begin_read(key)?;
        let present = self.bound.read(self.space(), |bound| {
            out.clear();
            self.append(bound, bound.hasher.hash(key), key, out)
        })?;
        if !present {
            out.clear();
        }
        Ok(present)
    }

    /// Copies as much of the value of `key` as fits into `out`. Returns the full length of the
    /// value, `None` if the key is absent. Afterwards that many bytes at the start of `out` are
    /// initialized, or all of `out` if the value is longer.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    #[inline(always)]
    pub fn get_uninit(
        &self,
        key: impl AsRef<[u8]>,
        out: &mut [MaybeUninit<u8>],
    ) -> Result<Option<usize>> {
        let bound: &Bound = &self.bound;
        match bound.has_short_reads {
            true => self.get_uninit_from::<true>(bound, key, out),
            false => self.get_uninit_from::<false>(bound, key, out),
        }
    }

    /// As [`get_into_from`](Self::get_into_from).
    #[inline(never)]
    fn get_uninit_from<const RECORDS: bool>(
        &self,
        bound: &Bound,
        key: impl AsRef<[u8]>,
        out: &mut [MaybeUninit<u8>],
    ) -> Result<Option<usize>> {
        let key = key.as_ref();
        match self.try_read::<RECORDS, _>(bound, key, ReadValue(out)) {
            Some(found) => Ok(found),
            None => self.get_uninit_patiently(key, out),
        }
    }

    #[inline(never)]
    fn get_uninit_patiently(
        &self,
        key: &[u8],
        out: &mut [MaybeUninit<u8>],
    ) -> Result<Option<usize>> {
        self.begin_read(key)?;
        self.bound.read(self.space(), |bound| {
            self.lookup(bound, (bound.hasher.hash(key), key), ReadValue(out))
        })
    }

    /// Looks up many keys at once, several times faster than one by one. Replaces the contents of
    /// `out` with the values, by index in the order of `keys`, and returns the number of keys
    /// present. Each lookup is atomic; the batch as a whole is not.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K], out: &mut Values) -> Result<usize> {
        self.bound.check_keys(keys)?;
        self.arena.ensure_open()?;
        let (space, marks) = (self.space(), self.arena.participant().is_some());
        self.bound.read(space, |bound| {
            let one = |hash, key: &[u8], out: &mut Vec<u8>| self.append(bound, hash, key, out);
            Batch { space, bound, marks }.look_up(keys, out, one)
        })
    }

    /// The short way of a lookup: whether the key is present, and what was taken. `None` if it met
    /// anything unusual; then the patient way looks again. `RECORDS`: in records that do not
    /// expire.
    #[inline(always)]
    fn try_read<const RECORDS: bool, T: Take>(
        &self,
        bound: &Bound,
        key: &[u8],
        mut taker: T,
    ) -> Option<Option<T::Taken>> {
        if self.arena.was_closed() || key.len() >= LARGE {
            return None;
        }
        if RECORDS {
            let key = (bound.hasher.hash(key), key);
            return read::try_find::<BUCKETS, T>(self.space(), bound, key, &mut taker);
        }
        match bound.is_cache() {
            true => self.try_read_in_cache(bound, key, taker),
            false => short_inline::try_find(self.space(), bound, key, taker),
        }
    }

    /// The same in a cache: an expired pair counts as absent.
    #[inline(never)]
    fn try_read_in_cache<T: Take>(
        &self,
        bound: &Bound,
        key: &[u8],
        of: T,
    ) -> Option<Option<T::Taken>> {
        let key = (bound.hasher.hash(key), key);
        let mut fresh = Fresh { of, marks: self.arena.participant().is_some() };
        let found = read::try_find::<CACHE_BUCKETS, _>(self.space(), bound, key, &mut fresh)?;
        let found = found.flatten();
        bound.lookups.count(found.is_some());
        Some(found)
    }

    #[inline]
    pub(crate) fn begin_read(&self, key: &[u8]) -> Result<()> {
        self.arena.ensure_open()?;
        self.bound.check_lengths(key, None)
    }

    /// Appends the value of `key`. If the key is absent, `out` may have grown by garbage.
    #[inline]
    fn append(&self, bound: &Bound, hash: Hash, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        Ok(self.lookup(bound, (hash, key), AppendValue { out, start })?.is_some())
    }

    /// Looks a key up. In a cache, an expired pair counts as absent, and hits and misses are
    /// counted.
    #[inline(always)]
    pub(crate) fn lookup<T: Take>(
        &self,
        bound: &Bound,
        key: (Hash, &[u8]),
        of: T,
    ) -> Result<Option<T::Taken>> {
        match &bound.inline {
            Some(packing) => inline_pairs::find(self.space(), bound, packing, key, of),
            None if bound.is_cache() => self.lookup_in_cache(bound, key, of),
            None => read::find::<BUCKETS, T>(self.space(), bound, key, of),
        }
    }

    #[inline(never)]
    fn lookup_in_cache<T: Take>(
        &self,
        bound: &Bound,
        key: (Hash, &[u8]),
        of: T,
    ) -> Result<Option<T::Taken>> {
        let fresh = Fresh { of, marks: self.arena.participant().is_some() };
        let found = read::find::<CACHE_BUCKETS, _>(self.space(), bound, key, fresh)?;
        let found = found.flatten();
        bound.lookups.count(found.is_some());
        Ok(found)
    }

    /// True if the key is present.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.uid(key)?.is_some())
    }

    /// The uid of a key, `None` if the key is absent.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn uid(&self, key: impl AsRef<[u8]>) -> Result<Option<Uid>> {
        let key = key.as_ref();
        let bound: &Bound = &self.bound;
        if bound.has_short_reads
            && let Some(found) = self.try_read::<true, _>(bound, key, ReadUid)
        {
            return Ok(found);
        }
        self.begin_read(key)?;
        self.bound
            .read(self.space(), |bound| self.lookup(bound, (bound.hasher.hash(key), key), ReadUid))
    }

    /// A value and the sequence of its record, 0 if the value is not in a record.
    pub(crate) fn get_with_sequence(&self, key: &[u8]) -> Result<Option<(Vec<u8>, u64)>> {
        self.begin_read(key)?;
        self.bound.read(self.space(), |bound| {
            let (mut value, hash) = (Vec::new(), bound.hasher.hash(key));
            let sequence = self.lookup(bound, (hash, key), ValueAndSequence(&mut value))?;
            Ok(sequence.map(|sequence| (value, sequence)))
        })
    }
}
