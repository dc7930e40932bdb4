//! The packing that a map of fixed lengths has, if it keeps its pairs in the index.

use crate::map::layout::cells::Cells;
use crate::map::layout::hash::{Hash, Hasher};
use crate::map::layout::packing::{Packing, parts};
use crate::map::layout::segment::{BUCKETS, Segment};
use crate::map::layout::words::Words;

/// The packing of a map. One per handle, and the words' fillers are read in every lookup: no box.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Inline {
    Words(Words),
    Cells(Cells),
}

/// Runs the body for either packing.
macro_rules! packed {
    ($inline:expr, $packing:ident => $go_on:expr) => {
        match $inline {
            Inline::Words($packing) => $go_on,
            Inline::Cells($packing) => $go_on,
        }
    };
}
pub(crate) use packed;

impl Inline {
    /// The packing of pairs with these lengths. `None` if they are kept in records: long pairs, and
    /// all but the shortest pairs of a file hold, because only a checksum reveals a torn pair after
    /// a crash of the system.
    pub(crate) fn new(
        hasher: &Hasher,
        checksums: bool,
        key_bytes: u32,
        value_bytes: u32,
    ) -> Option<Inline> {
        let words = || Words::new(hasher, key_bytes, value_bytes).map(Inline::Words);
        let cells = || Cells::new(key_bytes, value_bytes).map(Inline::Cells);
        words().or_else(|| if checksums { None } else { cells() })
    }

    /// Buckets of a segment.
    pub(crate) fn buckets(&self) -> u32 {
        match self {
            Inline::Words(_) => BUCKETS,
            Inline::Cells(cells) => cells.buckets(),
        }
    }

    /// A description of damage in a bucket, while nobody writes.
    pub(crate) fn problem(&self, segment: Segment<'_>, bucket: u32) -> Option<&'static str> {
        match self {
            Inline::Words(_) => None,
            Inline::Cells(cells) => cells.problem(segment, bucket),
        }
    }

    /// True if readers find the key with this hash at its position. While nobody writes.
    pub(crate) fn is_found(&self, segment: Segment<'_>, position: u32, hash: Hash) -> bool {
        match self {
            Inline::Words(_) => true,
            Inline::Cells(cells) => cells.has_tag(segment, position, hash),
        }
    }

    /// Fetches both buckets of a hash, for a change.
    #[inline]
    pub(crate) fn prefetch_to_change(&self, segment: Segment<'_>, hash: Hash) {
        packed!(self, packing => packing.prefetch_to_change(segment, hash));
    }

    /// Key and value at a position.
    pub(crate) fn pair(&self, segment: Segment<'_>, position: u32) -> Option<(Vec<u8>, Vec<u8>)> {
        packed!(self, packing => packing.at(segment, position).map(|pair| {
            let (key, value) = parts(packing, &pair);
            (key.to_vec(), value.to_vec())
        }))
    }

    /// The hash of the key at a position.
    pub(crate) fn hash(
        &self,
        hasher: &Hasher,
        segment: Segment<'_>,
        position: u32,
    ) -> Option<Hash> {
        packed!(self, packing => packing.at(segment, position)
            .map(|pair| hasher.hash(parts(packing, &pair).0)))
    }

    /// True if there is a pair at a position.
    pub(crate) fn is_used(&self, segment: Segment<'_>, position: u32) -> bool {
        packed!(self, packing => packing.at(segment, position).is_some())
    }

    /// Empties a position, under the lock, without counting the change.
    pub(crate) fn clear(&self, segment: Segment<'_>, position: u32) {
        packed!(self, packing => packing.clear(segment, position));
    }
}
