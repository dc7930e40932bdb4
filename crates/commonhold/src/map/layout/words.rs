//! Fixed-length pairs of at most 8 bytes: the slot contains the pair itself.
//!
//! A slot holds `key | value << 8 * key bytes`, XOR the bucket's **filler**: the word of a key that
//! cannot occur in that bucket, because neither of its two buckets is this one. So no pair is
//! stored as zero, every pair is legal, one store commits, and a hit needs no second look.

use crate::map::layout::hash::{Hash, Hasher};
use crate::map::layout::packing::Packing;
use crate::map::layout::segment::{BUCKET_SLOTS, BUCKETS, Segment};
use std::ops::Deref;
use std::sync::atomic::Ordering;

/// The packing of pairs into words.
pub(crate) struct Words {
    key_bytes: usize,
    value_bytes: usize,
    /// The bits of the key in a pair.
    key_mask: u64,
    fillers: [u64; BUCKETS as usize],
}

impl Words {
    /// `None` if pairs of these lengths do not fit a word, or (for tiny keys and an unlucky seed)
    /// some bucket has no filler.
    pub(crate) fn new(hasher: &Hasher, key_bytes: u32, value_bytes: u32) -> Option<Words> {
        if key_bytes == 0 || u64::from(key_bytes) + u64::from(value_bytes) > 8 {
            return None;
        }
        let (key_bytes, value_bytes) = (key_bytes as usize, value_bytes as usize);
        let mut fillers = [None; BUCKETS as usize];
        // Keys 0, 1, 2 ... until every bucket has one that belongs elsewhere; usually at most three
        // keys.
        let keys = 0..1u64 << (8 * key_bytes).min(16);
        for key in keys {
            let buckets = hasher.hash(&key.to_le_bytes()[..key_bytes]).buckets(BUCKETS);
            for (number, filler) in fillers.iter_mut().enumerate() {
                if !buckets.contains(&(number as u32)) {
                    filler.get_or_insert(key);
                }
            }
            if fillers.iter().all(Option::is_some) {
                break;
            }
        }
        let all = fillers.iter().all(Option::is_some);
        let fillers = fillers.map(Option::unwrap_or_default);
        let key_mask = u64::MAX >> (64 - 8 * key_bytes);
        all.then_some(Words { key_bytes, value_bytes, key_mask, fillers })
    }

    /// The pair in a slot of a bucket; `None` if the slot is empty.
    #[inline(always)]
    fn decode(&self, bucket: u32, word: u64) -> Option<[u8; 8]> {
        (word != 0).then(|| (word ^ self.fillers[bucket as usize]).to_le_bytes())
    }

    /// The bits of a key in a pair; a constant if the key's length is one.
    #[inline(always)]
    fn mask_of(&self, key: &[u8]) -> u64 {
        match key.len() {
            4 => u32::MAX.into(),
            8 => u64::MAX,
            _ => self.key_mask,
        }
    }
}

impl Words {
    /// The used slots of a bucket whose keys have this bit of their hash, one bit for each.
    #[inline(always)]
    pub(crate) fn slots_with_bit(
        &self,
        hasher: &Hasher,
        segment: Segment<'_>,
        bucket: u32,
        bit: u32,
    ) -> u32 {
        let filler = self.fillers[bucket as usize];
        let mut found = 0;
        for (at, slot) in segment.bucket(bucket).slots.iter().enumerate() {
            // Relaxed: under the lock.
            let word = slot.load(Ordering::Relaxed);
            let key = &(word ^ filler).to_le_bytes()[..self.key_bytes];
            let has = hasher.hash(key).directory() >> bit & u32::from(word != 0);
            found |= has << at;
        }
        found
    }
}

/// A pair at a known position, prepared for reading it again.
#[derive(Clone, Copy)]
pub(crate) struct NotedWord {
    /// The word of the slot if the value is all zeros.
    empty: u64,
    key_mask: u64,
    key_bytes: usize,
    value_bytes: usize,
}

impl NotedWord {
    /// The value in the slot's word; `None` if another key or none is there.
    #[inline(always)]
    pub(crate) fn value(&self, word: u64) -> Option<NotedValue> {
        let value = word ^ self.empty;
        // The value of a key of 8 bytes is empty.
        let bytes = value.wrapping_shr(8 * self.key_bytes as u32).to_le_bytes();
        (value & self.key_mask == 0).then_some(NotedValue { bytes, len: self.value_bytes })
    }
}

