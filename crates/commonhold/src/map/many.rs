//! Batches of lookups: hash all, prefetch directory entries, buckets, records, then compare.
//!
//! A lookup alone waits for two cache misses one after the other; a batch overlaps them. The answers are the
//! same as those of single lookups, each on its own: the batch is not one atomic step.

use crate::error::Result;
use crate::map::bound::Bound;
use crate::map::directory;
use crate::map::hash::Hash;
use crate::map::record::{prefetch, tag_of};
use crate::map::segment::Segment;
use crate::sync::space::Space;
use std::sync::atomic::Ordering;

/// Keys in flight at a time: enough to cover the memory's latency, few enough for the first-level cache.
pub(crate) const BATCH: usize = 32;

/// Hashes of up to [`BATCH`] keys, with their memory on its way.
pub(crate) struct Batch {
    pub(crate) hashes: [Hash; BATCH],
}

impl Batch {
    /// Hashes the keys and fetches what looking them up will touch.
    #[inline]
    pub(crate) fn prepare<K: AsRef<[u8]>>(space: &Space, bound: &Bound, keys: &[K]) -> Batch {
        let mut hashes = [Hash(0); BATCH];
        let mut segments: [Option<Segment<'_>>; BATCH] = [None; BATCH];
        let root = bound.root(space);
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = bound.hasher.hash(key.as_ref());
        }
        let used = keys.len().min(BATCH);
        for (segment, hash) in segments.iter_mut().zip(&hashes[..used]) {
            *segment = directory::lookup(space, root, hash.directory());
            if let Some(segment) = segment {
                segment.prefetch(hash.buckets(bound.buckets));
            }
        }
        if bound.words.is_none() {
            for (segment, hash) in segments.iter().zip(&hashes[..used]) {
                if let Some(segment) = segment {
                    fetch_record(bound, *segment, *hash);
                }
            }
        }
        Batch { hashes }
    }
}

/// Fetches the first record whose tag matches; almost always the right one.
#[inline]
fn fetch_record(bound: &Bound, segment: Segment<'_>, hash: Hash) {
    for number in hash.buckets(bound.buckets) {
        let bucket = segment.bucket(number);
        if let Some(at) = bucket.matching(|w| tag_of(w) == hash.tag() && w != 0).next() {
            // Relaxed: only a prefetch depends on it.
            prefetch(segment.space, bucket.slots[at as usize & 7].load(Ordering::Relaxed));
            return;
        }
    }
}

/// The answers of a batch of lookups: values in one buffer, reused from call to call.
#[derive(Clone, Debug, Default)]
pub struct Values {
    bytes: Vec<u8>,
    /// Ends of the values in `bytes`, and whether each is present.
    ends: Vec<(usize, bool)>,
}

impl Values {
    /// No values; give it to [`Map::get_many`](crate::Map::get_many).
    pub fn new() -> Values {
        Values::default()
    }

    /// How many keys were asked for.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if no key was asked for.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The value of the key at `index` of the batch; `None` if it was absent (or there is no such index).
    #[inline]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let (end, present) = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].0);
        present.then(|| &self.bytes[start..end])
    }

    /// The values in order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The buffer to append one value to, before [`finish`](Self::finish).
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Takes back what was appended since `start`.
    #[inline]
    pub(crate) fn rewind(&mut self, start: usize) {
        self.bytes.truncate(start);
    }

    #[inline]
    pub(crate) fn finish(&mut self, present: bool) {
        self.ends.push((self.bytes.len(), present));
    }
}

/// # Errors
/// The first of any lookup.
pub(crate) fn get_many<K: AsRef<[u8]>>(
    space: &Space,
    bound: &Bound,
    keys: &[K],
    out: &mut Values,
    mut one: impl FnMut(Hash, &[u8], &mut Values) -> Result<bool>,
) -> Result<usize> {
    out.clear();
    let mut hits = 0;
    for chunk in keys.chunks(BATCH) {
        let batch = Batch::prepare(space, bound, chunk);
        for (key, hash) in chunk.iter().zip(batch.hashes) {
            let start = out.bytes.len();
            let present = one(hash, key.as_ref(), out)?;
            if !present {
                out.rewind(start);
            }
            out.finish(present);
            hits += usize::from(present);
        }
    }
    Ok(hits)
}
