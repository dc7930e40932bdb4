//! Batches of lookups: hash all keys, fetch directory entries and buckets, then records, then
//! compare.
//!
//! A single lookup waits for two cache misses, one after the other; a batch overlaps the misses of
//! its keys. The results are those of single lookups: the batch as a whole is not atomic. A lookup
//! that meets anything unusual is done again by itself.

use crate::error::Result;
use crate::map::engine::bound::Bound;
use crate::map::engine::directory;
use crate::map::engine::read::{self, Place};
use crate::map::engine::take::{Append, Fresh};
use crate::map::layout::hash::Hash;
use crate::map::layout::inline::Inline;
use crate::map::layout::packing::Packing;
use crate::map::layout::record::prefetch;
use crate::map::layout::segment::{BUCKETS, CACHE_BUCKETS, Row, Segment};
use crate::memory::copy;
use crate::sync::space::Space;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys looked up at a time: enough to cover the memory's latency, few enough for the first-level
/// cache.
const BATCH: usize = 32;

/// A map whose keys are looked up.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    pub(crate) space: &'a Space,
    pub(crate) bound: &'a Bound,
    /// In a cache: lookups mark pairs as recently used.
    pub(crate) marks: bool,
}

/// The place where a key may be.
struct Look<'a> {
    segment: Segment<'a>,
    row: Row<'a>,
    /// The first slot of the row with the key's tag, and its contents.
    found: Option<(&'a AtomicU64, u64)>,
}

/// The results of a batch of lookups: values in one buffer, which is reused from call to call.
#[derive(Clone, Debug, Default)]
pub struct Values {
    bytes: Vec<u8>,
    /// Ends of the values in `bytes`, and whether each is present.
    ends: Vec<(usize, bool)>,
}

impl Values {
    /// Creates an empty buffer, to pass to [`Map::get_many`](crate::map::Map::get_many).
    pub fn new() -> Values {
        Values::default()
    }

    /// The number of keys that were looked up.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if no key was looked up.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The value of the key at `index` of the batch; `None` if the key was absent or there is no
    /// such index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let (end, present) = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].0);
        present.then(|| &self.bytes[start..end])
    }

    /// Iterates over the values in the order of the keys; `None` for an absent key.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The buffer, without the bytes that were appended since `start`.
    fn from(&mut self, start: usize) -> &mut Vec<u8> {
        self.bytes.truncate(start);
        &mut self.bytes
    }

    /// Ends one value, which began at `start`, and counts it if it is present. Bytes appended for
    /// an absent one are garbage.
    #[inline(always)]
    fn finish(&mut self, start: usize, present: bool) -> usize {
        if !present {
            self.bytes.truncate(start);
        }
        self.ends.push((self.bytes.len(), present));
        usize::from(present)
    }
}

impl<'a> Batch<'a> {
    /// Looks up all keys. `one` looks one key up by itself, and appends its value.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped; those of `one`.
    pub(crate) fn look_up<K: AsRef<[u8]>>(
        self,
        keys: &[K],
        out: &mut Values,
        mut one: impl FnMut(Hash, &[u8], &mut Vec<u8>) -> Result<bool>,
    ) -> Result<usize> {
        out.clear();
        out.ends.reserve(keys.len());
        let mut hits = 0;
        for keys in keys.chunks(BATCH) {
            hits += match &self.bound.inline {
                Some(Inline::Words(words)) => self.look_in_index(words, keys, out, &mut one)?,
                Some(Inline::Cells(cells)) => self.look_in_index(cells, keys, out, &mut one)?,
                None if self.bound.is_cache() => {
                    self.look_in_records::<CACHE_BUCKETS, K>(keys, out, &mut one)?
                }
                None => self.look_in_records::<BUCKETS, K>(keys, out, &mut one)?,
            };
            // Last, as for every lookup.
            self.bound.ensure_current(self.space)?;
        }
        Ok(hits)
    }

