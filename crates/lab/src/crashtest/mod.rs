//! `hold crashtest`: tries to break a hold by killing and stopping its users, and reports the
//! result.
//!
//! Writers, readers and a caretaker work on one hold while the supervisor kills and stops them at
//! random instants. The `plan::Ledger` has every acknowledgement, and no kill can revoke it;
//! everything that any process reads is compared with it.
//!
//! - `plan`: maps, keys, their owners, the ledger; `value`: self-verifying values
//! - `messages`: a queue, a channel and a log besides the maps
//! - `writer` with `lane` and `shared`, `reader`, `caretaker`: the processes
//! - `faults`: calls that fail, and the reaction of a worker
//! - `supervisor` with `crew`: kills and stops; `compare`, `audit`: the comparisons
//! - `steps` with `tasks`: the same at every named step of the library (cargo feature `steps`)
//! - `report`: counts and findings
//!
//! Invariant: the first wrong answer ends the test with exit code 1 and a text that names it.

mod audit;
mod caretaker;
mod compare;
mod crew;
mod faults;
mod lane;
mod messages;
mod plan;
mod reader;
mod report;
mod shared;
#[cfg(feature = "steps")]
mod steps;
mod supervisor;
#[cfg(feature = "steps")]
mod tasks;
mod value;
mod writer;

use crate::workload::{Result, RunError, say, temporary::TemporaryHold, worker};
use commonhold_terminal::failure::{Failure, NO};
use commonhold_terminal::{interrupt, interrupt::Interrupt};
use crew::Paths;
use messages::Messages;
use plan::{LANES_EACH, Ledger, Maps, Order, Role};
use report::Report;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use supervisor::{Settings, Supervisor};
use tempfile::TempDir;

/// Options of `hold crashtest`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Duration of the test, in seconds; processes are killed and suspended at random instants
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    seconds: f64,

    /// Number of writing processes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=30))]
    writers: u32,

    /// Number of reading processes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=30))]
    readers: u32,

    /// Name or path of the hold to create; it must not exist yet, and is deleted afterwards; give a
    /// path to test a hold in a file [default: a unique name, in memory]
    #[arg(long, value_name = "HOLD")]
    hold: Option<PathBuf>,

    /// Keep the hold if an error is found
    #[arg(long)]
    keep: bool,

    /// The seed for all random choices [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Also inject faults: processes run out of file descriptors, the hold runs out of room, and
    /// processes are suspended for longer than the lock timeout of the others. In a build with the
    /// cargo feature 'steps', individual system calls are also made to fail
    #[arg(long)]
    faults: bool,

    /// Do not kill processes at the library's named steps (only builds with the cargo feature
    /// 'steps' have them)
    #[arg(long)]
    no_steps: bool,

    /// The order of a worker process, which `hold crashtest` starts by itself
    #[arg(long, value_name = "ORDER", hide = true)]
    worker: Option<String>,
}

/// Runs the test, or one of its processes.
pub fn run(args: &Args, json: bool) -> commonhold_terminal::failure::Result<ExitCode> {
    if let Some(order) = &args.worker {
        return work(order).map_err(RunError::into_failure);
    }
    if !(0.0..=1e7).contains(&args.seconds) {
        return Err(Failure::usage("expected --seconds between 0 and 10000000"));
    }
    test(args, json).map_err(RunError::into_failure)
}

/// A worker's life; it reports an error on standard output, for the supervisor.
fn work(order: &str) -> Result<ExitCode> {
    #[cfg(feature = "steps")]
    if let Some(case) = steps::Case::parse(order) {
        return steps::work(&case);
    }
    let order: Order = serde_json::from_str(order)?;
    worker::die_with(order.starter)?;
    faults::harass(&order);
    let done = match order.role {
        Role::Writer { first_lane } => writer::run(&order, first_lane),
        Role::Reader { read_only } => reader::run(&order, read_only),
        Role::Caretaker => caretaker::run(&order),
    };
    match done {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            say(&error.to_string())?;
            Ok(NO.into())
        }
    }
}

