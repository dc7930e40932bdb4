//! The process that does a workload's operations: this program, started again by [`crate::crew`].
//!
//! It reads orders from standard input, each a JSON line, and answers each with one line on
//! standard output. It must print nothing else. Invariant: it ends when its input ends, and the
//! kernel ends it with the thread that started it, so no worker outlives its run.

use std::{path::PathBuf, process};

use anyhow::{Context, Result};
use commonhold_lab::workload::{
    self,
    latency::Packed,
    machine::resident_bytes,
    worker::{command, die_with},
};
use serde::{Deserialize, Serialize};

use crate::{rival::Shape, team, workloads::tally::Findings};

/// The job of a worker process; the first line that it reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The process id of the run that started it.
    pub run: u32,
    /// The rival's name.
    pub rival: String,
    /// The workload's name.
    pub workload: String,
    /// The directory that the rival prepared.
    pub site: PathBuf,
    /// The request to the rival.
    pub shape: Shape,
    /// The number of this process's first worker.
    pub first_worker: u64,
    /// The number of its workers, each of which is a thread.
    pub threads: usize,
}

/// A later command: the phase to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Its name.
    pub phase: String,
}

/// The answer of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The answer to the job: everything is open.
    Ready {
        /// Bytes of memory the process holds.
        resident_bytes: u64,
    },
    /// The answer to a phase.
    Done(Done),
    /// The answer to the end of input: everything is closed cleanly.
    Finished,
    /// The answer to any command that failed. The process then ends.
    Failed(String),
}

/// The work of all workers of one process in one phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// Start of the first, by the machine's monotonic clock, which all processes share.
    pub start_ns: u64,
    /// End of the last.
    pub end_ns: u64,
    /// Operations of all.
    pub operations: u64,
    /// Values that were not the expected ones.
    pub wrong: u64,
    /// Keys that should have been there.
    pub absent: u64,
    /// Bytes of memory the process holds at the end.
    pub resident_bytes: u64,
    /// The times of single operations.
    pub times: Packed,
    /// A client's results for a server.
    pub findings: Findings,
}

/// Runs the worker until its input ends.
pub fn main() -> Result<()> {
    if let Err(error) = serve() {
        say(&Answer::Failed(format!("{error:#}")))?;
        process::exit(1);
    }
    Ok(())
}

fn serve() -> Result<()> {
    let job = command()?.context("expected a job on standard input; `run` starts workers")?;
    let job: Job = serde_json::from_str(&job).context("cannot understand the job")?;
    die_with(job.run)?;
    let mut team = team::open(job)?;
    say(&Answer::Ready { resident_bytes: resident_bytes(std::process::id())? })?;

    while let Some(line) = command()? {
        let order: Order = serde_json::from_str(&line).context("cannot understand the phase")?;
        let mut done = team.run(&order.phase)?;
        done.resident_bytes = resident_bytes(std::process::id())?;
        say(&Answer::Done(done))?;
    }
    team.finish()?;
    say(&Answer::Finished)
}

/// Prints the answer as one line.
pub fn say(answer: &Answer) -> Result<()> {
    Ok(workload::say(&serde_json::to_string(answer).context("cannot answer")?)?)
}

impl Done {
    /// The combined work of two parts of a crew.
    pub fn combine(mut self, other: Done) -> Done {
        self.start_ns = self.start_ns.min(other.start_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.operations += other.operations;
        self.wrong += other.wrong;
        self.absent += other.absent;
        self.resident_bytes += other.resident_bytes;
        self.times.extend(other.times);
        self.findings.measurements.extend(other.findings.measurements);
        self.findings.notes.extend(other.findings.notes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonhold_lab::workload::latency::Latencies;

    fn part(start_ns: u64, end_ns: u64) -> Done {
        let mut times = Latencies::new();
        times.record(end_ns - start_ns);
        Done {
            start_ns,
            end_ns,
            operations: 10,
            wrong: 0,
            absent: 1,
            resident_bytes: 5,
            times: times.pack(),
            findings: Findings::default(),
        }
    }

    #[test]
    fn the_time_of_several_is_from_the_first_start_to_the_last_end() {
        let both = part(5, 20).combine(part(3, 9));
        assert_eq!((both.start_ns, both.end_ns, both.operations, both.absent), (3, 20, 20, 2));
        let times = both.times.latencies().unwrap();
        assert_eq!((both.resident_bytes, times.count(), times.longest()), (10, 2, 15));
    }
}
