//! `hold bench files`: the client of a file server. It requests files of a directory, over many
//! connections of few threads, and verifies every body by its hash; the server is one that runs
//! already, or `hold serve`, started for it.
//! - [`layout`], [`content`]: the ids of a directory, and the expected answers; [`make`]: a
//!   directory for tests
//! - [`ask`], [`zipf`]: the requests; [`load`], [`schedule`], [`pause`], [`timer`]: their times
//! - [`protocol`], [`http`], [`incoming`]: the protocols, and the check of answers
//! - [`target`], [`connection`], [`requestor`]: sockets, and the thread that has many of them
//! - [`server`], [`server_choices`], [`database`], [`cpu`]: the server, its choices, its cost
//! - [`matrix`]: every combination of choices; [`report`]: results, tables and curves
//!
//! Invariant: after one wrong body, one unknown id that is not refused, or one missing answer there
//! is no result.

mod ask;
mod connection;
mod content;
mod cpu;
mod database;
mod http;
mod incoming;
mod layout;
mod load;
mod make;
mod matrix;
mod pause;
mod protocol;
mod report;
mod requestor;
mod schedule;
mod server;
mod server_choices;
mod target;
mod timer;
mod zipf;

use super::plot::page;
use crate::workload::{Result, results::Results, say};
use ask::{Asking, Requests};
use commonhold_terminal::interrupt::Interrupt;
use commonhold_terminal::output::Output;
use commonhold_terminal::progress;
use commonhold_terminal::sizes;
use database::Database;
use load::{Load, Measured};
use server::Serving;
use server_choices::{Combination, DIMENSIONS, Dimension};
use std::path::{Path, PathBuf};

/// Shown after `hold bench files --help`.
pub const EXAMPLES: &str = "\
Examples:
  hold bench files --make 1000 --sizes 1K,16K,128K try  # a directory for tests
  hold bench files try                                 # start 'hold serve', and measure it
  hold bench files try --zipf 0.99 --unknown 5 --loop uring --cache hold
  hold bench files try --rate 20000 --plot files.html  # latency at a fixed rate
  hold bench files try --cpus 0 --server-cpus 1        # the server on a processor of its own
  hold bench files try --protocol simple --threads 2 --sleep 1ms --sleep-deviation 300us
  hold bench files try --address tcp:127.0.0.1:80 --server-pid 1234  # any HTTP server
  hold bench files try --matrix                        # all 216 combinations of choices
  hold bench files try --matrix loop,cache --rounds 5 --plot matrix.html

Latency is measured from the instant at which a request is due. Without --rate, a request is due
when it is sent; with --rate, a request that finds no free connection counts as late. The body of
every response is verified against a 64-bit hash of the file. The files are hashed beforehand, so
they must not change during the benchmark.";

/// Options of `hold bench files`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory that the server serves; every response must match the corresponding file
    #[arg(value_name = "DIR", required_unless_present = "worker")]
    directory: Option<PathBuf>,

    #[command(flatten)]
    serving: Serving,

    #[command(flatten)]
    asking: Asking,

    #[command(flatten)]
    load: Load,

    /// Measure every combination of these choices: loop, requests, eviction, cache, files [default:
    /// all]
    #[arg(long, value_name = "CHOICE,...", num_args = 0..=1, value_delimiter = ',', value_parser = server_choices::names(),
        default_missing_value = "loop,requests,eviction,cache,files",
        help_heading = "The measurement")]
    matrix: Option<Vec<String>>,

    /// Rounds of the matrix, each with every combination; results are medians
    #[arg(long, value_name = "N", default_value_t = 1, requires = "matrix",
        value_parser = clap::value_parser!(u64).range(1..), help_heading = "The measurement")]
    rounds: u64,

    /// Draw latency by percentile and over time, or the results of the matrix: FILE.svg or
    /// FILE.html
    #[arg(long, value_name = "FILE", value_parser = page::destination,
        help_heading = "The measurement")]
    plot: Option<PathBuf>,

    /// Create DIR with COUNT files in the chosen layout, and exit
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["matrix", "plot", "address"],
        value_parser = clap::value_parser!(u64).range(1..=100_000_000), help_heading = "A directory for tests")]
    make: Option<u64>,

    /// Sizes of these files, used in turn
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "1K,16K,128K",
        value_parser = sizes::bytes, help_heading = "A directory for tests")]
    sizes: Vec<u64>,

    /// Do not measure the machine's memory, for programs that start many short runs
    #[arg(long, hide = true)]
    memory_unmeasured: bool,

    /// Internal: the job of the process that becomes the server
    #[arg(long, value_name = "ORDER", hide = true)]
    worker: Option<String>,
}

