//! A segment: the map's unit of locking and growth, 1,856 bytes.
//!
//! One header line, then 28 lines of 8 slots. A slot is 0 (empty) or `tag << 40 | record offset /
//! 8` (in fixed-length mode: the pair itself, see [`words`](crate::map::layout::words)). A key's
//! slot never moves within its segment, and a split keeps its position. A cache map uses 27 lines
//! of slots; the last line keeps a visited bit per position.
//!
//! The first word is the state word, as of everything allocated. In a live segment it is also the
//! segment's counter: the largest sequence published in it.

use crate::memory::classes::SEGMENT_BYTES;
use crate::memory::copy;
use crate::sync::space::{Shared, Space};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bits of a record's offset in a slot; the tag is above them.
pub(crate) const OFFSET_BITS: u32 = 40;
/// Slots in a bucket: one cache line.
pub(crate) const BUCKET_SLOTS: u32 = 8;
/// Buckets of a segment.
pub(crate) const BUCKETS: u32 = 28;
/// Buckets of a cache map's segment.
pub(crate) const CACHE_BUCKETS: u32 = 27;

/// The header line.
#[repr(C)]
pub(crate) struct Header {
    /// State word; in a live segment the largest sequence published in it.
    pub(crate) state_word: AtomicU64,
    /// Robust lock over the segment.
    pub(crate) lock: AtomicU32,
    /// pairs (16 bits) | map id << 16.
    pub(crate) pairs_and_map: AtomicU32,
    /// [`Phase`].
    pub(crate) phase: AtomicU64,
    /// 0, or position + 1 while a change is in progress (the three words below describe it).
    pub(crate) armed: AtomicU64,
    /// The contents of the slot before the change.
    pub(crate) old_word: AtomicU64,
    /// The sequence of the old record.
    pub(crate) old_sequence: AtomicU64,
    /// The contents of the slot after the change.
    pub(crate) new_word: AtomicU64,
    /// The position in the map's stream after the last change (0 without one).
    pub(crate) stream_position: AtomicU64,
}

/// One line of slots.
#[repr(C)]
pub(crate) struct Bucket {
    pub(crate) slots: [AtomicU64; BUCKET_SLOTS as usize],
}

/// The two candidate buckets of a key, as one row of 16 slots. Both are searched together: which of
/// them contains a key cannot be predicted, and their lines are fetched at the same time.
pub(crate) struct Row<'a> {
    first: &'a Bucket,
    second: &'a Bucket,
}

impl<'a> Row<'a> {
    /// Bit `i` is set if slot `i` of the row may have this tag. A caller that uses a slot loads it
    /// (acquire) and checks again. Empty slots have the tag 0.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn tagged(&self, tag: u64) -> Matching {
        const { assert!(OFFSET_BITS == 40) };
        let lines = [self.first, self.second].map(|bucket| std::ptr::from_ref(bucket).cast());
        // SAFETY: buckets are 64 bytes of the mapped file.
        Matching(unsafe { copy::upper_24_are(lines, tag as u32) })
    }

    /// Bit `i` is set if slot `i` of the row is the wanted word of its bucket, in the bits of
    /// `mask`. A caller that uses a slot loads it (acquire) and checks again.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn equal(&self, wanted: [u64; 2], mask: u64) -> Matching {
        let lines = [self.first, self.second].map(|bucket| std::ptr::from_ref(bucket).cast());
        // SAFETY: buckets are 64 bytes of the mapped file.
        Matching(unsafe { copy::words_are(lines, wanted, mask) })
    }

    /// The same for the lower 32 bits of each word, which take half the time.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn lower_equal(&self, wanted: [u32; 2], mask: u32) -> Matching {
        let lines = [self.first, self.second].map(|bucket| std::ptr::from_ref(bucket).cast());
        // SAFETY: buckets are 64 bytes of the mapped file.
        Matching(unsafe { copy::lower_halves_are(lines, wanted, mask) })
    }

    /// A free slot in the emptier of the two buckets.
    #[inline(always)]
    pub(crate) fn free(&self) -> Option<u32> {
        let free = self.equal([0, 0], u64::MAX).0;
        let [first, second] = count_bits(free);
        let chosen = free & if second > first { 0xff00 } else { 0xff };
        (chosen != 0).then(|| chosen.trailing_zeros())
    }

    /// Fetches both buckets for reading.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        copy::prefetch(std::ptr::from_ref(self.first).cast());
        copy::prefetch(std::ptr::from_ref(self.second).cast());
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn slot(&self, at: u32) -> &'a AtomicU64 {
        let [first, second] = [self.first, self.second].map(std::ptr::from_ref);
        // The second bucket as if it began with slot 8: one addition for both.
        let line = if at < BUCKET_SLOTS { first } else { second.wrapping_sub(1) };
        let at = (at % (2 * BUCKET_SLOTS)) as usize;
        // SAFETY: the slots below 8 are those of the first bucket, the others of the second.
        unsafe { &*line.cast::<AtomicU64>().wrapping_add(at) }
    }

    /// The one of two values, by bucket, that is for a slot of the row.
    #[inline(always)]
    pub(crate) fn of_bucket<V: Copy>(&self, at: u32, values: [V; 2]) -> V {
        if at < BUCKET_SLOTS { values[0] } else { values[1] }
    }
}

