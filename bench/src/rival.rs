//! The common part of all rivals: a name, a version, a place to set them up in.
//!
//! Further traits describe the abilities of a rival: [`crate::store`] for those that keep keys and
//! values, [`crate::messages`] for those that pass messages, [`crate::served`] for those that serve
//! files. Invariant: the rounds and the report know a system only through [`Rival`], so all are run
//! and judged in the same way.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::rivals::server::Server;

/// The workers that can share one store of a rival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Any process: each worker is a process.
    Processes,
    /// Only one process: the workers are threads of one process, which favours the rival.
    Threads,
}

/// The order in which a worker reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Its own keys, ascending.
    Own,
    /// Keys of all workers, uniformly at random.
    Random,
}

/// The request to a rival, the same for each except `keys`, which may be scaled down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Workers at the same time: processes, or threads where a rival cannot be shared.
    pub workers: u64,
    /// Keys of each worker; in the workloads of messages the number of messages.
    pub keys: u64,
    /// The order in which the `get` phases read the keys.
    pub order: Order,
    /// Commonhold only: a fixed-length map instead of a general one.
    pub fixed: bool,
    /// Commonhold only: a file hold instead of a memory hold.
    pub in_file: bool,
    /// Whether every put is timed separately, which costs a clock reading per put.
    pub latency: bool,
    /// In workloads with a pace, the load of each phase, which is the same for all systems. Empty
    /// in the pilot.
    #[serde(default)]
    pub loads: Vec<Load>,
}

/// The load of a phase on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Requests in a closed loop, each sent as soon as an earlier one is answered.
    pub closed: u64,
    /// Requests at the rate below.
    pub paced: u64,
    /// The rate, in requests per second.
    pub rate: u64,
}

/// One system in one setting.
pub trait Rival: Sync {
    /// Its name in tables and JSON, unique among the rivals of a workload.
    fn name(&self) -> &'static str;

    /// The version that runs here.
    fn version(&self) -> Result<String>;

    /// The settings that a reader needs to judge the numbers.
    fn settings(&self) -> &'static str;

    /// The workers that can share its stores.
    fn sharing(&self) -> Sharing;

    /// Whether it takes part in the workload.
    fn plays(&self, workload: &str) -> bool {
        matches!(workload, "map" | "loop")
    }

    /// The reason why it cannot run here, and the remedy.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Whether it may occasionally return a wrong value, because its readers race with its writer.
    /// The report counts such values. A wrong value from any other system ends the run.
    fn reads_may_be_wrong(&self) -> bool {
        false
    }

    /// Creates the empty store that its workers share, in the empty directory `site`. The process
    /// that starts the workers calls this once. A server runs until the returned value is dropped.
    fn prepare(&self, site: &Path, shape: &Shape) -> Result<Option<Server>>;
}
