//! `hold demo`: several processes share real data; one is suspended and one is killed in the middle;
//! nothing is lost.
//!
//! - `names`: the data set; `entry`: what is kept under each key
//! - `work`, `reader`, `writer`: the processes
//! - `processes`, `schedule`: starting them, and the times at which they are suspended and killed
//! - `screen`, `summary`: the output
//! - `audit`: every record compared with the acknowledged edits
//!
//! Invariant: the exit code is nonzero after any error, and nothing is left behind except with
//! `--keep`.

mod audit;
mod entry;
mod names;
mod processes;
mod reader;
mod schedule;
mod screen;
mod summary;
mod work;
mod writer;

use crate::workload::{Result, RunError, board::Board, say, temporary::TemporaryHold};
use commonhold::map::MapOptions;
use commonhold_terminal::failure::{Failure, NO, complain};
use commonhold_terminal::interrupt::{self, Interrupt};
use indicatif::HumanCount;
use names::Character;
use processes::{Processes, READERS, WRITERS};
use screen::Screen;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use summary::Summary;
use work::{ACKNOWLEDGED, COUNTS, EDITS, NAMES, Order, Role};

/// Options of `hold demo`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Duration of the demo, in seconds
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    seconds: f64,

    /// Keep the hold for inspection afterwards
    #[arg(long)]
    keep: bool,

    /// The order of a worker process, which `hold demo` starts by itself
    #[arg(long, value_name = "ORDER", hide = true)]
    worker: Option<String>,
}

/// Runs the show, or one of its processes.
pub fn run(args: &Args, json: bool) -> commonhold_terminal::failure::Result<ExitCode> {
    let done = match &args.worker {
        Some(order) => work(order).map(|()| ExitCode::SUCCESS),
        None if !(0.1..=86_400.0).contains(&args.seconds) => {
            return Err(Failure::usage("expected --seconds between 0.1 and 86400"));
        }
        None => watched(args, json),
    };
    done.map_err(RunError::into_failure)
}

fn work(order: &str) -> Result<()> {
    let order: Order = serde_json::from_str(order)?;
    match order.role {
        Role::Reader => reader::run(&order),
        Role::Writer { share } => writer::run(&order, share),
    }
}

fn watched(args: &Args, json: bool) -> Result<ExitCode> {
    let interrupt = Interrupt::watch()?;
    match show(args, json, &interrupt) {
        Err(error) if interrupt.came() => {
            complain(&error.to_string());
            Ok(ExitCode::from(interrupt::EXIT_CODE))
        }
        result => result,
    }
}

fn show(args: &Args, json: bool, interrupt: &Interrupt) -> Result<ExitCode> {
    let characters = names::all()?;
    let board = Board::create(ACKNOWLEDGED + characters.len() as u64)?;
    let name = format!("demo-{}", std::process::id());
    let temporary = TemporaryHold::create(&PathBuf::from(&name), None, args.keep)?;
    let begin = Instant::now();
    load(&temporary, &characters)?;
    let load_seconds = begin.elapsed().as_secs_f64();
    let memory_bytes = temporary.hold().stat()?.memory_bytes;

    let mut screen = Screen::new(json, &title(characters.len()))?;
    let mut processes = Processes::start(temporary.path(), &board)?;
    let outcome = schedule::perform(&mut processes, &board, &mut screen, interrupt, args.seconds)?;
    let audit = audit::audit(temporary.hold(), &board, &characters)?;
    let kept = args.keep.then_some(name);
    let summary =
        Summary { processes: &processes, outcome, audit: &audit, memory_bytes, load_seconds, kept };
    if json {
        say(&format!("{:#}", summary.json()))?;
    } else {
        summary.lines().iter().try_for_each(|line| say(line))?;
    }
    Ok(if summary.passed() { ExitCode::SUCCESS } else { NO.into() })
}

fn title(characters: usize) -> String {
    format!(
        "{} names of Unicode characters in one hold, {READERS} readers and {WRITERS} writers",
        HumanCount(characters as u64)
    )
}

/// Loads the data set as the writers will find it: every character with edit 0.
fn load(temporary: &TemporaryHold, characters: &[Character]) -> Result<()> {
    let map = temporary.hold().maps().open_or_create(NAMES, MapOptions::general())?;
    let unedited = entry::Edit { number: 0, writer: 0 };
    let pair = |c: &Character| {
        let mut value = Vec::new();
        entry::write(&mut value, *c, unedited);
        (c.code_point, value)
    };
    for batch in characters.chunks(1000) {
        map.set_many(&batch.iter().map(pair).collect::<Vec<_>>())?;
    }
    let counts = temporary.hold().maps().open_or_create(COUNTS, MapOptions::general())?;
    counts.increment(EDITS, 0)?;
    Ok(())
}
