//! `hold bench log`: many processes write into one log, one process collects it.
//!
//! It measures the cost of a line to its writer, and how many lines per second are accepted,
//! delivered, and dropped because a ring was full. In the end each accepted line must have been
//! delivered once, in its writer's order.
//!
//! - [`line`]: a self-verifying line
//! - [`writer`], [`collector`]: the two kinds of processes
//! - [`report`]: results and tables

mod collector;
mod line;
mod report;
mod writer;

use super::crew::{self, Crew};
use super::pace::Waiting;
use super::show;
use crate::workload::{Result, RunError, board::Board, pin::Cpus, temporary::TemporaryHold};
use collector::Delivered;
use commonhold::log::LogOptions;
use commonhold_terminal::sizes;
use std::path::PathBuf;
use writer::{Full, Wrote};

/// The log that all processes share.
const LOG: &str = "bench";

/// Shown after `hold bench log --help`.
pub const EXAMPLES: &str = "\
Examples:
  hold bench log                             # 2 writers, as fast as they can
  hold bench log --rate 100000 --cpus 0,1,1  # 100,000 lines per second each: cost per line
  hold bench log --full wait                 # nothing is dropped; writers wait for room
  hold bench log --writers 4 --line-bytes 200 --file /tmp/bench.log --format json";

/// Options of `hold bench log`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Number of writers; each is a process
    #[arg(long, value_name = "W", default_value_t = 2)]
    writers: u32,

    /// How long the writers run, in seconds
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,

    /// Bytes per line, at least 40
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = sizes::bytes)]
    line_bytes: u64,

    /// Lines per second for each writer; 0 means as many as possible
    #[arg(long, value_name = "N", default_value_t = 0)]
    rate: u64,

    /// What a writer does when its ring is full
    #[arg(long, value_enum, default_value_t = Full::Drop)]
    full: Full,

    /// Size of each writer's ring, rounded up to a power of two
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = sizes::bytes)]
    ring_bytes: u64,

    /// Measure the time of one in N lines
    #[arg(long, value_name = "N", default_value_t = 64)]
    sample: u64,

    /// The file for collected lines, which is overwritten
    #[arg(long, value_name = "FILE", default_value = "/dev/null")]
    file: PathBuf,

    /// Processors to run on: one for each writer, then one for the collector [default: any]
    #[arg(long, value_name = "LIST", value_parser = Cpus::parse)]
    cpus: Option<Cpus>,

    /// With --rate, how a writer waits until the next line is due
    #[arg(long, value_enum, default_value_t = Waiting::Spin)]
    wait: Waiting,

    /// Name or path of the hold to create; it must not exist yet, and is deleted afterwards
    /// [default: a unique name, in memory]
    #[arg(long, value_name = "HOLD")]
    hold: Option<PathBuf>,

    /// The job of a worker process, which `hold bench` starts by itself
    #[arg(long, value_name = "JOB", hide = true)]
    worker: Option<String>,
}

/// The job of a process.
#[derive(serde::Serialize, serde::Deserialize)]
enum Part {
    Writer(writer::Job),
    Collector(collector::Job),
}

/// The results of a run.
struct Measured {
    start_ns: u64,
    wrote: Vec<Wrote>,
    delivered: Delivered,
}

/// Measures, or runs one of the processes.
pub fn run(args: &Args, json: bool) -> Result<()> {
    if let Some(order) = &args.worker {
        return match crew::job(order)? {
            Part::Writer(job) => writer::run(job),
            Part::Collector(job) => collector::run(&job),
        };
    }
    args.validate()?;
    let measured = measure(args)?;
    let results = report::collect(args, &measured);
    show(&results, json, &|results| report::lines(args, results))
}

impl Args {
    fn roles(&self) -> Vec<String> {
        let writers = (1..=self.writers).map(|w| format!("writer {w}"));
        writers.chain(["collector".to_owned()]).collect()
    }

    fn validate(&self) -> Result<()> {
        if self.line_bytes < line::LEAST_BYTES as u64 {
            let least = line::LEAST_BYTES;
            return Err(RunError::new(format!("expected --line-bytes of at least {least}")));
        }
        if self.sample == 0 || self.writers == 0 {
            return Err(RunError::new("expected at least 1 for --sample and --writers"));
        }
        if self.seconds.is_nan() || self.seconds <= 0.0 {
            return Err(RunError::new("expected --seconds of more than 0"));
        }
        match &self.cpus {
            Some(cpus) => cpus.check(&self.roles()),
            None => Ok(()),
        }
    }
}

fn measure(args: &Args) -> Result<Measured> {
    let own = || PathBuf::from(format!("bench-log-{}", std::process::id()));
    let temporary = TemporaryHold::create(&args.hold.clone().unwrap_or_else(own), None, false)?;
    let options =
        LogOptions::new().rings(args.writers.saturating_add(1)).ring_bytes(args.ring_bytes);
    let log = temporary.hold().logs().open_or_create(LOG, options)?;
    let board = Board::create(1)?;
    let mut crew = Crew::new("log")?;
    crew.enlist(&args.cpus.clone().unwrap_or_default(), jobs(args, &temporary, &board))?;
    let start_ns = crew.begin()?;
    let writers = args.writers as usize;
    let wrote = (0..writers).map(|number| crew.report(number)).collect::<Result<Vec<Wrote>>>()?;
    board.put(collector::STOP, 1)?;
    let delivered: Delivered = crew.report(writers)?;
    let stat = log.stat()?;
    crew.dismiss()?;
    let measured = Measured { start_ns, wrote, delivered };
    measured.check(stat.dropped + stat.refused)?;
    Ok(measured)
}

fn jobs(args: &Args, temporary: &TemporaryHold, board: &Board) -> Vec<(String, Part)> {
    let hold = || temporary.path().to_owned();
    let writer = |number| {
        Part::Writer(writer::Job {
            hold: hold(),
            writer: number,
            line_bytes: args.line_bytes as usize,
            rate: args.rate,
            full: args.full,
            sample: args.sample,
            waiting: args.wait,
            measured_ns: (args.seconds * 1e9) as u64,
        })
    };
    let collector = Part::Collector(collector::Job {
        hold: hold(),
        board: board.path().to_owned(),
        file: args.file.clone(),
        writers: args.writers,
        line_bytes: args.line_bytes as usize,
    });
    args.roles().into_iter().zip((0..args.writers).map(writer).chain([collector])).collect()
}

impl Measured {
    /// Every accepted line must have been delivered, once; the log's count of dropped lines must be
    /// that of the writers.
    fn check(&self, dropped: u64) -> Result<()> {
        for (number, (wrote, delivered)) in (1..).zip(self.wrote.iter().zip(&self.delivered.each)) {
            if wrote.tally != *delivered {
                return Err(RunError::new(format!(
                    "writer {number}: {} lines were accepted and {} delivered, or not the \
                     same ones: this is a bug; please report it",
                    wrote.tally.lines, delivered.lines
                )));
            }
        }
        let known: u64 = self.wrote.iter().map(|wrote| wrote.refusals).sum();
        if known != dropped {
            return Err(RunError::new(format!(
                "the log has counted {dropped} dropped lines, its writers {known}: this is a \
                 bug; please report it"
            )));
        }
        Ok(())
    }
}