/// Set bits of the lower byte and of the second one, counted at once: not every processor of this
/// architecture has an instruction for it.
#[inline(always)]
fn count_bits(bits: u32) -> [u32; 2] {
    let pairs = bits - (bits >> 1 & 0x5555);
    let fours = (pairs & 0x3333) + (pairs >> 2 & 0x3333);
    let bytes = (fours + (fours >> 4)) & 0x0f0f;
    [bytes & 0xff, bytes >> 8]
}

/// Slots of a bucket or a row, beginning with the first.
pub(crate) struct Matching(pub(crate) u32);

impl Iterator for Matching {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let at = (self.0 != 0).then(|| self.0.trailing_zeros());
        self.0 &= self.0.wrapping_sub(1);
        at
    }
}

const _: () = assert!(size_of::<Header>() == 64 && size_of::<Bucket>() == 64);
const _: () = assert!(size_of::<Lines>() as u64 == SEGMENT_BYTES);

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Header {}
// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Lines {}

/// The state of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    None,
    /// The child is being filled; recovery rolls the split back.
    Copying,
    /// The child is being published; recovery rolls the split forward.
    Publishing,
}

/// step (2 bits) | local depth (6) | prefix (24) | child offset / 64 (32), one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) step: Step,
    /// Directory bits that all keys of the segment share.
    pub(crate) depth: u32,
    /// Those bits.
    pub(crate) prefix: u32,
    /// Offset of the child, 0 for none.
    pub(crate) child: u64,
}

impl Phase {
    pub(crate) fn still(depth: u32, prefix: u32) -> Phase {
        Phase { step: Step::None, depth, prefix, child: 0 }
    }

    pub(crate) fn from_bits(bits: u64) -> Phase {
        let step = match bits & 3 {
            1 => Step::Copying,
            2 => Step::Publishing,
            _ => Step::None,
        };
        let depth = ((bits >> 2) & 63) as u32;
        Phase { step, depth, prefix: (bits >> 8) as u32 & 0xff_ffff, child: (bits >> 32) * 64 }
    }

    pub(crate) fn bits(self) -> u64 {
        let step = match self.step {
            Step::None => 0,
            Step::Copying => 1,
            Step::Publishing => 2,
        };
        step | u64::from(self.depth) << 2 | u64::from(self.prefix) << 8 | (self.child / 64) << 32
    }

    /// True if a key with these directory bits belongs to the segment.
    pub(crate) fn covers(self, directory: u32) -> bool {
        directory & mask(self.depth) == self.prefix
    }
}

/// The low `depth` bits.
#[inline]
pub(crate) fn mask(depth: u32) -> u32 {
    ((1u64 << depth.min(31)) - 1) as u32
}

/// The memory of a segment.
#[repr(C)]
struct Lines {
    header: Header,
    buckets: [Bucket; BUCKETS as usize],
}

/// A segment whose memory exists. Whether a segment begins at the offset is another question
/// ([`directory`](crate::map::engine::directory)).
#[derive(Clone, Copy)]
pub(crate) struct Segment<'a> {
    pub(crate) space: &'a Space,
    pub(crate) offset: u64,
    lines: &'a Lines,
}

