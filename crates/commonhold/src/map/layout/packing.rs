//! The packing of fixed-length pairs in the index itself: what both ways of packing them offer.
//!
//! [`words`](crate::map::layout::words) packs pairs of at most 8 bytes into slots,
//! [`cells`](crate::map::layout::cells) packs longer ones into cells of a bucket. Either way a pair
//! is found, read whole, and changed by one store under the segment's lock. It has no record, no
//! sequence and no checksum of its own.

use crate::map::layout::hash::Hash;
use crate::map::layout::segment::Segment;

/// The packing of a map's pairs in its segments. The result of a function that only reads existed
/// at one moment.
pub(crate) trait Packing {
    /// Key and value, one after the other, then zeros.
    type Pair: AsRef<[u8]> + Copy;

    /// Bytes of a key and of a value.
    fn lengths(&self) -> (usize, usize);

    /// The pair of this key and value, which have the map's lengths.
    fn pack(&self, key: &[u8], value: &[u8]) -> Self::Pair;

    /// The pair with this key in a segment, and its position.
    fn find(&self, segment: Segment<'_>, hash: Hash, key: &[u8]) -> Option<(u32, Self::Pair)>;

    /// The pair at a position.
    fn at(&self, segment: Segment<'_>, position: u32) -> Option<Self::Pair>;

    /// True if the pair has this key, which has the map's length.
    fn has_key(&self, pair: &Self::Pair, key: &[u8]) -> bool;

    /// The value of a pair with this key, which has the map's length.
    #[inline(always)]
    fn value<'p>(&self, key: &[u8], pair: &'p Self::Pair) -> &'p [u8] {
        debug_assert_eq!(key.len(), self.lengths().0);
        &pair.as_ref()[key.len()..][..self.lengths().1]
    }

    /// A free position for the hash, under the lock: in the emptier of its two buckets.
    fn free_position(&self, segment: Segment<'_>, hash: Hash) -> Option<u32>;

    /// Stores a pair, under the lock; its last store is the commit point.
    fn put(&self, segment: Segment<'_>, position: u32, hash: Hash, pair: &Self::Pair);

    /// The slot whose store commits a change of a position.
    fn commits(&self, position: u32) -> u32;

    /// Empties a position by one store, under the lock.
    fn clear(&self, segment: Segment<'_>, position: u32);

    /// Fetches both buckets of a hash, for a lookup.
    fn prefetch(&self, segment: Segment<'_>, hash: Hash);

    /// Fetches the pairs that may have the key with this hash, if that is more than the buckets.
    #[inline(always)]
    fn prefetch_candidates(&self, _: Segment<'_>, _: Hash) {}

    /// Fetches both buckets of a hash, for a change.
    fn prefetch_to_change(&self, segment: Segment<'_>, hash: Hash);
}

/// Key and value of a pair.
#[inline(always)]
pub(crate) fn parts<'p, P: Packing>(packing: &P, pair: &'p P::Pair) -> (&'p [u8], &'p [u8]) {
    let (key, value) = packing.lengths();
    (&pair.as_ref()[..key], &pair.as_ref()[key..key + value])
}

/// The uid of the key with this hash at this position.
#[inline(always)]
pub(crate) fn uid(hash: Hash, position: u32) -> u32 {
    hash.directory() << 8 | position
}
