//! One process of the workload: it waits for a phase and its instant, runs it, and reports.
//!
//! Invariant: every value that comes back is compared with the one expected; a wrong one ends
//! the benchmark.

use super::order::Order;
use crate::workload::{
    Result, RunError, clock,
    driver::Driver,
    form::Padded,
    latency::Packed,
    pairs::{self, Part, Phase},
    say,
    stores::MapStore,
    tally::Tally,
    worker,
};
use commonhold::Hold;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The map that all processes work on.
pub const MAP: &str = "bench";

/// The orders of a process.
#[derive(Serialize, Deserialize)]
pub struct Job {
    /// The shared hold.
    pub hold: PathBuf,
    /// Its first key.
    pub first: u64,
    /// The end of its keys, exclusive.
    pub end: u64,
    /// Lengths.
    pub form: Padded,
    /// Order of keys.
    pub order: Order,
    /// Keys of one get_many.
    pub batch: usize,
    /// The process that started it.
    pub starter: u32,
}

/// The report of a process after a phase.
#[derive(Serialize, Deserialize)]
pub struct Done {
    /// Operations.
    pub ops: u64,
    /// When it was done, on the common clock.
    pub end_ns: u64,
    /// Times of single puts, of the phase that takes them.
    pub latencies: Packed,
}

/// Runs phases as they are named, until there are no more.
pub fn run(job: &Job) -> Result<()> {
    worker::die_with(job.starter)?;
    let mut store = MapStore::<RunError>::new(Hold::open(&job.hold)?.maps().open(MAP)?);
    let order = job.order.of_workload();
    let mut part = Part { keys: job.first..job.end, order, updated: false };
    say("ready")?;
    while let Some(command) = worker::command()? {
        let bad = || RunError::new(format!("expected a phase and an instant, got '{command}'"));
        let (name, start_ns) = command.split_once(' ').ok_or_else(bad)?;
        let phase = Phase::named(name).ok_or_else(bad)?;
        let tally = Tally::new(phase == Phase::PutLatency);
        let (form, get_many) = (&job.form, job.batch);
        let mut driver = Driver { store: &mut store, form, batch: 1, get_many, tally };
        clock::spin_until(start_ns.parse().map_err(|_| bad())?);
        pairs::map(phase, &mut part, &mut driver)?;
        let end_ns = clock::now_ns();
        let tally = driver.tally;
        tally.verdict()?;
        let latencies = tally.times.map(|mut times| times.pack()).unwrap_or_default();
        say(&serde_json::to_string(&Done { ops: tally.operations, end_ns, latencies })?)?;
    }
    Ok(())
}
