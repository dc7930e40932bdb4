//! Seeded choices: instants on a logarithmic scale, and permutations that need no memory.

use std::ops::Range;

/// A number between the ends of `range`, every order of magnitude as likely as any other.
///
/// Instants of kills are drawn so: a process is then hit as often in its first microseconds as in
/// its steady state.
pub fn log_uniform(rng: &mut fastrand::Rng, range: Range<u64>) -> u64 {
    let (low, high) = ((range.start.max(1) as f64).ln(), (range.end as f64).ln());
    (low + (high - low) * rng.f64()).exp() as u64
}

/// A permutation of `0..count`, computed element by element.
///
/// Numbers of just enough bits are mixed by steps that can each be undone (odd multiplication, xor
/// with the upper half), and mixed again while they fall outside: "cycle walking" after Black and
/// Rogaway, "Ciphers with Arbitrary Finite Domains". Fewer than two mixes are needed on average.
#[derive(Clone, Copy)]
pub struct Permutation {
    count: u64,
    mask: u64,
    half: u32,
    seed: u64,
}

impl Permutation {
    /// The permutation of `0..count` that `seed` names.
    pub fn new(count: u64, seed: u64) -> Permutation {
        let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(2);
        let mask = if bits == u64::BITS { u64::MAX } else { (1 << bits) - 1 };
        Permutation { count, mask, half: bits / 2, seed }
    }

    /// Where `index`, which must be less than the count, goes.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.count);
        let mut x = index;
        loop {
            x = self.mix(x);
            if x < self.count {
                return x;
            }
        }
    }

    #[inline]
    fn mix(&self, mut x: u64) -> u64 {
        x = (x ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) & self.mask;
        x ^= x >> self.half;
        x = x.wrapping_mul(0xd6e8_feb8_6659_fd93) & self.mask;
        x ^= x >> self.half;
        x.wrapping_mul(0xbf58_476d_1ce4_e5b9) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_met_once() {
        for count in [1, 2, 3, 5, 64, 1000, 4097] {
            for seed in [0, 1, 0xfeed_beef_dead_f00d] {
                let order = Permutation::new(count, seed);
                let mut seen: Vec<u64> = (0..count).map(|i| order.at(i)).collect();
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..count), "{count} numbers, seed {seed}");
            }
        }
    }

    #[test]
    fn neighbours_are_torn_apart() {
        let order = Permutation::new(1 << 20, 7);
        let near = (1..10_000).filter(|i| order.at(*i).abs_diff(order.at(i - 1)) < 64).count();
        assert!(near < 100, "{near} of 10,000 neighbours stay within 64 of each other");
    }

    #[test]
    fn logarithmic_draws_stay_in_range_and_reach_every_magnitude() {
        let mut rng = fastrand::Rng::with_seed(1);
        let drawn: Vec<u64> = (0..1000).map(|_| log_uniform(&mut rng, 10..10_000)).collect();
        assert!(drawn.iter().all(|d| (9..10_000).contains(d)));
        assert!(drawn.iter().filter(|d| **d < 100).count() > 200);
        assert!(drawn.iter().filter(|d| **d >= 1000).count() > 200);
    }
}
