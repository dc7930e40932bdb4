//! `hold bench queue`: two processes move elements between two queues, as SharedHashFile's own
//! benchmark does.
//!
//! One pulls from `b2a` and pushes to `a2b`, the other the other way round; all elements start in
//! `b2a`. With `--alone` one process moves them back and forth. An element that was pulled and
//! pushed counts once. At the end every element must exist exactly once and, if elements were
//! touched, have as many touches as moves.
//!
//! - [`mover`]: a process; [`stock`]: the elements before and after

mod mover;
mod stock;

use super::show;
use super::{crew::Crew, goals, pace::Waiting, table};
use crate::workload::{
    Result, RunError,
    pin::Cpus,
    results::{COMMONHOLD, Results, median},
    temporary::TemporaryHold,
};
use commonhold::queue::QueueOptions;
use commonhold_terminal::sizes;
use mover::{Job, Moved};
use std::path::PathBuf;

/// The queue that both processes share, and the queues in it.
const QUEUE: &str = "bench";
const B2A: &str = "b2a";
const A2B: &str = "a2b";

/// Shown after `hold bench queue --help`.
pub const EXAMPLES: &str = "\
Examples:
  hold bench queue --cpus 0,1                  # batches of 1,000, of 64, and one by one
  hold bench queue --alone --batch 1000        # the same in one process
  hold bench queue --touch --element-bytes 4K  # read and write each element's first bytes
  hold bench queue --batch 1 --seconds 10 --format json";

/// Options of `hold bench queue`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Elements per move, with one run for each number; 1 moves single elements instead of batches
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1000,64,1")]
    batch: Vec<usize>,

    /// Read and write the first 8 bytes of each moved element
    #[arg(long)]
    touch: bool,

    /// Number of elements
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    elements: u32,

    /// Bytes per element, at least 8
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = sizes::bytes)]
    element_bytes: u64,

    /// Length of each run, in seconds
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,

    /// Use one process, which moves elements back and forth
    #[arg(long)]
    alone: bool,

    /// Number of runs for each batch size; results are medians
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,

    /// Processors to run on, one per process [default: any]
    #[arg(long, value_name = "LIST", value_parser = Cpus::parse)]
    cpus: Option<Cpus>,

    /// How a process waits when its queue is empty
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

/// Measures, or runs one of the processes.
pub fn run(args: &Args, json: bool) -> Result<()> {
    if let Some(order) = &args.worker {
        return mover::run(order);
    }
    args.validate()?;
    let mut runs = vec![Vec::new(); args.batch.len()];
    for _ in 0..args.runs {
        for (batch, runs) in args.batch.iter().zip(&mut runs) {
            runs.push(measure(args, *batch)?);
        }
    }
    let results = collect(args, &runs);
    show(&results, json, &|results| lines(args, results))
}

impl Args {
    fn processes(&self) -> usize {
        if self.alone { 1 } else { 2 }
    }

    fn workload(&self, batch: usize) -> String {
        let touched = if self.touch { " touched" } else { "" };
        let alone = if self.alone { " alone" } else { "" };
        format!("queue batch {batch}{touched}{alone}")
    }

    fn roles(&self) -> Vec<String> {
        (1..=self.processes()).map(|n| format!("process {n}")).collect()
    }

    fn validate(&self) -> Result<()> {
        if self.batch.is_empty() || self.batch.contains(&0) || self.runs == 0 || self.elements == 0
        {
            return Err(RunError::new("expected at least 1 for --batch, --runs and --elements"));
        }
        if !(8..=u64::from(u32::MAX)).contains(&self.element_bytes) {
            return Err(RunError::new("expected --element-bytes of at least 8 and less than 4G"));
        }
        if self.seconds.is_nan() || self.seconds <= 0.0 {
            return Err(RunError::new("expected --seconds of more than 0"));
        }
        let most = *self.batch.iter().max().unwrap_or(&1);
        if most > self.elements as usize {
            return Err(RunError::new(format!(
                "expected a --batch of at most --elements, got {most}"
            )));
        }
        match &self.cpus {
            Some(cpus) => cpus.check(&self.roles()),
            None => Ok(()),
        }
    }
}