/// A value that was in a slot.
pub(crate) struct NotedValue {
    bytes: [u8; 8],
    len: usize,
}

impl Deref for NotedValue {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len.min(8)]
    }
}

impl Words {
    /// Prepares reading the pair of a key at this position again.
    pub(crate) fn note(&self, position: u32, key: &[u8]) -> NotedWord {
        let filler = self.fillers[(position / BUCKET_SLOTS) as usize];
        NotedWord {
            empty: filler ^ low_bytes(key),
            key_mask: self.key_mask,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
        }
    }
}

impl Packing for Words {
    type Pair = [u8; 8];

    fn lengths(&self) -> (usize, usize) {
        (self.key_bytes, self.value_bytes)
    }

    #[inline(always)]
    fn pack(&self, key: &[u8], value: &[u8]) -> [u8; 8] {
        let value = if self.key_bytes == 8 { 0 } else { low_bytes(value) << (8 * self.key_bytes) };
        (low_bytes(key) | value).to_le_bytes()
    }

    #[inline(always)]
    fn find(&self, segment: Segment<'_>, hash: Hash, key: &[u8]) -> Option<(u32, [u8; 8])> {
        let (key, key_mask) = (low_bytes(key), self.mask_of(key));
        let [first, second] = hash.buckets(BUCKETS);
        let row = segment.row([first, second]);
        let wanted = [self.fillers[first as usize] ^ key, self.fillers[second as usize] ^ key];
        let matching = match key_mask <= u64::from(u32::MAX) {
            true => row.lower_equal([wanted[0] as u32, wanted[1] as u32], key_mask as u32),
            false => row.equal(wanted, key_mask),
        };
        for at in matching {
            // Acquire pairs with the release of the commit. The slot may have changed since it
            // matched. An empty one does not match: its filler is no key of this bucket.
            let slot = row.slot(at);
            let word = slot.load(Ordering::Acquire);
            let different = word ^ row.of_bucket(at, wanted);
            if different & key_mask == 0 {
                return Some((segment.position_of(slot), (different ^ key).to_le_bytes()));
            }
        }
        None
    }

    #[inline]
    fn at(&self, segment: Segment<'_>, position: u32) -> Option<[u8; 8]> {
        // Acquire pairs with the release of the commit.
        self.decode(position / BUCKET_SLOTS, segment.slot(position).load(Ordering::Acquire))
    }

    #[inline(always)]
    fn has_key(&self, pair: &[u8; 8], key: &[u8]) -> bool {
        (u64::from_le_bytes(*pair) ^ low_bytes(key)) & self.mask_of(key) == 0
    }

    #[inline(always)]
    fn value<'p>(&self, key: &[u8], pair: &'p [u8; 8]) -> &'p [u8] {
        let rest = pair.get(key.len()..).unwrap_or_default();
        rest.get(..self.value_bytes).unwrap_or_default()
    }

    #[inline(always)]
    fn free_position(&self, segment: Segment<'_>, hash: Hash) -> Option<u32> {
        let row = segment.row(hash.buckets(BUCKETS));
        row.free().map(|at| segment.position_of(row.slot(at)))
    }

    #[inline(always)]
    fn put(&self, segment: Segment<'_>, position: u32, _: Hash, pair: &[u8; 8]) {
        let word = u64::from_le_bytes(*pair) ^ self.fillers[(position / BUCKET_SLOTS) as usize];
        // The commit point. Pairs with the acquire of readers.
        segment.slot(position).store(word, Ordering::Release);
    }

    #[inline]
    fn commits(&self, position: u32) -> u32 {
        position
    }

    #[inline(always)]
    fn clear(&self, segment: Segment<'_>, position: u32) {
        // As in `put`. After a split, a reader that misses here because of this store sees the
        // directory entries.
        segment.slot(position).store(0, Ordering::Release);
    }

    #[inline(always)]
    fn prefetch(&self, segment: Segment<'_>, hash: Hash) {
        segment.row(hash.buckets(BUCKETS)).prefetch();
    }

    #[inline(always)]
    fn prefetch_to_change(&self, segment: Segment<'_>, hash: Hash) {
        self.prefetch(segment, hash);
    }
}

#[inline(always)]
fn low_bytes(bytes: &[u8]) -> u64 {
    match bytes.len() {
        4 => u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        len => {
            let mut word = [0u8; 8];
            word[..len.min(8)].copy_from_slice(&bytes[..len.min(8)]);
            u64::from_le_bytes(word)
        }
    }
}
