//! memory: how many bytes a pair takes, for pairs of two sizes and for two orders of the keys.
//!
//! put: one worker stores every pair. Keys and values have 8 bytes each, or 16 and 64. The keys
//! come in ascending order of bytes, which fills the pages of a B-tree, or scattered, which leaves
//! them two thirds full. The result is `bytes_per_pair`; the rate of one worker that stores new
//! pairs is a by-product.

use anyhow::Result;
use commonhold_lab::workload::{driver::Driver, form::Form, pairs};

use super::{OfStores, Workload, tally::Tally};
use crate::{rival::Shape, store::AnyStore};

/// See the module.
pub struct Memory {
    name: &'static str,
    form: Wide,
}

/// One workload for each size and order.
pub const ALL: [Memory; 4] = [
    Memory { name: "memory-8+8", form: Wide { key: 8, value: 8, scattered: false } },
    Memory { name: "memory-8+8-scattered", form: Wide { key: 8, value: 8, scattered: true } },
    Memory { name: "memory-16+64", form: Wide { key: 16, value: 64, scattered: false } },
    Memory { name: "memory-16+64-scattered", form: Wide { key: 16, value: 64, scattered: true } },
];

/// Whether a workload of that name is one of these.
pub fn is_named(workload: &str) -> bool {
    ALL.iter().any(|one| one.name == workload)
}

/// Keys and values of these lengths. A key begins with the number, its highest byte first.
struct Wide {
    key: usize,
    value: usize,
    scattered: bool,
}

impl Wide {
    /// Maps each number to a different one.
    fn placed(&self, number: u64) -> u64 {
        // An odd factor permutes all numbers of 64 bits: Knuth's multiplicative hashing.
        if self.scattered { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { number }
    }
}

impl Form for Wide {
    fn key<'a>(&'a self, number: u64, room: &'a mut Vec<u8>) -> &'a [u8] {
        fill(self.placed(number), self.key, room)
    }

    fn value<'a>(&'a self, number: u64, room: &'a mut Vec<u8>) -> &'a [u8] {
        fill(number, self.value, room)
    }
}

fn fill(number: u64, length: usize, room: &mut Vec<u8>) -> &[u8] {
    room.clear();
    room.extend_from_slice(&number.to_be_bytes());
    room.resize(length, b'.');
    room
}

impl Workload for Memory {
    fn name(&self) -> &'static str {
        self.name
    }

    fn phases(&self) -> &'static [&'static str] {
        &["put"]
    }

    fn shape(&self, asked: Shape) -> Shape {
        Shape { workers: 1, keys: asked.workers * asked.keys, fixed: false, ..asked }
    }

    fn full_after(&self) -> Option<&'static str> {
        Some("put")
    }
}

impl OfStores for Memory {
    fn run(
        &self,
        _phase: &str,
        _worker: u64,
        shape: &Shape,
        batch: usize,
        store: &mut AnyStore,
        tally: Tally,
    ) -> Result<Tally> {
        let mut driver = Driver { store, form: &self.form, batch, get_many: 1, tally };
        pairs::load(shape.keys, &mut driver)?;
        Ok(driver.tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_ascend_or_are_scattered_and_all_differ() {
        for Memory { form, .. } in &ALL {
            let (mut room, mut seen) = (Vec::new(), BTreeSet::new());
            let mut ascend = true;
            for number in 0..1000 {
                let key = form.key(number, &mut room).to_vec();
                assert_eq!(key.len(), form.key);
                ascend &= seen.last().is_none_or(|last| *last < key);
                assert!(seen.insert(key));
                assert_eq!(form.value(number, &mut room).len(), form.value);
            }
            assert_eq!(ascend, !form.scattered);
        }
    }
}
