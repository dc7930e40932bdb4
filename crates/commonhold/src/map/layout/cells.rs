//! Fixed-length pairs of 9 to 32 bytes, in memory holds: the pairs lie in cells of their bucket.
//!
//! A bucket has 8 logical positions over 9 **cells**, and a **head** word that maps positions to
//! cells: bits `4 i .. 4 i + 4` are the cell of position `i` plus 1, or 0 if it is empty; bits
//! 32..64 count the changes. At least one cell is spare. A change writes a spare cell, then stores
//! the head: the commit point. Bytes that a dead writer left in a spare cell are ignored.
//!
//! ```text
//! head | tags: 7 bits of the hash per cell | 9 cells
//! ```
//!
//! A reader loads the head, finds the cells with its tag, copies the one that has its key, and
//! loads the head again. If the head is the same, the copy is whole, because no cell that the head
//! names is written. To deceive a reader, the bucket would have to change a multiple of 2^32 times
//! between the two loads, with the same cells in use.

use crate::map::layout::hash::Hash;
use crate::map::layout::packing::Packing;
use crate::map::layout::segment::{BUCKET_SLOTS, BUCKETS, Segment};
use crate::memory::copy;
use crate::steps::step;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The most bytes of a pair: with longer ones a segment has too few buckets to fill up well.
const MOST: usize = 32;
const CELLS: u64 = BUCKET_SLOTS as u64 + 1;
const TAG_BITS: u32 = 7;
/// The lowest bit of each tag.
const TAGS: u64 = repeated(1, TAG_BITS, CELLS as u32);
/// The lowest bit of each position in a head.
const NIBBLES: u64 = repeated(1, 4, BUCKET_SLOTS);
/// Words of a cache line.
const LINE_WORDS: usize = 8;
/// The amount that a change adds to the head.
const CHANGE: u64 = 1 << 32;

/// The packing of pairs into cells.
pub(crate) struct Cells {
    key_bytes: usize,
    value_bytes: usize,
    /// Words of a cell.
    words: u32,
}

/// One bucket of a segment.
#[derive(Clone, Copy)]
struct Bucket<'a> {
    segment: Segment<'a>,
    /// Number of its first word in the segment, and the words of a cell.
    first: u32,
    words: u32,
}

impl Cells {
    /// `None` if pairs of these lengths are too short or too long.
    pub(crate) fn new(key_bytes: u32, value_bytes: u32) -> Option<Cells> {
        let (key_bytes, value_bytes) = (key_bytes as usize, value_bytes as usize);
        let bytes = key_bytes.checked_add(value_bytes)?;
        let fits = key_bytes > 0 && (9..=MOST).contains(&bytes);
        fits.then(|| Cells { key_bytes, value_bytes, words: bytes.div_ceil(8) as u32 })
    }

    /// Buckets of a segment.
    pub(crate) fn buckets(&self) -> u32 {
        BUCKETS * BUCKET_SLOTS / self.bucket_words()
    }

    fn bucket_words(&self) -> u32 {
        2 + CELLS as u32 * self.words
    }

    #[inline]
    fn bucket<'a>(&self, segment: Segment<'a>, number: u32) -> Bucket<'a> {
        Bucket { segment, first: number * self.bucket_words(), words: self.words }
    }

    /// A description of damage in a bucket, while nobody writes.
    pub(crate) fn problem(&self, segment: Segment<'_>, number: u32) -> Option<&'static str> {
        // Relaxed: nobody writes.
        let head = self.bucket(segment, number).head().load(Ordering::Relaxed);
        let mut named = 0u32;
        for position in 0..BUCKET_SLOTS {
            match cell_of(head, position) {
                Some(cell) if named >> cell & 1 == 1 => return Some("two positions have one cell"),
                Some(cell) => named |= 1 << cell,
                None if head >> (4 * position) & 15 != 0 => return Some("a cell is out of range"),
                None => {}
            }
        }
        None
    }

    /// True if the tag of a position is that of the hash. While nobody writes.
    pub(crate) fn has_tag(&self, segment: Segment<'_>, position: u32, hash: Hash) -> bool {
        let bucket = self.bucket(segment, position / BUCKET_SLOTS);
        let head = bucket.head().load(Ordering::Relaxed);
        let mut candidates = bucket.candidates(head, tag_of(hash));
        candidates.any(|(at, _)| at == position % BUCKET_SLOTS)
    }

    /// Copies the contents of one segment, which is locked, to another, which is private.
    pub(crate) fn copy_all(from: Segment<'_>, to: Segment<'_>) {
        for word in 0..BUCKETS * BUCKET_SLOTS {
            // Relaxed: a directory entry publishes all of it.
            let bits = from.slot(word).load(Ordering::Relaxed);
            to.slot(word).store(bits, Ordering::Relaxed);
        }
    }
}

