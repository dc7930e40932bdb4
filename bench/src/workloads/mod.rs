//! The workloads, one file each, and the list of them.
//!
//! A workload defines its phases and the work of each worker in them. Those over stores are the
//! code of `hold bench`; those over messages use a port themselves; those over servers have a
//! client, which is a separate program. The team runs the workloads. The rounds read their
//! requirements.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{
    messages::Port,
    rival::{Load, Shape},
    served::Host,
    store::AnyStore,
};
pub use commonhold_lab::workload::message;
use tally::{Findings, Tally};

/// The message that the workloads send.
pub type Message = [u8; message::BYTES];

mod broadcast;
mod channel;
pub mod files;
pub mod log;
pub mod memory;
pub mod newest;
mod pairs;
pub mod queue;
pub mod replicate;
pub mod tally;

/// The common part of all workloads.
pub trait Workload: Sync {
    /// Its name on the command line. In the JSON, the phase's name follows it.
    fn name(&self) -> &'static str;

    /// Its phases in order. All workers start a phase together.
    fn phases(&self) -> &'static [&'static str];

    /// This workload's shape for the options of the command line.
    fn shape(&self, asked: Shape) -> Shape;

    /// The unit of [`Shape::keys`].
    fn counts(&self) -> &'static str {
        "keys"
    }

    /// The phase after which a store holds every pair, so that memory per pair is meaningful.
    fn full_after(&self) -> Option<&'static str> {
        None
    }

    /// The number of operations whose time is reported as well, if a reader expects a time.
    fn timed_operations(&self) -> Option<u64> {
        None
    }

    /// The metric of operations per second; `None` if the phase pauses, which makes a rate
    /// meaningless.
    fn rate(&self, _phase: &str) -> Option<&'static str> {
        Some("ops_per_s")
    }

    /// The metric that the pilot reports for every phase, if all systems get the same load: the
    /// slowest system sets the pace.
    fn pace(&self) -> Option<&'static str> {
        None
    }

    /// The load of a phase at the slowest system's pace, with limits of seconds and requests, if
    /// there is a pace.
    fn load(&self, _pace: f64, _budget_seconds: f64, _most: u64) -> Load {
        Load::default()
    }

    /// The metrics of single times, if there are any.
    fn quantiles(&self, _phase: &str) -> &'static [Quantile] {
        &[
            Quantile { metric: "latency_ns_p9999", quantile: 0.9999, per: 1 },
            Quantile { metric: "latency_ns_max", quantile: 1.0, per: 1 },
        ]
    }
}

/// One metric that is computed from many times.
pub struct Quantile {
    /// Its metric.
    pub metric: &'static str,
    /// Its place among the times in ascending order: 0 is the shortest, 1 the longest.
    pub quantile: f64,
    /// The number of operations that were timed together.
    pub per: u64,
}

/// A workload over stores.
pub trait OfStores: Workload {
    /// Does the operations of one worker in one phase, up to `batch` of them at a time, and counts
    /// them in the tally.
    fn run(
        &self,
        phase: &str,
        worker: u64,
        shape: &Shape,
        batch: usize,
        store: &mut AnyStore,
        tally: Tally,
    ) -> Result<Tally>;
}

static OF_STORES: [&dyn OfStores; 7] = [
    &pairs::Map,
    &pairs::DecimalLoop,
    &pairs::Private,
    &memory::ALL[0],
    &memory::ALL[1],
    &memory::ALL[2],
    &memory::ALL[3],
];

/// A workload over systems that pass messages.
pub trait OfMessages: Workload {
    /// Runs the worker of that number in one phase.
    fn run(
        &self,
        phase: &str,
        worker: u64,
        shape: &Shape,
        port: &mut dyn Port,
        tally: &mut Tally,
    ) -> Result<()>;

    /// Runs the checks that are possible only after the phase, outside its time.
    fn check(&self, _phase: &str, _worker: u64, _shape: &Shape, _site: &Path) -> Result<()> {
        Ok(())
    }
}

static OF_MESSAGES: [&dyn OfMessages; 6] = [
    &channel::Channel,
    &broadcast::Broadcast,
    &queue::Queue,
    &log::Log,
    &newest::Newest,
    &replicate::Replicate,
];

/// A workload over servers.
pub trait OfServers: Workload {
    /// Starts a server, runs the client, and ends the server. The pilot measures only the pace.
    fn run(&self, phase: &str, host: &dyn Host, shape: &Shape, site: &Path) -> Result<Findings>;
}

static OF_SERVERS: [&dyn OfServers; 1] = [&files::Files];

/// All workloads.
pub fn all() -> impl Iterator<Item = &'static dyn Workload> {
    let stores = OF_STORES.iter().map(|one| *one as &dyn Workload);
    let messages = OF_MESSAGES.iter().map(|one| *one as &dyn Workload);
    stores.chain(messages).chain(OF_SERVERS.iter().map(|one| *one as &dyn Workload))
}

/// The names of all workloads.
pub fn names() -> Vec<&'static str> {
    all().map(Workload::name).collect()
}

/// The workload of that name.
///
/// # Errors
/// If there is none; the message lists all workloads.
pub fn named(name: &str) -> Result<&'static dyn Workload> {
    all().find(|workload| workload.name() == name).with_context(|| unknown(name))
}

/// The workload of that name, if it is over stores.
pub fn of_stores(name: &str) -> Option<&'static dyn OfStores> {
    OF_STORES.iter().copied().find(|workload| workload.name() == name)
}

/// The workload of that name, if it is over servers.
pub fn of_servers(name: &str) -> Option<&'static dyn OfServers> {
    OF_SERVERS.iter().copied().find(|workload| workload.name() == name)
}

/// The workload of that name, which is over messages.
///
/// # Errors
/// As [`named`].
pub fn of_messages(name: &str) -> Result<&'static dyn OfMessages> {
    let found = OF_MESSAGES.iter().copied().find(|workload| workload.name() == name);
    found.with_context(|| unknown(name))
}

fn unknown(name: &str) -> String {
    format!("no workload is named {name:?}; there are {}", names().join(", "))
}