fn test(args: &Args, json: bool) -> Result<ExitCode> {
    let interrupt = Interrupt::watch()?;
    let begin = Instant::now();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 40));
    let mut report = Report { seed, ..Report::default() };
    let mut done =
        if args.no_steps { Ok(()) } else { at_steps(args, &mut report, &interrupt, json) };
    if done.is_ok() && args.seconds > 0.0 {
        done = at_chance(args, json, &interrupt, &mut report);
    }
    report.seconds = begin.elapsed().as_secs_f64();
    report.interrupted = interrupt.came();
    match done {
        Err(RunError::ReaderGone) => return Err(RunError::ReaderGone),
        // One of its processes may have received the signal before this one.
        Err(RunError::Interrupted) if interrupt.comes_within(interrupt::MOMENT) => {
            (report.passed, report.interrupted) = (true, true);
        }
        Err(RunError::Interrupted) => {
            report
                .problems
                .push("a process was ended by a signal that was not meant for the run".into());
        }
        Err(error @ (RunError::Text(_) | RunError::Hold(_))) => {
            report.problems.push(error.to_string());
        }
        Ok(()) => report.passed = true,
    }
    if json {
        say(&serde_json::to_string_pretty(&report)?)?;
    } else {
        report.lines().iter().try_for_each(|line| say(line))?;
    }
    Ok(match (report.passed, report.interrupted) {
        (false, _) => NO.into(),
        (true, true) => interrupt::EXIT_CODE.into(),
        (true, false) => ExitCode::SUCCESS,
    })
}

/// Kills and stops at named steps, in a build that has them.
#[cfg(feature = "steps")]
fn at_steps(args: &Args, report: &mut Report, interrupt: &Interrupt, json: bool) -> Result<()> {
    steps::all(report, interrupt, args.faults, json)
}

/// This build has no named steps, and the report says so.
#[cfg(not(feature = "steps"))]
fn at_steps(_: &Args, _: &mut Report, _: &Interrupt, _: bool) -> Result<()> {
    Ok(())
}

/// Kills and stops at random instants.
fn at_chance(args: &Args, json: bool, interrupt: &Interrupt, report: &mut Report) -> Result<()> {
    let name = args.hold.clone().unwrap_or_else(|| own_name("crashtest"));
    let max_bytes = args.faults.then_some(faults::HOLD_BYTES);
    let mut temporary = TemporaryHold::create(&name, max_bytes, args.keep)?;
    Maps::create(temporary.hold())?;
    Messages::open(temporary.hold())?;
    let ledger = Ledger::create(args.writers * LANES_EACH)?;
    let folder = folder_next_to(temporary.path())?;
    let paths = Paths {
        hold: temporary.path(),
        ledger: &ledger,
        folder: folder.path(),
        faults: args.faults,
    };
    let seed = report.seed;
    let settings = Settings { seconds: args.seconds, writers: args.writers, readers: args.readers };
    let hold = temporary.hold().clone();
    let mut supervisor = Supervisor::new(&hold, paths, report, interrupt, seed);
    let mut shown = Instant::now();
    let done = supervisor.run(&settings, &mut |report| {
        if json || shown.elapsed().as_secs() < 10 {
            return Ok(());
        }
        shown = Instant::now();
        let Report { rounds, kills, suspensions, .. } = report;
        say(&format!("  {rounds} rounds, {kills} killed, {suspensions} suspended; no error so far"))
    });
    if args.keep && done.is_ok() {
        temporary.discard();
    }
    done
}

/// A name of this process's own for a hold in memory.
fn own_name(what: &str) -> PathBuf {
    PathBuf::from(format!("{what}-{}", std::process::id()))
}

/// A folder for backups in the folder that `path` is in, gone when the run is over.
fn folder_next_to(path: &Path) -> Result<TempDir> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    Ok(tempfile::Builder::new().prefix("crashtest-").tempdir_in(parent)?)
}
