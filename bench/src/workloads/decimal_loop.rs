//! Localmemcache's own loop: 2 million times set and get of one of 10,000 decimal keys, drawn at
//! random, the value being the key, in one process, on a file.
//!
//! One operation is one set and one get. Commonhold runs it on a file hold, whose records carry
//! checksums, as that is what the loop is about; the file lies in the same directory as the rivals'.

use anyhow::Result;

use super::{
    Numbers, OfStores, Workload,
    driver::{Driver, Step, Word},
};
use crate::rival::Shape;

const DISTINCT_KEYS: u64 = 10_000;
const ITERATIONS: u64 = 2_000_000;

/// See the module.
pub struct DecimalLoop;

impl Workload for DecimalLoop {
    fn name(&self) -> &'static str {
        "loop"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["set_get"]
    }

    fn shape(&self, asked: Shape) -> Shape {
        // Twice the requested pairs: the usual million makes the 2 million of the original.
        let keys = 2 * asked.workers * asked.keys;
        Shape { workers: 1, keys, fixed: false, in_file: true, ..asked }
    }

    fn timed_operations(&self) -> Option<u64> {
        Some(ITERATIONS)
    }
}

impl OfStores for DecimalLoop {
    fn run(&self, _phase: &str, worker: u64, shape: &Shape, driver: &mut Driver<'_>) -> Result<()> {
        let mut numbers = Numbers::new(worker);
        driver.play((0..shape.keys).flat_map(|_| {
            let word = Word::decimal(numbers.below(DISTINCT_KEYS));
            [Step::Put(word, word), Step::Get(word, word)]
        }))?;
        driver.tally.operations = shape.keys;
        Ok(())
    }
}