impl<'a> Bucket<'a> {
    #[inline]
    fn head(self) -> &'a AtomicU64 {
        self.segment.slot(self.first)
    }

    #[inline]
    fn tags(self) -> &'a AtomicU64 {
        self.segment.slot(self.first + 1)
    }

    /// A word of a cell; `cell` is below 9.
    #[inline]
    fn word(self, cell: u32, word: u32) -> &'a AtomicU64 {
        self.segment.slot(self.first + 2 + cell * self.words + word)
    }

    /// The contents of a cell; whole if the head names it before and after.
    #[inline]
    fn load(self, cell: u32) -> [u8; MOST] {
        let mut pair = [0; MOST];
        for (word, bytes) in pair.chunks_exact_mut(8).take(self.words as usize).enumerate() {
            // Relaxed: the acquire of the head, and the fence before the next look at it.
            let bits = self.word(cell, word as u32).load(Ordering::Relaxed);
            bytes.copy_from_slice(&bits.to_le_bytes());
        }
        pair
    }

    /// Repeats until the head is the same before and after.
    #[inline]
    fn look<R>(self, mut look: impl FnMut(u64) -> R) -> R {
        loop {
            // Acquire pairs with the release in `put`: the contents of the named cells are visible.
            let head = self.head().load(Ordering::Acquire);
            step!("read.found");
            let seen = look(head);
            step!("read.copied");
            // Pairs with the release fence in `put`: a reader that saw a byte of a cell that is no
            // longer named sees a later head.
            fence(Ordering::Acquire);
            if self.head().load(Ordering::Relaxed) == head {
                return seen;
            }
            std::hint::spin_loop();
        }
    }

    /// The pair that satisfies `is`, and its position in the bucket.
    #[inline]
    fn find(self, tag: u64, is: impl Fn(&[u8; MOST]) -> bool) -> Option<(u32, [u8; MOST])> {
        self.look(|head| {
            self.candidates(head, tag).find_map(|(position, cell)| {
                let pair = self.load(cell);
                is(&pair).then_some((position, pair))
            })
        })
    }

    /// Positions and cells that may have the tag.
    #[inline]
    fn candidates(self, head: u64, tag: u64) -> impl Iterator<Item = (u32, u32)> {
        // Relaxed: tags of named cells were stored before the head; others are detected by the key.
        let mut cells = zeros(self.tags().load(Ordering::Relaxed) ^ (tag * TAGS), TAGS, TAG_BITS);
        std::iter::from_fn(move || {
            let cell = (cells != 0).then(|| cells.trailing_zeros() / TAG_BITS)?;
            cells &= cells - 1;
            Some(cell)
        })
        .filter_map(move |cell| Some((position_of(head, cell)?, cell)))
    }
}

/// The same bits in each of `count` fields.
const fn repeated(bits: u64, width: u32, count: u32) -> u64 {
    let (mut result, mut at) = (0, 0);
    while at < count {
        result |= bits << (at * width);
        at += 1;
    }
    result
}

/// The highest bit of each field that is zero, and perhaps of some fields above one that is.
/// (Mycroft's test, 1987.)
#[inline]
fn zeros(fields: u64, ones: u64, width: u32) -> u64 {
    fields.wrapping_sub(ones) & !fields & (ones << (width - 1))
}

