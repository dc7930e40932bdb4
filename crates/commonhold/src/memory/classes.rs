//! Record sizes and their geometry within a 64 KiB extent.
//!
//! There are four sizes per doubling up to 1 KiB (at most a quarter is slack). Above that, a size
//! is the 64 KiB extent divided by a whole number (at most a third is slack up to 32 KiB). Larger
//! records take runs of whole extents. The bitmap of up to 64 records fits into the extent's
//! header; an extent of smaller records keeps its bitmap at its front. The last two classes are map
//! segments, whose extents serve segments only.

/// Bytes of an extent.
pub(crate) const EXTENT: u64 = 65536;
/// Bytes of a map segment: one header line and 28 lines of slots.
pub(crate) const SEGMENT_BYTES: u64 = 1856;

const SIZES: [u16; CLASSES] = [
    16,
    24,
    32,
    40,
    48,
    56,
    64,
    80,
    96,
    112,
    128,
    160,
    192,
    224,
    256,
    320,
    384,
    448,
    512,
    640,
    768,
    896,
    1024,
    1280,
    1560,
    1816,
    2048,
    2616,
    3120,
    3640,
    4096,
    5456,
    6552,
    7280,
    8192,
    10920,
    13104,
    16384,
    21840,
    32768,
    SEGMENT_BYTES as u16,
    SEGMENT_BYTES as u16,
];
/// Number of classes, the segment class included.
pub(crate) const CLASSES: usize = 42;
/// The class of map segments.
pub(crate) const SEGMENT_CLASS: u8 = 40;
/// The class of cache maps' segments. It is separate, because a reader that was stopped may later
/// mark a position as visited in a segment that serves another map by then. In a cache map that is
/// a hint; in another map it would overwrite a slot.
pub(crate) const CACHE_SEGMENT_CLASS: u8 = 41;

/// The positions of the records of one class within their extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Bytes per record.
    pub(crate) size: u32,
    /// Records per extent.
    pub(crate) count: u32,
    /// Bytes before the first record (the bitmap, or nothing if it is in the header).
    pub(crate) front: u32,
    /// ceil(2^32 / size): `x * reciprocal >> 32 == x / size` for x < 65536.
    reciprocal: u64,
}

const GEOMETRY: [Geometry; CLASSES] = {
    let mut all = [Geometry { size: 0, count: 0, front: 0, reciprocal: 0 }; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        all[class] = Geometry::of(SIZES[class] as u32);
        class += 1;
    }
    all
};

impl Geometry {
    const fn of(size: u32) -> Geometry {
        let reciprocal = (1u64 << 32).div_ceil(size as u64);
        if EXTENT as u32 / size <= 64 {
            return Geometry { size, count: EXTENT as u32 / size, front: 0, reciprocal };
        }
        // The bitmap, in whole cache lines, for as many records as would fit without it.
        let front = (EXTENT as u32 / size).div_ceil(64).div_ceil(8) * 64;
        Geometry { size, count: (EXTENT as u32 - front) / size, front, reciprocal }
    }

    /// Words of the bitmap.
    pub(crate) fn words(&self) -> u32 {
        self.count.div_ceil(64)
    }

    /// The bits of bitmap word `word` that stand for records.
    #[inline(always)]
    pub(crate) fn valid(&self, word: u32) -> u64 {
        let left = self.count - word * 64;
        if left >= 64 { u64::MAX } else { (1 << left) - 1 }
    }

    /// The number of the record that begins exactly `within` bytes into the extent, if any.
    #[inline(always)]
    pub(crate) fn index(&self, within: u64) -> Option<u32> {
        let from_first = within.checked_sub(u64::from(self.front))?;
        let index = (from_first * self.reciprocal) >> 32;
        let exact = index * u64::from(self.size) == from_first && index < u64::from(self.count);
        exact.then_some(index as u32)
    }

    /// Bytes from the extent's start to record `index`.
    #[inline(always)]
    pub(crate) fn within(&self, index: u32) -> u64 {
        u64::from(self.front) + u64::from(index) * u64::from(self.size)
    }
}

/// The geometry of a class; an unknown class (damage) reads as the smallest.
#[inline]
pub(crate) fn geometry(class: u8) -> &'static Geometry {
    GEOMETRY.get(usize::from(class)).unwrap_or(&GEOMETRY[0])
}

/// The class for a record of `len` bytes; `None` if it needs a run of extents.
#[inline(always)]
pub(crate) fn class_for(len: u64) -> Option<u8> {
    if len <= 64 {
        return Some((len.saturating_sub(9) / 8) as u8);
    }
    class_above_64(len)
}

#[inline(never)]
fn class_above_64(len: u64) -> Option<u8> {
    let found = SIZES[..SEGMENT_CLASS as usize].partition_point(|&size| u64::from(size) < len);
    (found < SEGMENT_CLASS as usize).then_some(found as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_gets_the_smallest_class_that_fits() {
        for len in 1..=32768 {
            let class = class_for(len).unwrap();
            assert!(u64::from(SIZES[class as usize]) >= len, "{len} in class {class}");
            assert!(class == 0 || u64::from(SIZES[class as usize - 1]) < len, "{len} in {class}");
        }
        assert_eq!(class_for(32769), None);
    }

    #[test]
    fn index_inverts_within_and_refuses_other_places() {
        for class in 0..CLASSES as u8 {
            let g = geometry(class);
            assert!(g.within(g.count - 1) + u64::from(g.size) <= EXTENT);
            assert!(g.words() <= 64 && (g.front > 0) == (g.count > 64));
            for index in 0..g.count {
                assert_eq!(g.index(g.within(index)), Some(index));
                assert_eq!(g.index(g.within(index) + 8), None);
            }
            assert_eq!(g.index(g.within(g.count)), None);
        }
    }
}
