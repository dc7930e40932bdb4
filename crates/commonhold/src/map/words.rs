//! Fixed-length pairs of at most 8 bytes: the slot contains the pair itself.
//!
//! A slot holds `key | value << 8 * key bytes`, XOR the bucket's **filler**: the word of a key that
//! cannot occur in that bucket, because neither of its two buckets is this one. So no pair is
//! stored as zero, every pair is legal, one store commits, and a hit needs no second look.

use crate::map::hash::{Hash, Hasher};
use crate::map::inline::Packing;
use crate::map::segment::{BUCKET_SLOTS, BUCKETS, Segment};
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
        let key = low_bytes(key);
        let row = segment.row(hash.buckets(BUCKETS));
        let [first, second] = row.numbers();
        let wanted = [self.fillers[first as usize] ^ key, self.fillers[second as usize] ^ key];
        let mut matching = match self.key_bytes {
            0..=4 => row.lower_equal([wanted[0] as u32, wanted[1] as u32], self.key_mask as u32),
            _ => row.equal(wanted, self.key_mask),
        };
        matching.find_map(|at| {
            // Acquire pairs with the release of the commit. The slot may have changed since it
            // matched. An empty one does not match: its filler is no key of this bucket.
            let word = row.slot(at).load(Ordering::Acquire);
            let different = word ^ row.of_bucket(at, wanted);
            let pair = (different ^ key).to_le_bytes();
            (different & self.key_mask == 0).then_some((row.position(at), pair))
        })
    }

    #[inline]
    fn at(&self, segment: Segment<'_>, position: u32) -> Option<[u8; 8]> {
        // Acquire pairs with the release of the commit.
        self.decode(position / BUCKET_SLOTS, segment.slot(position).load(Ordering::Acquire))
    }

    #[inline(always)]
    fn free_position(&self, segment: Segment<'_>, hash: Hash) -> Option<u32> {
        let row = segment.row(hash.buckets(BUCKETS));
        row.free().map(|at| row.position(at))
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
