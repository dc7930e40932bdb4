//! The use of the bits of a key's hash.
//!
//! rapidhash V3 with a secret seed per map. Bits 0..24 index the directory (low bits first). Bits
//! 8..32 are the tag in the slot, so a split reads no records once the depth is 8. Bits 32..48 and
//! 48..64 choose the two candidate buckets.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// The most directory bits.
pub(crate) const MAX_DEPTH: u32 = 24;

/// The keyed hash function of one map.
pub(crate) struct Hasher(RapidSecrets);

/// A key's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash(pub(crate) u64);

impl Hasher {
    pub(crate) fn new(seed: u64) -> Hasher {
        Hasher(RapidSecrets::seed(seed))
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> Hash {
        Hash(rapidhash_v3_seeded(key, &self.0))
    }
}

impl Hash {
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

    /// The two candidate buckets of `count`; never the same.
    #[inline]
    pub(crate) fn buckets(self, count: u32) -> [u32; 2] {
        let first = (((self.0 >> 32) & 0xffff) * u64::from(count)) >> 16;
        let step = ((self.0 >> 48) * u64::from(count - 1)) >> 16;
        let second = first + 1 + step;
        let count = u64::from(count);
        [first as u32, if second >= count { second - count } else { second } as u32]
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
    fn both_buckets_are_in_range_and_differ() {
        for key in 0u32..20_000 {
            let hash = Hasher::new(7).hash(&key.to_le_bytes());
            let [first, second] = hash.buckets(28);
            assert!(first < 28 && second < 28 && first != second);
        }
    }
}
