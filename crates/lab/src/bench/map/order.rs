//! The keys of the workload: numbers in little-endian bytes, and the order in which a process
//! goes through its range.

use crate::workload::random::Permutation;
use serde::{Deserialize, Serialize};

/// The order in which keys are read and changed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Ascending, in the order in which they were put
    Own,
    /// Shuffled within the range of each process
    Random,
}

impl Order {
    /// Its name in the option and the results.
    pub fn name(self) -> &'static str {
        match self {
            Order::Own => "own",
            Order::Random => "random",
        }
    }
}

/// The lengths of keys and values.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
}

impl Shape {
    /// Whether this number of keys can differ from each other.
    pub fn tells_apart(self, keys: u64) -> bool {
        let bits = u32::try_from(self.key_size * 8).unwrap_or(u32::MAX);
        bits >= u64::BITS || keys <= 1 << bits
    }

    /// Key `number`, in `out`.
    #[inline]
    pub fn key(self, number: u64, out: &mut Vec<u8>) {
        fill(number, self.key_size, out);
    }

    /// The value of key `number`, in `out`: the same bytes, as far as they go.
    #[inline]
    pub fn value(self, number: u64, out: &mut Vec<u8>) {
        fill(number, self.value_size, out);
    }
}

#[inline]
fn fill(number: u64, size: usize, out: &mut Vec<u8>) {
    // Eight bytes at once and a cut are much cheaper than a copy of a length known only here.
    out.clear();
    out.extend_from_slice(&number.to_le_bytes());
    if size <= 8 {
        out.truncate(size);
    } else {
        out.resize(size, 0);
    }
}

/// A process's range of keys in the order in which it goes through it.
pub struct Walk {
    first: u64,
    count: u64,
    shuffled: Option<Permutation>,
}

impl Walk {
    /// The keys from `first` up to `end` in `order`.
    pub fn new(first: u64, end: u64, order: Order) -> Walk {
        let count = end - first;
        let shuffled = (order == Order::Random).then(|| Permutation::new(count, first));
        Walk { first, count, shuffled }
    }

    /// How many keys.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// The key at `step`.
    #[inline]
    pub fn at(&self, step: u64) -> u64 {
        self.first + self.shuffled.map_or(step, |order| order.at(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_as_long_as_they_fit() {
        let shape = |key_size| Shape { key_size, value_size: 0 };
        assert!(shape(1).tells_apart(256) && !shape(1).tells_apart(257));
        assert!(!shape(0).tells_apart(2) && shape(9).tells_apart(u64::MAX));
        let mut key = Vec::new();
        shape(12).key(0x0102, &mut key);
        assert_eq!(key, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_shuffled_order_covers_its_whole_range() {
        let walk = Walk::new(100, 200, Order::Random);
        let mut met: Vec<u64> = (0..walk.len()).map(|step| walk.at(step)).collect();
        assert!(met.iter().zip(100..).any(|(m, own)| *m != own));
        met.sort_unstable();
        assert!(met.into_iter().eq(100..200));
    }
}
