//! One process for itself: random get and copy, compared with the hash table that it would
//! otherwise use.
//!
//! load: ascending 4-byte keys, value equal to the key. get_copy: random keys, the value copied
//! into a vector that is used again. get_owned: the same, each value as a fresh vector, which is
//! `get` here and `get().cloned()` there.

use anyhow::{Result, bail};

use super::{
    Numbers, OfStores, Workload,
    driver::{Driver, Step, Word},
};
use crate::rival::Shape;

/// See the module.
pub struct Private;

impl Workload for Private {
    fn name(&self) -> &'static str {
        "private"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["load", "get_copy", "get_owned"]
    }

    fn shape(&self, asked: Shape) -> Shape {
        Shape { workers: 1, keys: asked.workers * asked.keys, ..asked }
    }

    fn full_after(&self) -> Option<&'static str> {
        Some("load")
    }
}

impl OfStores for Private {
    fn run(&self, phase: &str, worker: u64, shape: &Shape, driver: &mut Driver<'_>) -> Result<()> {
        let mut numbers = Numbers::new(worker);
        let mut drawn = (0..shape.keys).map(|_| Word::binary(numbers.below(shape.keys)));
        match phase {
            "load" => {
                let keys = (0..shape.keys).map(Word::binary);
                driver.play(keys.map(|word| Step::Put(word, word)))?;
            }
            "get_copy" => driver.play(drawn.by_ref().map(|word| Step::Get(word, word)))?,
            "get_owned" => driver.get_owned(drawn.by_ref().map(|word| (word, word)))?,
            _ => bail!("the workload private has no phase {phase:?}"),
        }
        driver.tally.operations = shape.keys;
        Ok(())
    }
}