/// The position that has a cell.
#[inline]
fn position_of(head: u64, cell: u32) -> Option<u32> {
    let heads = (head & (CHANGE - 1)) ^ (u64::from(cell + 1) * NIBBLES);
    let at = zeros(heads, NIBBLES, 4) & (CHANGE - 1);
    (at != 0).then(|| at.trailing_zeros() / 4)
}

/// The cell of a position; `None` if it is empty, or damaged.
#[inline]
fn cell_of(head: u64, position: u32) -> Option<u32> {
    ((head >> (4 * position)) as u32 & 15).checked_sub(1).filter(|cell| u64::from(*cell) < CELLS)
}

/// The head after a change that gives a position this cell.
#[inline]
fn changed(head: u64, position: u32, cell: Option<u32>) -> u64 {
    let bits = cell.map_or(0, |cell| u64::from(cell) + 1);
    (head & !(15 << (4 * position)) | bits << (4 * position)).wrapping_add(CHANGE)
}

/// The bits of a hash that neither the directory nor the choice of buckets uses.
#[inline]
fn tag_of(hash: Hash) -> u64 {
    hash.0 >> 24 & ((1 << TAG_BITS) - 1)
}

#[inline]
fn prefetch(word: &AtomicU64) {
    copy::prefetch(word.as_ptr().cast());
}

impl Packing for Cells {
    type Pair = [u8; MOST];

    fn lengths(&self) -> (usize, usize) {
        (self.key_bytes, self.value_bytes)
    }

    fn pack(&self, key: &[u8], value: &[u8]) -> [u8; MOST] {
        let mut pair = [0; MOST];
        pair[..key.len()].copy_from_slice(key);
        pair[key.len()..key.len() + value.len()].copy_from_slice(value);
        pair
    }

    #[inline]
    fn find(&self, segment: Segment<'_>, hash: Hash, key: &[u8]) -> Option<(u32, [u8; MOST])> {
        // Both are fetched together: which of them contains a key cannot be predicted.
        self.prefetch(segment, hash);
        let has_key = |pair: &[u8; MOST]| self.has_key(pair, key);
        hash.buckets(self.buckets()).into_iter().find_map(|number| {
            let found = self.bucket(segment, number).find(tag_of(hash), has_key);
            found.map(|(at, pair)| (number * BUCKET_SLOTS + at, pair))
        })
    }

    #[inline]
    fn at(&self, segment: Segment<'_>, position: u32) -> Option<[u8; MOST]> {
        let bucket = self.bucket(segment, position / BUCKET_SLOTS);
        bucket.look(|head| cell_of(head, position % BUCKET_SLOTS).map(|cell| bucket.load(cell)))
    }

    #[inline]
    fn has_key(&self, pair: &[u8; MOST], key: &[u8]) -> bool {
        pair[..self.key_bytes] == *key
    }

    fn free_position(&self, segment: Segment<'_>, hash: Hash) -> Option<u32> {
        let free = |number: u32| {
            // Relaxed: nobody else changes it under the lock.
            let head = self.bucket(segment, number).head().load(Ordering::Relaxed);
            let mut empty = (0..BUCKET_SLOTS).filter(|at| head >> (4 * at) & 15 == 0);
            let first = empty.next();
            (
                usize::from(first.is_some()) + empty.count(),
                first.map(|at| number * BUCKET_SLOTS + at),
            )
        };
        let [first, second] = hash.buckets(self.buckets()).map(free);
        if second.0 > first.0 { second.1 } else { first.1 }
    }

    fn put(&self, segment: Segment<'_>, position: u32, hash: Hash, pair: &[u8; MOST]) {
        let bucket = self.bucket(segment, position / BUCKET_SLOTS);
        // Relaxed: nobody else changes head and tags under the lock.
        let head = bucket.head().load(Ordering::Relaxed);
        let spare = (0..CELLS as u32).find(|cell| position_of(head, *cell).is_none());
        // Eight positions name at most eight of nine cells.
        let spare = spare.unwrap_or(0);
        // Pairs with the fence of readers: the head that stopped naming the cell comes before the
        // stores to the cell.
        fence(Ordering::Release);
        let tags =
            bucket.tags().load(Ordering::Relaxed) & !(((1 << TAG_BITS) - 1) << (TAG_BITS * spare));
        bucket.tags().store(tags | tag_of(hash) << (TAG_BITS * spare), Ordering::Relaxed);
        for (word, bytes) in pair.chunks_exact(8).take(self.words as usize).enumerate() {
            let bits = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            bucket.word(spare, word as u32).store(bits, Ordering::Relaxed);
        }
        step!("cell.written");
        // The commit point. Pairs with the acquire of readers.
        bucket.head().store(changed(head, position % BUCKET_SLOTS, Some(spare)), Ordering::Release);
    }

