//! The keys that went lately, as a table of fingerprints with the time of each, as the paper on
//! S3-FIFO proposes. The age of a ghost decides whether it still counts, so there is no queue, and
//! no ghost is ever removed for its age.
//!
//! Threads that write to one bucket at once may lose a ghost. Then an entry begins where every new
//! one does.

use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The number of ghosts of a bucket: a cache line.
const BUCKET: usize = 8;
/// The numbers of buckets for the smallest and the largest cache.
const BUCKETS: (u64, u64) = (64, 1 << 19);
/// The bytes of the cache for each ghost: of smaller entries fewer are remembered.
const BYTES_EACH: u64 = 1024;

/// A word is a fingerprint in the upper half and the time in the lower; 0 is empty. The time is the
/// number of ghosts so far, modulo 2^32.
pub(super) struct Ghosts {
    words: Box<[AtomicU64]>,
    now: AtomicU32,
}

impl Ghosts {
    /// For a cache of `limit_bytes` bytes: 8 bytes for each 1,024.
    pub(super) fn new(limit_bytes: u64) -> Ghosts {
        let wanted = (limit_bytes / BYTES_EACH / BUCKET as u64).clamp(BUCKETS.0, BUCKETS.1);
        let words = wanted.next_power_of_two() as usize * BUCKET;
        Ghosts { words: (0..words).map(|_| AtomicU64::new(0)).collect(), now: AtomicU32::new(0) }
    }

    /// Adds the key of an entry that went.
    pub(super) fn add(&self, key: &[u8]) {
        let (bucket, print) = self.bucket(key);
        // Relaxed, here and below: each word is whole in itself.
        let now = self.now.fetch_add(1, Ordering::Relaxed);
        let age = |word: &AtomicU64| match word.load(Ordering::Relaxed) {
            0 => u64::MAX,
            word if print_of(word) == print => u64::MAX,
            word => u64::from(now.wrapping_sub(word as u32)),
        };
        if let Some(oldest) = bucket.iter().max_by_key(|word| age(word)) {
            oldest.store(u64::from(print) << 32 | u64::from(now), Ordering::Relaxed);
        }
    }

    /// Whether the key is one of the last `most` that went; if so, it is removed.
    pub(super) fn take(&self, key: &[u8], most: u64) -> bool {
        let (bucket, print) = self.bucket(key);
        let now = self.now.load(Ordering::Relaxed);
        let found = bucket.iter().find_map(|word| {
            let seen = word.load(Ordering::Relaxed);
            (seen != 0 && print_of(seen) == print).then_some((word, seen))
        });
        let Some((word, seen)) = found else { return false };
        let own = word.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        own && u64::from(now.wrapping_sub(seen as u32)) <= most
    }

    fn bucket(&self, key: &[u8]) -> (&[AtomicU64], u32) {
        let mut hasher = DefaultHasher::new();
        hasher.write(key);
        let hash = hasher.finish();
        let first = hash as usize % (self.words.len() / BUCKET) * BUCKET;
        (&self.words[first..first + BUCKET], (hash >> 32) as u32)
    }
}

fn print_of(word: u64) -> u32 {
    (word >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_known_once() {
        let ghosts = Ghosts::new(0);
        assert!(!ghosts.take(b"a", 100));
        for key in 0..100u32 {
            ghosts.add(&key.to_le_bytes());
        }
        // 100 in 512 places, 8 each: none was replaced. The time is that of the next one.
        let known = |key: u32, most| ghosts.take(&key.to_le_bytes(), most);
        assert!(known(99, 1) && !known(99, 1000));
        assert!(known(50, 50) && !known(49, 50) && !known(49, 1000));
        assert!(known(0, 100));
    }

    #[test]
    fn the_oldest_of_a_full_bucket_gives_way() {
        let ghosts = Ghosts::new(0);
        for key in 0..100_000u32 {
            ghosts.add(&key.to_le_bytes());
        }
        let known = |key: u32| ghosts.take(&key.to_le_bytes(), u64::MAX);
        let late = (99_900..100_000).filter(|key| known(*key)).count();
        assert!(late > 95 && (0..90_000).filter(|key| known(*key)).count() < 5, "{late}");
    }

    #[test]
    fn time_may_begin_again() {
        let ghosts = Ghosts::new(0);
        ghosts.now.store(u32::MAX - 1, Ordering::Relaxed);
        for key in 0..4u8 {
            ghosts.add(&[key]);
        }
        assert!(ghosts.take(&[0], 4) && ghosts.take(&[3], 1) && !ghosts.take(&[1], 2));
    }
}