/// The shared state of all measurements of a run.
struct Setup {
    directory: PathBuf,
    /// Of the same files, if a server needs it.
    database: Database,
    requests: Requests,
    interrupt: Interrupt,
}

/// Measures, makes a directory, or becomes the server.
pub fn run(args: &Args, json: bool) -> Result<()> {
    if let Some(order) = &args.worker {
        return server::become_server(order);
    }
    let directory = args.directory.as_deref().unwrap_or(Path::new("."));
    if let Some(count) = args.make {
        return make_directory(args, directory, count, json);
    }
    args.asking.validate()?;
    args.load.validate(&args.asking)?;
    args.load.span(args.matrix.is_some())?;
    let interrupt = Interrupt::watch()?;
    let bar = progress::of_things(&Output::new(None, false), "files read");
    let requests = args.asking.prepare(directory, &interrupt, &bar)?;
    let setup = Setup {
        directory: directory.to_owned(),
        database: Database::default(),
        requests,
        interrupt,
    };
    match args.matrix {
        Some(_) => matrix::run(args, &setup, json),
        None => run_once(args, &setup, json),
    }
}

fn run_once(args: &Args, setup: &Setup, json: bool) -> Result<()> {
    let measured = measure(args, setup, &args.serving.combination())?;
    let mut results = match args.memory_unmeasured {
        true => Results::here_in_short(),
        false => Results::here(),
    };
    report::add(&mut results, &args.serving.system(), &args.workload(), &measured);
    if let Some(path) = &args.plot {
        report::draw(args, &setup.requests, &measured, path, &results.place())?;
    }
    super::show(&results, json, &|_| report::lines(args, &setup.requests, &measured))
}

/// One server, from its beginning to its end.
fn measure(args: &Args, setup: &Setup, combination: &Combination) -> Result<Measured> {
    let Setup { directory, database, requests, interrupt } = setup;
    let serving = &args.serving;
    let mut server = serving.open(directory, database, &args.asking, combination, interrupt)?;
    let plan = args.load.plan(server.address.clone(), &args.asking, args.matrix.is_some())?;
    let measured = plan.run(requests, server.family.as_ref(), interrupt);
    let measured = measured.map_err(|error| server.blame(error))?;
    server.end(interrupt)?;
    Ok(measured)
}

fn make_directory(args: &Args, directory: &Path, count: u64, json: bool) -> Result<()> {
    let bar = progress::of_things(&Output::new(None, false), "files created");
    let Asking { layout, seed, .. } = args.asking;
    let made = make::make(directory, layout, count, &args.sizes, seed, &bar)?;
    if json {
        let shown = directory.display().to_string();
        let answer =
            serde_json::json!({"directory": shown, "files": made.files, "bytes": made.bytes});
        return say(&format!("{answer:#}"));
    }
    let files = sizes::things(made.files, "file", "files");
    say(&format!("{files}, {}, in {}", sizes::shown(made.bytes), directory.display()))
}

impl Args {
    /// The choices that the matrix varies.
    fn varied(&self) -> Vec<&'static Dimension> {
        let wanted = self.matrix.as_deref().unwrap_or_default();
        DIMENSIONS.iter().filter(|d| wanted.iter().any(|name| name == d.name)).collect()
    }

    /// Its name in results.
    fn workload(&self) -> String {
        format!("files {}", self.asking.protocol.name())
    }
}
