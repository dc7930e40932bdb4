//! `hold bench`: measures the speed of everything that the project promises, on this machine.
//!
//! - `map`: many processes on one map, the workload of SharedHashFile's own benchmark
//! - `local_loop`: the loop of Localmemcache's own benchmark, one process, a file
//! - `private`: one process, compared with a hash map in its own memory
//! - `channel`: messages from one process to others, throughput and latency
//! - `queue`: elements that two processes move, SharedHashFile's own definition
//! - `log`: lines of many processes, collected by one
//! - `replicate`: a map's changes, sent to many replicas; libworld's own benchmark
//! - `files`: the client of a file server: requests, every answer checked; all combinations of a
//!   server's choices
//! - `goals`: the predecessors' results and the goals; `table`: tables of results
//! - `crew`: the processes of a run; a dead one is not waited for
//! - `pace`, `timeline`, `percentiles`: a rate, events over time, the percentiles of latency;
//!   `plot`: curves of them
//!
//! Rivals that need servers or heavy libraries are in the `bench/` folder of the project.
//! Invariant: every measured operation is also checked for its correct result.

mod channel;
mod crew;
mod files;
pub mod goals;
mod local_loop;
mod log;
mod map;
mod pace;
mod percentiles;
mod plot;
mod private;
mod queue;
mod replicate;
pub mod table;
mod timeline;

use crate::workload::{Result, RunError, results::Results, say};
use commonhold_terminal::help::flowing;
use std::process::ExitCode;

/// Options of `hold bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(clap::Subcommand, Debug)]
enum Workload {
    /// Many processes set, update and get keys in one map
    #[command(after_help = flowing(map::EXAMPLES))]
    Map(map::Args),
    /// One process sets and gets 10,000 decimal keys in a file, as in Localmemcache's benchmark
    Loop(local_loop::Args),
    /// One process copies random values from a map, and from hashbrown's HashMap for comparison
    Private(private::Args),
    /// Throughput and latency of messages from one process to others
    #[command(after_help = flowing(channel::EXAMPLES))]
    Channel(channel::Args),
    /// Throughput of two processes that move elements between two named queues
    #[command(after_help = flowing(queue::EXAMPLES))]
    Queue(queue::Args),
    /// Cost and throughput of logging, with many writers and one collector
    #[command(after_help = flowing(log::EXAMPLES))]
    Log(log::Args),
    /// Throughput of replicating a map's changes to many replicas
    #[command(after_help = flowing(replicate::EXAMPLES))]
    Replicate(replicate::Args),
    /// Rate and latency of requests to a file server, and their cost to the server
    #[command(after_help = flowing(files::EXAMPLES))]
    Files(Box<files::Args>),
}

/// Measures, or runs one of the measured processes.
pub fn run(args: &Args, json: bool) -> commonhold_terminal::failure::Result<ExitCode> {
    let done = match &args.workload {
        Workload::Map(args) => map::run(args, json),
        Workload::Loop(args) => {
            local_loop::measure(args).and_then(|results| show(&results, json, &local_loop::lines))
        }
        Workload::Private(args) => {
            private::measure(args).and_then(|results| show(&results, json, &private::lines))
        }
        Workload::Channel(args) => channel::run(args, json),
        Workload::Queue(args) => queue::run(args, json),
        Workload::Log(args) => log::run(args, json),
        Workload::Replicate(args) => replicate::run(args, json),
        Workload::Files(args) => files::run(args, json),
    };
    done.map(|()| ExitCode::SUCCESS).map_err(RunError::into_failure)
}

/// Prints `results` as JSON, or as the `lines` for people.
fn show(results: &Results, json: bool, lines: &dyn Fn(&Results) -> Vec<String>) -> Result<()> {
    if json {
        return say(&results.to_json()?);
    }
    say(&format!("{}\n", results.place()))?;
    lines(results).iter().try_for_each(|line| say(line))
}
