//! The workloads over keys and values. `hold bench` runs them over Commonhold, and this program
//! runs them over every system.
//!
//! map: SharedHashFile's own benchmark, with 4-byte keys and values. Each worker has its own
//! ascending range. put: every key is new. upd: every value is overwritten. mix: 2 % delete and
//! put, 98 % get; each counts as one operation. get: one at a time. get_many: 64 at a time. The
//! keys go in ascending order, but with `--order random` the two get phases draw from the keys of
//! all workers.
//!
//! loop: Localmemcache's own benchmark. One process draws one of 10,000 decimal keys at random,
//! sets it to itself, and gets it, 2 million times, on a file. One operation is one set and one
//! get. Commonhold uses a file hold, whose records have checksums, because the loop is about files.
//! The file is in the same directory as the rivals'.
//!
//! private: one process alone, compared with the hash table that it would otherwise use. load:
//! ascending 4-byte keys, value equal to the key. get_copy: random keys, the value copied into a
//! vector that is used again. get_owned: the same, but each value is a new vector: `get` in
//! Commonhold, `get().cloned()` in the hash table.

use anyhow::{Context, Result, bail};
use commonhold_lab::workload::{
    driver::Driver,
    form::{Ascending, Decimal, Form},
    pairs::{self, Numbers, Part, Phase},
};

use super::{OfStores, Workload, tally::Tally};
use crate::{
    rival::{Order, Shape},
    store::AnyStore,
};

/// Keys of one `get_many`.
const MANY: usize = 64;
const DECIMAL_KEYS: u64 = 10_000;
const ITERATIONS: u64 = 2_000_000;

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
    fn run(
        &self,
        phase: &str,
        worker: u64,
        shape: &Shape,
        batch: usize,
        store: &mut AnyStore,
        tally: Tally,
    ) -> Result<Tally> {
        let phase = Phase::named(phase)
            .with_context(|| format!("the workload map has no phase {phase:?}"))?;
        let order = match shape.order {
            Order::Own => pairs::Order::Own,
            Order::Random => pairs::Order::Drawn(shape.keys * shape.workers, Numbers::new(worker)),
        };
        let keys = worker * shape.keys..(worker + 1) * shape.keys;
        // The phases run in order, and from the second one on, every value has changed.
        let mut part = Part { keys, order, updated: phase != Phase::Put };
        let mut driver = driver(&Ascending, batch, store, tally);
        pairs::map(phase, &mut part, &mut driver)?;
        Ok(driver.tally)
    }
}

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
    fn run(
        &self,
        _phase: &str,
        worker: u64,
        shape: &Shape,
        batch: usize,
        store: &mut AnyStore,
        tally: Tally,
    ) -> Result<Tally> {
        let form = Decimal::below(DECIMAL_KEYS);
        let mut driver = driver(&form, batch, store, tally);
        let numbers = Numbers::new(worker).take(shape.keys, DECIMAL_KEYS);
        pairs::decimal_loop(numbers, &mut driver)?;
        Ok(driver.tally)
    }
}

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
    fn run(
        &self,
        phase: &str,
        worker: u64,
        shape: &Shape,
        batch: usize,
        store: &mut AnyStore,
        tally: Tally,
    ) -> Result<Tally> {
        let mut driver = driver(&Ascending, batch, store, tally);
        let drawn = Numbers::new(worker).take(shape.keys, shape.keys);
        match phase {
            "load" => pairs::load(shape.keys, &mut driver)?,
            "get_copy" => pairs::copy(drawn, &mut driver)?,
            "get_owned" => pairs::own(drawn, &mut driver)?,
            _ => bail!("the workload private has no phase {phase:?}"),
        }
        Ok(driver.tally)
    }
}

fn driver<'a, F: Form>(
    form: &'a F,
    batch: usize,
    store: &'a mut AnyStore,
    tally: Tally,
) -> Driver<'a, AnyStore, F> {
    Driver { store, form, batch, get_many: MANY, tally }
}