    fn commits(&self, position: u32) -> u32 {
        position / BUCKET_SLOTS * self.bucket_words()
    }

    fn clear(&self, segment: Segment<'_>, position: u32) {
        let head = self.bucket(segment, position / BUCKET_SLOTS).head();
        let changed = changed(head.load(Ordering::Relaxed), position % BUCKET_SLOTS, None);
        // As in `put`. After a split, a reader that misses here because of this store sees the
        // directory entries.
        head.store(changed, Ordering::Release);
    }

    /// Fetches the heads.
    #[inline]
    fn prefetch(&self, segment: Segment<'_>, hash: Hash) {
        for number in hash.buckets(self.buckets()) {
            prefetch(self.bucket(segment, number).head());
        }
    }

    #[inline]
    fn prefetch_candidates(&self, segment: Segment<'_>, hash: Hash) {
        for number in hash.buckets(self.buckets()) {
            let bucket = self.bucket(segment, number);
            // Relaxed: only a prefetch depends on it.
            let head = bucket.head().load(Ordering::Relaxed);
            if let Some((_, cell)) = bucket.candidates(head, tag_of(hash)).next() {
                prefetch(bucket.word(cell, 0));
            }
        }
    }

    /// Fetches all of both buckets: only the head shows which cell is spare.
    #[inline]
    fn prefetch_to_change(&self, segment: Segment<'_>, hash: Hash) {
        for number in hash.buckets(self.buckets()) {
            let bucket = self.bucket(segment, number);
            for word in (0..self.bucket_words()).step_by(LINE_WORDS) {
                prefetch(segment.slot(bucket.first + word));
            }
            prefetch(segment.slot(bucket.first + self.bucket_words() - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_which_cell_a_position_has() {
        let mut head = 0;
        for position in 0..BUCKET_SLOTS {
            assert_eq!(cell_of(head, position), None);
            head = changed(head, position, Some(8 - position));
        }
        for position in 0..BUCKET_SLOTS {
            assert_eq!(cell_of(head, position), Some(8 - position));
            assert_eq!(position_of(head, 8 - position), Some(position));
        }
        assert_eq!(position_of(head, 0), None, "the spare one");
        assert_eq!(head >> 32, 8, "eight changes");
        assert_eq!(
            changed(u64::MAX, 0, None),
            0xffff_fff0,
            "the count wraps and touches nothing else"
        );
        assert_eq!(cell_of(0xa, 0), None, "damage");
    }

    #[test]
    fn every_cell_with_a_tag_is_a_candidate() {
        for tags in [[0, 0, 5, 6, 4, 127, 5, 1, 5], [127; 9], [0; 9]] {
            let word = (0..9).map(|cell| tags[cell] << (7 * cell)).sum::<u64>();
            for tag in 0..128 {
                let found = zeros(word ^ (tag * TAGS), TAGS, TAG_BITS);
                for (cell, its) in tags.iter().enumerate() {
                    let bit = found >> (7 * cell + 6) & 1 == 1;
                    assert!(bit || *its != tag, "cell {cell} has tag {tag}");
                }
            }
        }
    }

    #[test]
    fn buckets_fill_a_segment() {
        for bytes in 9..=32 {
            let cells = Cells::new(8, bytes - 8).unwrap();
            let used = cells.buckets() * cells.bucket_words();
            assert!(cells.buckets() >= 5 && used <= BUCKETS * BUCKET_SLOTS, "{bytes}");
        }
        assert!(
            Cells::new(4, 4).is_none()
                && Cells::new(1, 32).is_none()
                && Cells::new(0, 16).is_none()
        );
    }
}
