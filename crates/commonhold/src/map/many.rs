//! Batches of lookups: hash all keys, prefetch directory entries, buckets and records, then
//! compare.
//!
//! A single lookup waits for two cache misses, one after the other; a batch overlaps the misses of
//! its keys. The results are those of single lookups: the batch as a whole is not atomic.

use crate::error::Result;
use crate::map::bound::Bound;
use crate::map::directory;
use crate::map::hash::Hash;
use crate::map::read::Place;
use crate::map::record::{has_tag, prefetch};
use crate::map::segment::Segment;
use crate::sync::space::Space;
use std::sync::atomic::Ordering;

/// Keys looked up at a time: enough to cover the memory's latency, few enough for the first-level
/// cache.
pub(crate) const BATCH: usize = 32;

/// Up to [`BATCH`] keys: their hashes, and where each was seen. The memory there is being
/// prefetched.
struct Batch<'a> {
    hashes: [Hash; BATCH],
    places: [Option<Place<'a>>; BATCH],
}

impl<'a> Batch<'a> {
    /// Prefetches both buckets of a key: which of them contains it cannot be predicted, and a
    /// branch on it costs more than the second line.
    #[inline]
    fn prepare<K: AsRef<[u8]>>(space: &'a Space, bound: &Bound, keys: &[K]) -> Batch<'a> {
        let mut batch = Batch { hashes: [Hash(0); BATCH], places: [None; BATCH] };
        let mut segments: [Option<Segment<'_>>; BATCH] = [None; BATCH];
        for (hash, key) in batch.hashes.iter_mut().zip(keys) {
            *hash = bound.hasher.hash(key.as_ref());
        }
        for ((segment, hash), _) in segments.iter_mut().zip(&batch.hashes).zip(keys) {
            *segment = directory::lookup(space, bound, hash.directory());
            if let Some(segment) = segment {
                let [first, second] = hash.buckets(bound.buckets);
                bound.prefetch(*segment, first);
                bound.prefetch(*segment, second);
            }
        }
        for (at, key) in keys.iter().enumerate() {
            let Some(segment) = segments[at] else { continue };
            let seen = see(bound, segment, batch.hashes[at], key.as_ref());
            batch.places[at] = seen.map(|position| Place { segment, position });
        }
        batch
    }
}

/// The position where the key seems to be. Prefetches the record there.
#[inline]
fn see(bound: &Bound, segment: Segment<'_>, hash: Hash, key: &[u8]) -> Option<u32> {
    let buckets = hash.buckets(bound.buckets);
    if let Some(inline) = &bound.inline {
        return buckets.iter().find_map(|number| inline.seen_in(segment, *number, hash, key));
    }
    let row = segment.row(buckets);
    // Relaxed: only a hint depends on it.
    let word = |at: u32| row.slot(at).load(Ordering::Relaxed);
    let at = row.tagged(hash.tag()).find(|at| has_tag(hash.tag(), word(*at)))?;
    prefetch(segment.space, word(at));
    Some(row.position(at))
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

    /// The buffer to append one value to, before [`finish`](Self::finish).
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Removes the bytes that were appended since `start`.
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
/// The error of the first lookup that fails.
pub(crate) fn get_many<K: AsRef<[u8]>>(
    space: &Space,
    bound: &Bound,
    keys: &[K],
    out: &mut Values,
    mut one: impl FnMut(Hash, &[u8], Option<Place<'_>>, &mut Values) -> Result<bool>,
) -> Result<usize> {
    out.clear();
    let mut hits = 0;
    for chunk in keys.chunks(BATCH) {
        let batch = Batch::prepare(space, bound, chunk);
        for (at, key) in chunk.iter().enumerate() {
            let start = out.bytes.len();
            let present = one(batch.hashes[at], key.as_ref(), batch.places[at], out)?;
            if !present {
                out.rewind(start);
            }
            out.finish(present);
            hits += usize::from(present);
        }
    }
    Ok(hits)
}
