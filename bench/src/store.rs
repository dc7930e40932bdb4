//! What every system is reduced to: a [`Rival`] that can be set up and opened, and a [`Store`]
//! through which one worker does its operations.
//!
//! Invariant: the workloads know a system only through these traits, so that all of them run the
//! very same code. Rivals implement them; the worker and the rounds call them.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::rivals::server::Server;

/// Who can share one store of a rival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Any process: each worker is a process.
    Processes,
    /// Only one process: the workers are threads of one process, which is the kinder case.
    Threads,
}

/// In which order a worker reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Its own keys, ascending.
    Own,
    /// Keys of all workers, uniformly at random.
    Random,
}

/// What is asked of a store, the same for every rival but for `keys`, which may be scaled down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Workers at the same time: processes, or threads where a rival cannot be shared.
    pub workers: u64,
    /// Keys of each worker.
    pub keys: u64,
    /// How the `get` phases go through the keys.
    pub order: Order,
    /// Commonhold only: a fixed-length map instead of a general one.
    pub fixed: bool,
    /// Commonhold only: a file hold instead of a memory hold.
    pub in_file: bool,
    /// Time every put by itself. Costs a clock reading each.
    pub latency: bool,
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// Store the value (second) under the key (first), whether or not the key is there.
    Put(&'a [u8], &'a [u8]),
    /// Look the key up.
    Get(&'a [u8]),
    /// Remove the key.
    Delete(&'a [u8]),
}

/// Called for each hit with the position in the batch and the value.
pub type Found<'a> = &'a mut dyn FnMut(usize, &[u8]);

/// One worker's way into a store. It lives and dies on one thread.
pub trait Store: Send {
    /// Stores `value` under `key`, whether or not the key is there.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Copies the value into `out`, replacing what it held; false if the key is absent.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool>;

    /// The value as a fresh vector, the way a program usually asks for it.
    fn get_owned(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        Ok(self.get(key, &mut out)?.then_some(out))
    }

    /// Removes `key`; false if it was absent.
    fn delete(&mut self, key: &[u8]) -> Result<bool>;

    /// Looks all `keys` up at once, by the best means the system has for it.
    fn get_many(&mut self, keys: &[&[u8]], found: Found<'_>) -> Result<()>;

    /// Does all `ops` in order, by the best means the system has for many at a time: one
    /// transaction, one pipeline. Only called when [`Rival::batch`] is over 1.
    fn run(&mut self, ops: &[Op<'_>], found: Found<'_>) -> Result<()> {
        let mut out = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            match op {
                Op::Put(key, value) => self.put(key, value)?,
                Op::Delete(key) => drop(self.delete(key)?),
                Op::Get(key) => {
                    if self.get(key, &mut out)? {
                        found(at, &out);
                    }
                }
            }
        }
        Ok(())
    }

    /// Brings what it holds to where its memory is measured. Called after each phase, outside its time.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Leaves the store in order. The worker calls it once, after its last phase.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// One system in one setting.
pub trait Rival: Sync {
    /// Its name in tables and JSON, unique among the rivals.
    fn name(&self) -> &'static str;

    /// The version that runs here.
    fn version(&self) -> Result<String>;

    /// Everything that was chosen for it and that a reader needs to judge the numbers.
    fn settings(&self) -> &'static str;

    /// Who can share a store.
    fn sharing(&self) -> Sharing;

    /// How many operations the workloads hand over at a time.
    fn batch(&self) -> usize {
        1
    }

    /// Whether it takes part in the workload.
    fn plays(&self, workload: &str) -> bool {
        workload != "private"
    }

    /// Why it cannot run here, and what to do about it.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Makes an empty store in the empty directory `site`. Called once, by the process that starts
    /// the workers; a server runs as long as what is returned.
    fn prepare(&self, site: &Path, shape: &Shape) -> Result<Option<Server>>;

    /// Opens what [`Rival::prepare`] made. Called once in each process, with as many `threads` as
    /// that process has workers: one store for each.
    fn open(&self, site: &Path, shape: &Shape, threads: usize) -> Result<Vec<Box<dyn Store>>>;
}
