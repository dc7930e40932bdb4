//! The use of the bits of a key's hash.
//!
//! rapidhash V3 with a secret seed per map. Bits 0..24 index the directory (low bits first). Bits
//! 8..32 are the tag in the slot, so a split reads no records once the depth is 8. Bits 32..48 and
//! 48..64 choose the two candidate buckets.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// The most directory bits.
pub(crate) const MAX_DEPTH: u32 = 24;

/// The keyed hash function of one map.
pub(crate) struct Hasher {
    secrets: RapidSecrets,
    of_4: OfWord,
    of_8: OfWord,
}

/// The hash function of keys of 4 or of 8 bytes: rapidhash of that length, with everything computed
/// that does not depend on the key.
struct OfWord {
    first: u64,
    second: u64,
    between: u64,
    last: u64,
}

impl OfWord {
    fn new(secrets: &RapidSecrets, len: u64) -> OfWord {
        let first = secrets.secrets[1];
        OfWord { first, second: secrets.seed ^ len, between: BETWEEN, last: first ^ len }
    }

    #[inline(always)]
    fn hash(&self, key: u64) -> Hash {
        let [low, high] = product(key ^ self.first, key ^ self.second);
        let [low, high] = product(low ^ self.between, high ^ self.last);
        Hash(low ^ high)
    }
}

/// A constant of rapidhash. It is read from memory, which takes fewer instructions.
const BETWEEN: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// The two halves of a product, the lower one first.
#[inline(always)]
fn product(a: u64, b: u64) -> [u64; 2] {
    let product = u128::from(a) * u128::from(b);
    [product as u64, (product >> 64) as u64]
}

/// A key's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash(pub(crate) u64);

impl Hasher {
    pub(crate) fn new(seed: u64) -> Hasher {
        let secrets = RapidSecrets::seed(seed);
        let (of_4, of_8) = (OfWord::new(&secrets, 4), OfWord::new(&secrets, 8));
        Hasher { secrets, of_4, of_8 }
    }

    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> Hash {
        match *key {
            [a, b, c, d] => self.of_4.hash(u32::from_le_bytes([a, b, c, d]).into()),
            [a, b, c, d, e, f, g, h] => {
                self.of_8.hash(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
            }
            _ => self.hash_any(key),
        }
    }

    #[inline]
    fn hash_any(&self, key: &[u8]) -> Hash {
        Hash(rapidhash_v3_seeded(key, &self.secrets))
    }
}

impl Hash {
    /// Its low bits, of which a lookup in the directory takes as many as the directory is deep.
    #[inline]
    pub(crate) fn low(self) -> u32 {
        self.0 as u32
    }

    /// The 24 bits that index the directory.
    #[inline]
    pub(crate) fn directory(self) -> u32 {
        (self.0 & 0xff_ffff) as u32
    }

    /// The 24 bits kept in the slot.
    #[inline]
    pub(crate) fn tag(self) -> u64 {
        (self.0 >> 8) & 0xff_ffff
    }

    /// The two candidate buckets of `count`, which is at least 2; never the same.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn buckets(self, count: u32) -> [u32; 2] {
        debug_assert!(count >= 2);
        let first = (((self.0 >> 32) as u32 & 0xffff) * count) >> 16;
        let step = ((self.0 >> 48) as u32 * (count - 1)) >> 16;
        let (over, is_below) = (first + step).overflowing_sub(count - 1);
        let second = if is_below { over.wrapping_add(count) } else { over };
        // SAFETY: a number below 2^16, times `count`, over 2^16 is below `count`, and the step is
        // below `count - 1`. The second is their sum plus 1, less `count` if that fits.
        unsafe { std::hint::assert_unchecked(second < count) };
        [first, second]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_function_is_stable() {
        // Holds on disk depend on it: if this fails, the format has changed.
        assert_eq!(Hasher::new(42).hash(b"apple").0, 0x51ed8b04ea121ae6);
        assert_eq!(Hasher::new(42).hash(&7u32.to_le_bytes()).0, 0xa4cafad4b1396183);
        assert_eq!(Hasher::new(42).hash(&[b'x'; 100]).0, 0x31e7ceaf50d1e3a7);
        assert_ne!(Hasher::new(42).hash(b"apple"), Hasher::new(43).hash(b"apple"));
    }

    #[test]
    fn keys_of_one_word_hash_as_all_others_do() {
        let mut key = 1u64;
        for seed in 0..1_000 {
            let hasher = Hasher::new(seed);
            key = key.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(seed);
            let bytes = key.to_le_bytes();
            assert_eq!(hasher.hash(&bytes), hasher.hash_any(&bytes));
            assert_eq!(hasher.hash(&bytes[4..]), hasher.hash_any(&bytes[4..]));
        }
    }

    #[test]
    fn both_buckets_are_in_range_and_differ() {
        for key in 0u32..20_000 {
            let hash = Hasher::new(7).hash(&key.to_le_bytes());
            let [first, second] = hash.buckets(28);
            assert!(first < 28 && second < 28 && first != second);
        }
    }
}