/// Elements per second of each process, and all that were moved.
#[derive(Clone)]
struct Measured {
    each: Vec<f64>,
    moved: u64,
}

fn measure(args: &Args, batch: usize) -> Result<Measured> {
    let own = || PathBuf::from(format!("bench-queue-{}", std::process::id()));
    let temporary = TemporaryHold::create(&args.hold.clone().unwrap_or_else(own), None, false)?;
    let options = QueueOptions::new(args.elements, args.element_bytes as u32).queues([B2A, A2B]);
    let queue = temporary.hold().queues().open_or_create(QUEUE, options)?;
    stock::prepare(&queue)?;
    let mut crew = Crew::new("queue")?;
    let jobs = args.roles().into_iter().enumerate().map(|(number, name)| {
        let job = Job {
            hold: temporary.path().to_owned(),
            turns_round: number == 1,
            alone: args.alone,
            batch,
            touch: args.touch,
            waiting: args.wait,
            measured_ns: (args.seconds * 1e9) as u64,
        };
        (name, job)
    });
    crew.enlist(&args.cpus.clone().unwrap_or_default(), jobs.collect())?;
    let start_ns = crew.begin()?;
    let mut measured = Measured { each: Vec::new(), moved: 0 };
    for number in 0..args.processes() {
        let moved: Moved = crew.report(number)?;
        let seconds = moved.end_ns.saturating_sub(start_ns).max(1) as f64 / 1e9;
        measured.each.push(moved.elements as f64 / seconds);
        measured.moved += moved.elements;
    }
    crew.dismiss()?;
    stock::audit(&queue, measured.moved, args.touch)?;
    Ok(measured)
}

/// Medians over the runs, batch size by batch size.
fn collect(args: &Args, runs: &[Vec<Measured>]) -> Results {
    let mut results = Results::here();
    for (batch, runs) in args.batch.iter().zip(runs) {
        let workload = args.workload(*batch);
        let mut middle = |metric: &str, unit: &str, of: &dyn Fn(&Measured) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(of).collect();
            results.add(COMMONHOLD, &workload, metric, median(&mut values), unit);
        };
        let processes = args.processes();
        middle("elements_per_s", "elements/s", &|m| m.each.iter().sum::<f64>() / processes as f64);
        for process in 0..processes {
            let metric = format!("elements_per_s_process_{}", process + 1);
            middle(&metric, "elements/s", &|m| m.each[process]);
        }
        middle("elements_moved", "elements", &|m| m.moved as f64);
    }
    results
}

/// The result for people.
fn lines(args: &Args, results: &Results) -> Vec<String> {
    let mut rows: Vec<[String; 6]> = Vec::new();
    for batch in &args.batch {
        let value = |metric: &str| {
            results.value(COMMONHOLD, &args.workload(*batch), metric).unwrap_or(f64::NAN)
        };
        let each = (1..=args.processes())
            .map(|p| format!("{:.2}", value(&format!("elements_per_s_process_{p}")) / 1e6));
        let rate = value("elements_per_s");
        // SharedHashFile's results are for batches of 1,000, untouched; so the name of no other
        // workload is found.
        let goal = goals::of(&args.workload(*batch), "elements_per_s");
        let [theirs, ratio, wanted] = goals::compare(goal, rate, table::rate);
        let each = each.collect::<Vec<_>>().join(" ");
        rows.push([format!("{batch}"), table::rate(rate), each, theirs, ratio, wanted]);
    }
    let title = format!(
        "{}, {} of {} bytes, {}, wait: {}\n",
        if args.alone { "One process alone" } else { "Two processes" },
        sizes::things(args.elements.into(), "element", "elements"),
        args.element_bytes,
        if args.touch { "first 8 bytes read and written" } else { "bytes untouched" },
        args.wait.name(),
    );
    let heading = ["batch", "elements in each", "each (M/s)", "SharedHashFile*", "ratio*", "goal"];
    let mut lines = vec![title];
    lines.extend(table::lines(heading, &rows));
    lines.push("\nAt the end all elements were present, each once.".to_owned());
    if rows.iter().any(|row| row[3] != "-") {
        lines.push(format!("\n{}", goals::NOTE));
    }
    lines
}