impl<'a> Segment<'a> {
    /// The segment at `offset`, a multiple of 8; `None` if its bytes do not all exist.
    #[inline(always)]
    pub(crate) fn at(space: &'a Space, offset: u64) -> Option<Segment<'a>> {
        Some(Segment { space, offset, lines: space.get(offset)? })
    }

    /// The same at an offset whose address is known.
    ///
    /// # Safety
    /// The bytes of a segment at `address`, that of `offset`, were seen to exist.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn there(space: &'a Space, offset: u64, address: NonNull<u8>) -> Segment<'a> {
        // SAFETY: the caller's contract; the file never becomes shorter.
        Segment { space, offset, lines: unsafe { address.cast().as_ref() } }
    }

    #[inline(always)]
    pub(crate) fn header(self) -> &'a Header {
        &self.lines.header
    }

    /// The bucket with this number, which is below [`BUCKETS`].
    #[inline(always)]
    pub(crate) fn bucket(self, number: u32) -> &'a Bucket {
        // A damaged number leads to another bucket, never out of the segment.
        &self.lines.buckets[number.min(BUCKETS - 1) as usize]
    }

    /// The buckets with these numbers.
    #[inline(always)]
    pub(crate) fn row(self, numbers: [u32; 2]) -> Row<'a> {
        Row { first: self.bucket(numbers[0]), second: self.bucket(numbers[1]) }
    }

    #[inline]
    pub(crate) fn slot(self, position: u32) -> &'a AtomicU64 {
        &self.bucket(position / BUCKET_SLOTS).slots[(position % BUCKET_SLOTS) as usize]
    }

    /// The position of one of its slots.
    #[inline(always)]
    pub(crate) fn position_of(self, slot: &AtomicU64) -> u32 {
        let first = self.lines.buckets.as_ptr().addr();
        (slot.as_ptr().addr().wrapping_sub(first) / size_of::<AtomicU64>()) as u32
    }

    pub(crate) fn slot_offset(self, position: u32) -> u64 {
        self.offset + 64 + u64::from(position) * 8
    }

    pub(crate) fn phase(self) -> Phase {
        Phase::from_bits(self.header().phase.load(Ordering::Acquire))
    }

    pub(crate) fn set_phase(self, phase: Phase) {
        // Release: the step before is complete when the phase is visible.
        self.header().phase.store(phase.bits(), Ordering::Release);
    }

    pub(crate) fn pairs(self) -> u32 {
        self.header().pairs_and_map.load(Ordering::Relaxed) & 0xffff
    }

    pub(crate) fn map(self) -> u32 {
        self.header().pairs_and_map.load(Ordering::Relaxed) >> 16
    }

    /// Fetches the header for writing.
    #[inline(always)]
    pub(crate) fn prefetch_header(self) {
        copy::prefetch_to_write(std::ptr::from_ref(self.header()).cast());
    }

    /// The number of pairs, and the map, for [`correct_pairs`](Self::correct_pairs).
    pub(crate) fn pairs_and_map(self) -> u32 {
        self.header().pairs_and_map.load(Ordering::Relaxed)
    }

    /// Stores the number of pairs if it differs, unless the word has changed since `before`.
    pub(crate) fn correct_pairs(self, before: u32, pairs: u32) {
        let after = pairs & 0xffff | before & !0xffff;
        if after != before {
            let word = &self.header().pairs_and_map;
            let _ = word.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Under the segment's lock.
    pub(crate) fn set_pairs(self, pairs: u32, map: u32) {
        self.header().pairs_and_map.store(pairs & 0xffff | map << 16, Ordering::Relaxed);
    }

    /// The word with the visited bits of positions `64 * word ..`; cache maps only.
    #[inline]
    pub(crate) fn visited(self, word: u32) -> &'a AtomicU64 {
        &self.bucket(CACHE_BUCKETS).slots[(word & 7) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_by_byte() {
        for bits in 0u32..1 << 16 {
            assert_eq!(count_bits(bits), [(bits & 0xff).count_ones(), (bits >> 8).count_ones()]);
        }
    }

    #[test]
    fn a_phase_survives_its_word() {
        let phase = Phase { step: Step::Publishing, depth: 24, prefix: 0xabcdef, child: 64 << 31 };
        assert_eq!(Phase::from_bits(phase.bits()), phase);
        assert!(phase.covers(0xabcdef) && !Phase::still(3, 5).covers(4));
        assert!(Phase::still(3, 5).covers(13));
    }
}
