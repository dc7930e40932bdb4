//! One process of the workload: it waits for a phase and its instant, runs it, and reports.
//!
//! Invariant: every value that comes back is compared with the one expected; a wrong one ends
//! the benchmark.

use super::order::{Order, Shape, Walk};
use crate::workload::{
    Result, RunError, clock,
    latency::{Latencies, Packed},
    say, worker,
};
use commonhold::Hold;
use commonhold::map::{Map, Values};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The map that all processes work on.
pub const MAP: &str = "bench";

/// In the mix, one of this number of keys is deleted and set again: 2 of 100.
const MIX_EVERY: u64 = 50;

/// A phase: operations that are measured together.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
#[value(rename_all = "snake_case")]
pub enum Phase {
    /// Set new keys
    Put,
    /// Set the same keys again
    Upd,
    /// 98% get, 2% delete and set
    Mix,
    /// Get each key
    Get,
    /// Get many keys at a time
    GetMany,
    /// Set new keys in a fresh hold, timing each set
    PutLatency,
}

impl Phase {
    const ALL: [(Phase, &'static str); 6] = [
        (Phase::Put, "put"),
        (Phase::Upd, "upd"),
        (Phase::Mix, "mix"),
        (Phase::Get, "get"),
        (Phase::GetMany, "get_many"),
        (Phase::PutLatency, "put_latency"),
    ];

    /// Its name in options and results.
    pub fn name(self) -> &'static str {
        Phase::ALL[self as usize].1
    }

    fn named(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|(_, n)| *n == name).map(|(phase, _)| phase)
    }
}

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
    pub shape: Shape,
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
    let mut process = Process::new(job)?;
    say("ready")?;
    while let Some(command) = worker::command()? {
        let bad = || RunError::new(format!("expected a phase and an instant, got '{command}'"));
        let (name, start_ns) = command.split_once(' ').ok_or_else(bad)?;
        let phase = Phase::named(name).ok_or_else(bad)?;
        clock::spin_until(start_ns.parse().map_err(|_| bad())?);
        process.perform(phase)?;
        let end_ns = clock::now_ns();
        let latencies = process.latencies.pack();
        let done = Done { ops: process.shuffled.len(), end_ns, latencies };
        say(&serde_json::to_string(&done)?)?;
    }
    Ok(())
}

struct Process {
    map: Map,
    shape: Shape,
    batch: usize,
    ascending: Walk,
    shuffled: Walk,
    key: Vec<u8>,
    value: Vec<u8>,
    found: Vec<u8>,
    latencies: Latencies,
}

impl Process {
    fn new(job: &Job) -> Result<Process> {
        Ok(Process {
            map: Hold::open(&job.hold)?.maps().open(MAP)?,
            shape: job.shape,
            batch: job.batch,
            ascending: Walk::new(job.first, job.end, Order::Own),
            shuffled: Walk::new(job.first, job.end, job.order),
            key: Vec::new(),
            value: Vec::new(),
            found: Vec::new(),
            latencies: Latencies::new(),
        })
    }

    fn perform(&mut self, phase: Phase) -> Result<()> {
        match phase {
            Phase::Put => self.put(),
            Phase::Upd => self.upd(),
            Phase::Mix => self.mix(),
            Phase::Get => self.get(),
            Phase::GetMany => self.get_many(),
            Phase::PutLatency => self.put_latency(),
        }
    }

    fn put(&mut self) -> Result<()> {
        for step in 0..self.ascending.len() {
            self.set(self.ascending.at(step))?;
        }
        Ok(())
    }

    fn upd(&mut self) -> Result<()> {
        for step in 0..self.shuffled.len() {
            self.set(self.shuffled.at(step))?;
        }
        Ok(())
    }

    fn mix(&mut self) -> Result<()> {
        for step in 0..self.shuffled.len() {
            let number = self.shuffled.at(step);
            if step % MIX_EVERY != 0 {
                self.get_one(number)?;
                continue;
            }
            self.shape.key(number, &mut self.key);
            if !self.map.delete(&self.key)? {
                return Err(wrong(number));
            }
            self.set(number)?;
        }
        Ok(())
    }

    fn get(&mut self) -> Result<()> {
        for step in 0..self.shuffled.len() {
            self.get_one(self.shuffled.at(step))?;
        }
        Ok(())
    }

    fn get_many(&mut self) -> Result<()> {
        let mut keys = vec![Vec::new(); self.batch];
        let mut values = Values::default();
        let mut step = 0;
        while step < self.shuffled.len() {
            let count = (self.shuffled.len() - step).min(self.batch as u64) as usize;
            for (offset, key) in (step..).zip(&mut keys[..count]) {
                self.shape.key(self.shuffled.at(offset), key);
            }
            self.map.get_many(&keys[..count], &mut values)?;
            for at in 0..count {
                let number = self.shuffled.at(step + at as u64);
                self.shape.value(number, &mut self.value);
                if values.get(at) != Some(&self.value[..]) {
                    return Err(wrong(number));
                }
            }
            step += count as u64;
        }
        Ok(())
    }

    /// Times each put; the end of one is the beginning of the next, so that each time includes one
    /// reading of the clock.
    fn put_latency(&mut self) -> Result<()> {
        let mut begin_ns = clock::now_ns();
        for step in 0..self.ascending.len() {
            self.set(self.ascending.at(step))?;
            let end_ns = clock::now_ns();
            self.latencies.record(end_ns - begin_ns);
            begin_ns = end_ns;
        }
        Ok(())
    }

    #[inline]
    fn set(&mut self, number: u64) -> Result<()> {
        self.shape.key(number, &mut self.key);
        self.shape.value(number, &mut self.value);
        self.map.set(&self.key, &self.value)?;
        Ok(())
    }

    #[inline]
    fn get_one(&mut self, number: u64) -> Result<()> {
        self.shape.key(number, &mut self.key);
        self.shape.value(number, &mut self.value);
        if self.map.get_into(&self.key, &mut self.found)? && self.found == self.value {
            return Ok(());
        }
        Err(wrong(number))
    }
}

fn wrong(number: u64) -> RunError {
    RunError::new(format!("key {number} is missing, or its value is wrong: run `hold crashtest`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_found_by_their_names() {
        for (at, (phase, name)) in Phase::ALL.into_iter().enumerate() {
            assert_eq!((phase as usize, phase.name()), (at, name));
            assert_eq!(Phase::named(name), Some(phase));
        }
        assert_eq!(Phase::named("nothing"), None);
    }
}
