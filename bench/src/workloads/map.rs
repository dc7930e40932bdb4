//! The workload of SharedHashFile's own benchmark: 4-byte keys and values, each worker on its own
//! ascending range, in five phases.
//!
//! put: every key is new. upd: every value is overwritten. mix: 2 % delete and put, 98 % get; each
//! counts as one operation. get: one at a time. get_many: 64 at a time. The keys go in ascending
//! order, but with `--order random` the two get phases draw from the keys of all workers.

use anyhow::{Result, bail};

use super::{
    Numbers, OfStores, Workload,
    driver::{Driver, Step, Word},
};
use crate::rival::{Order, Shape};

const RENEWED_ONE_IN: u64 = 50;

/// See the module.
pub struct Map;

impl Workload for Map {
    fn name(&self) -> &'static str {
        "map"
    }

    fn phases(&self) -> &'static [&'static str] {
        &["put", "upd", "mix", "get", "get_many"]
    }

    fn shape(&self, asked: Shape) -> Shape {
        asked
    }

    fn full_after(&self) -> Option<&'static str> {
        Some("put")
    }
}

impl OfStores for Map {
    fn run(&self, phase: &str, worker: u64, shape: &Shape, driver: &mut Driver<'_>) -> Result<()> {
        let own = worker * shape.keys..(worker + 1) * shape.keys;
        match phase {
            "put" => driver.play(own.map(|key| Step::Put(Word::binary(key), first(key))))?,
            "upd" => driver.play(own.map(|key| Step::Put(Word::binary(key), second(key))))?,
            "mix" => driver.play(own.map(|key| match key % RENEWED_ONE_IN {
                0 => Step::Renew(Word::binary(key), second(key)),
                _ => Step::Get(Word::binary(key), second(key)),
            }))?,
            "get" => driver
                .play(read(worker, shape).map(|key| Step::Get(Word::binary(key), second(key))))?,
            "get_many" => {
                driver.get_many(read(worker, shape).map(|key| (Word::binary(key), second(key))))?
            }
            _ => bail!("the workload map has no phase {phase:?}"),
        }
        driver.tally.operations = shape.keys;
        Ok(())
    }
}

/// The value from put on is the key.
fn first(key: u64) -> Word {
    Word::binary(key)
}

/// The value from upd on differs, so that a lost update shows.
fn second(key: u64) -> Word {
    Word::binary(!key)
}

/// The keys that a worker reads.
fn read(worker: u64, shape: &Shape) -> impl Iterator<Item = u64> + use<> {
    let (order, keys, all) = (shape.order, shape.keys, shape.keys * shape.workers);
    let mut numbers = Numbers::new(worker);
    (0..keys).map(move |at| match order {
        Order::Own => worker * keys + at,
        Order::Random => numbers.below(all),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(order: Order) -> Shape {
        let loads = Vec::new();
        Shape { workers: 3, keys: 100, order, fixed: false, in_file: false, latency: false, loads }
    }

    #[test]
    fn each_worker_reads_its_own_range_in_order() {
        let keys: Vec<_> = read(2, &shape(Order::Own)).collect();
        assert_eq!(keys, (200..300).collect::<Vec<_>>());
    }

    #[test]
    fn random_order_reads_as_many_keys_of_all_workers() {
        let keys: Vec<_> = read(2, &shape(Order::Random)).collect();
        assert_eq!(keys.len(), 100);
        assert!(keys.iter().all(|key| *key < 300));
        assert!(keys.iter().any(|key| *key < 100));
    }
}