    fn hashes<K: AsRef<[u8]>>(self, keys: &[K]) -> [Hash; BATCH] {
        let mut hashes = [Hash(0); BATCH];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.bound.hasher.hash(key.as_ref());
        }
        hashes
    }

    /// Looks up at most [`BATCH`] keys of a map of records, whose segments have `COUNT` buckets.
    #[inline(always)]
    fn look_in_records<const COUNT: u32, K: AsRef<[u8]>>(
        self,
        keys: &[K],
        out: &mut Values,
        one: &mut impl FnMut(Hash, &[u8], &mut Vec<u8>) -> Result<bool>,
    ) -> Result<usize> {
        let hashes = self.hashes(keys);
        let mut looks = [const { None }; BATCH];
        for ((look, hash), _) in looks.iter_mut().zip(&hashes).zip(keys) {
            if let Some(segment) = directory::lookup(self.space, self.bound, hash.low()) {
                *look = Some(Look::begin(segment, hash.buckets(COUNT)));
            }
        }
        for ((look, hash), _) in looks.iter_mut().zip(&hashes).zip(keys) {
            if let Some(look) = look {
                look.fetch_record(*hash);
            }
        }
        let mut hits = 0;
        for ((look, hash), key) in looks.iter().zip(&hashes).zip(keys) {
            let (start, key) = (out.bytes.len(), key.as_ref());
            let taken = look
                .as_ref()
                .and_then(|look| self.take::<COUNT>(look, (*hash, key), Append(&mut out.bytes)));
            let present = match taken {
                Some(present) => present,
                None => one(*hash, key, out.from(start))?,
            };
            hits += out.finish(start, present);
        }
        Ok(hits)
    }

    /// Whether the key is present; its value is appended then. `None` if the lookup met anything
    /// unusual.
    #[inline(always)]
    fn take<const COUNT: u32>(
        self,
        look: &Look<'_>,
        (hash, key): (Hash, &[u8]),
        mut value: Append<'_>,
    ) -> Option<bool> {
        let Batch { space, bound, marks } = self;
        let Some((slot, word)) = look.found else {
            return read::is_absent(space, bound, hash, look.segment).then(|| {
                if COUNT == CACHE_BUCKETS {
                    bound.lookups.count(false);
                }
                false
            });
        };
        let place = Place { segment: look.segment, position: look.segment.position_of(slot) };
        let seen = (slot, word, place);
        if COUNT != CACHE_BUCKETS {
            read::short_read_at(bound, hash, key, seen, &mut value)?;
            return Some(true);
        }
        let fresh = read::short_read_at(bound, hash, key, seen, &mut Fresh { of: value, marks })?;
        bound.lookups.count(fresh.is_some());
        Some(fresh.is_some())
    }

    /// Looks up at most [`BATCH`] keys of a map whose pairs are in the index.
    #[inline(always)]
    fn look_in_index<P: Packing, K: AsRef<[u8]>>(
        self,
        packing: &P,
        keys: &[K],
        out: &mut Values,
        one: &mut impl FnMut(Hash, &[u8], &mut Vec<u8>) -> Result<bool>,
    ) -> Result<usize> {
        let hashes = self.hashes(keys);
        let mut segments = [None; BATCH];
        for ((segment, hash), _) in segments.iter_mut().zip(&hashes).zip(keys) {
            *segment = directory::lookup(self.space, self.bound, hash.low());
            if let Some(segment) = *segment {
                packing.prefetch(segment, *hash);
            }
        }
        for ((segment, hash), _) in segments.iter().zip(&hashes).zip(keys) {
            if let Some(segment) = *segment {
                packing.prefetch_candidates(segment, *hash);
            }
        }
        let mut hits = 0;
        for ((segment, hash), key) in segments.iter().zip(&hashes).zip(keys) {
            let (start, key) = (out.bytes.len(), key.as_ref());
            let found = segment.map(|segment| (segment, packing.find(segment, *hash, key)));
            let present = match found {
                Some((_, Some((_, pair)))) => {
                    copy::extend(packing.value(key, &pair), &mut out.bytes);
                    true
                }
                Some((segment, None))
                    if read::is_absent(self.space, self.bound, *hash, segment) =>
                {
                    false
                }
                _ => one(*hash, key, &mut out.bytes)?,
            };
            hits += out.finish(start, present);
        }
        Ok(hits)
    }
}

impl<'a> Look<'a> {
    /// Fetches both buckets of a key: which of them contains it cannot be predicted, and a branch
    /// on it costs more than the second line.
    #[inline(always)]
    fn begin(segment: Segment<'a>, buckets: [u32; 2]) -> Look<'a> {
        let row = segment.row(buckets);
        row.prefetch();
        Look { segment, row, found: None }
    }

    /// Fetches the record that may be the key's.
    #[inline(always)]
    fn fetch_record(&mut self, hash: Hash) {
        if let Some(at) = self.row.tagged(hash.tag()).next() {
            let slot = self.row.slot(at);
            // Acquire pairs with the release that committed the slot.
            let word = slot.load(Ordering::Acquire);
            prefetch(self.segment.space, word);
            self.found = Some((slot, word));
        }
    }
}
