//! `hold bench map`: the workload of SharedHashFile's own benchmark, and a little more.
//!
//! Each process has its own ascending range of keys. All begin a phase at the same instant; the
//! rate is the operations of all by the time from that instant to the end of the last process.
//!
//! | phase | what each process does |
//! |---|---|
//! | `put` | sets each key of its range, ascending, value = key |
//! | `upd` | sets each key again, to another value |
//! | `mix` | gets 98 of 100 keys, deletes and sets 2 of 100 (counted as one operation) |
//! | `get` | gets each key |
//! | `get_many` | gets each key, many at a time |
//! | `put_latency` | `put` into a fresh hold, every single put timed; after `put`, in a pass of its own, so that looking at the clock costs the rates nothing |
//!
//! - [`order`]: the order of the keys; [`work`]: a process; [`run`] drives them

mod order;
mod report;
mod work;

use super::show;
use crate::workload::{
    Result, RunError, clock,
    form::Padded,
    pairs::Phase,
    results::{COMMONHOLD, Results, median},
    temporary::TemporaryHold,
    worker::Worker,
};
use commonhold::map::MapOptions;
use order::Order;
use std::path::PathBuf;
use work::{Done, Job};

/// Shown after `hold bench map --help`.
pub const EXAMPLES: &str = "\
Examples:
  hold bench map                         # 2 processes, 10 million 4-byte keys and values
  hold bench map --fixed --order random  # fixed-length pairs, read in random order
  hold bench map --keys 1000000 --phases put,get --format json";

/// All processes begin this long after the command to begin.
const LEAD_NS: u64 = 5_000_000;

/// Options of `hold bench map`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Number of processes
    #[arg(long, value_name = "N", default_value_t = 2)]
    processes: u64,

    /// Total number of keys across all processes
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    keys: u64,

    /// Length of the keys in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4)]
    key_size: usize,

    /// Length of the values in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4)]
    value_size: usize,

    /// Use a map with fixed-length pairs
    #[arg(long)]
    fixed: bool,

    /// Order of the keys in all phases except put
    #[arg(long, value_enum, default_value_t = Order::Own)]
    order: Order,

    /// Phases to run, in the given order, except that put_latency runs last. Listing put also runs
    /// put_latency
    #[arg(
        long,
        value_name = "PHASES",
        value_enum,
        value_delimiter = ',',
        default_value = "put,upd,mix,get,get_many"
    )]
    phases: Vec<Phase>,

    /// Number of keys per get_many
    #[arg(long, value_name = "N", default_value_t = 64)]
    batch: usize,

    /// Number of runs, each with a fresh hold; results are medians
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,

    /// Do not run put_latency unless --phases lists it
    #[arg(long)]
    no_put_latency: bool,

    /// Name or path of the hold to create; it must not exist yet, and is deleted afterwards
    /// [default: a unique name, in memory]
    #[arg(long, value_name = "HOLD")]
    hold: Option<PathBuf>,

    /// The job of a worker process, which `hold bench` starts by itself
    #[arg(long, value_name = "JOB", hide = true)]
    worker: Option<String>,
}

/// Measures the workload, or runs one of the processes.
pub fn run(args: &Args, json: bool) -> Result<()> {
    if let Some(job) = &args.worker {
        return work::run(&serde_json::from_str(job)?);
    }
    args.validate()?;
    let mut taken = Vec::new();
    for _ in 0..args.runs {
        taken.extend(measure(args, &args.main_phases())?);
        if args.wants_latency() {
            taken.extend(measure(args, &[Phase::PutLatency])?);
        }
    }
    let results = collect(args, &taken);
    show(&results, json, &|results| report::lines(args, results))
}

impl Args {
    fn form(&self) -> Padded {
        Padded { key_size: self.key_size, value_size: self.value_size }
    }

    fn main_phases(&self) -> Vec<Phase> {
        self.phases.iter().copied().filter(|p| *p != Phase::PutLatency).collect()
    }

    fn wants_latency(&self) -> bool {
        self.phases.contains(&Phase::PutLatency)
            || self.phases.contains(&Phase::Put) && !self.no_put_latency
    }

    /// The name of the workload in results: `map general own`.
    fn workload(&self) -> String {
        let mode = if self.fixed { "fixed" } else { "general" };
        format!("map {mode} {}", self.order.name())
    }

    fn validate(&self) -> Result<()> {
        if [self.processes, self.keys, self.batch as u64, self.runs as u64].contains(&0) {
            return Err(RunError::new(
                "expected at least 1 for --processes, --keys, --batch and --runs",
            ));
        }
        if self.keys < self.processes {
            return Err(RunError::new("expected at least as many --keys as --processes"));
        }
        if !self.form().tells_apart(self.keys) {
            let (keys, size) = (self.keys, self.key_size);
            return Err(RunError::new(format!(
                "{keys} keys cannot differ in {size} bytes; raise --key-size or lower --keys"
            )));
        }
        if self.phases.is_empty() {
            return Err(RunError::new("expected at least one phase in --phases"));
        }
        Ok(())
    }
}

/// One phase of one run, all processes together.
struct Taken {
    phase: Phase,
    /// Operations by the time from the common start to the last end.
    per_second: f64,
    /// The same for each process by its own time.
    each: Vec<f64>,
    bytes_per_pair: Option<f64>,
    latencies: crate::workload::latency::Latencies,
}

/// Runs `phases` on a fresh hold.
fn measure(args: &Args, phases: &[Phase]) -> Result<Vec<Taken>> {
    if phases.is_empty() {
        return Ok(Vec::new());
    }
    let own = || PathBuf::from(format!("bench-map-{}", std::process::id()));
    let temporary = TemporaryHold::create(&args.hold.clone().unwrap_or_else(own), None, false)?;
    let sizes = (args.key_size as u32, args.value_size as u32);
    let options =
        if args.fixed { MapOptions::fixed(sizes.0, sizes.1) } else { MapOptions::general() };
    temporary.hold().maps().open_or_create(work::MAP, options)?;
    let mut workers = start(args, &temporary)?;
    let mut taken = Vec::new();
    if !matches!(phases[0], Phase::Put | Phase::PutLatency) {
        // The keys to read must exist first; this put does not count.
        together(&mut workers, Phase::Put)?;
    }
    for phase in phases {
        let mut phase = together(&mut workers, *phase)?;
        if phase.phase == Phase::Put {
            let bytes = temporary.hold().stat()?.memory_bytes;
            phase.bytes_per_pair = Some(bytes as f64 / args.keys as f64);
        }
        taken.push(phase);
    }
    for worker in &mut workers {
        worker.wait()?;
    }
    Ok(taken)
}

fn start(args: &Args, temporary: &TemporaryHold) -> Result<Vec<Worker>> {
    let share = |process: u64| process * args.keys / args.processes;
    let mut workers = Vec::new();
    for process in 0..args.processes {
        let job = Job {
            hold: temporary.path().to_owned(),
            first: share(process),
            end: share(process + 1),
            form: args.form(),
            order: args.order,
            batch: args.batch,
            starter: std::process::id(),
        };
        let job = serde_json::to_string(&job)?;
        let words = ["bench", "map", "--worker", &job].map(str::to_owned);
        workers.push(Worker::start(&format!("process {}", process + 1), &words, &[])?);
    }
    for worker in &mut workers {
        worker.receive()?;
    }
    Ok(workers)
}

/// Lets all workers do `phase` from one instant on.
fn together(workers: &mut [Worker], phase: Phase) -> Result<Taken> {
    let start_ns = clock::now_ns() + LEAD_NS;
    for worker in workers.iter_mut() {
        worker.send(&format!("{} {start_ns}", phase.name()))?;
    }
    let mut taken = Taken {
        phase,
        per_second: 0.0,
        each: Vec::new(),
        bytes_per_pair: None,
        latencies: crate::workload::latency::Latencies::new(),
    };
    let (mut ops, mut end_ns) = (0, start_ns + 1);
    for worker in workers {
        let done: Done = serde_json::from_str(&worker.receive()?)?;
        taken.each.push(done.ops as f64 / ((done.end_ns - start_ns) as f64 / 1e9));
        taken.latencies.add(&done.latencies);
        ops += done.ops;
        end_ns = end_ns.max(done.end_ns);
    }
    taken.per_second = ops as f64 / ((end_ns - start_ns) as f64 / 1e9);
    Ok(taken)
}

/// Medians over the runs, phase by phase.
fn collect(args: &Args, taken: &[Taken]) -> Results {
    let mut results = Results::here();
    let mut phases = args.main_phases();
    phases.dedup();
    for phase in phases.into_iter().chain([Phase::PutLatency]) {
        let runs: Vec<&Taken> = taken.iter().filter(|t| t.phase == phase).collect();
        if runs.is_empty() {
            continue;
        }
        let mut middle = |metric: &str, unit: &str, of: &dyn Fn(&Taken) -> f64| {
            let workload = format!("{} {}", args.workload(), phase.name());
            let mut values: Vec<f64> = runs.iter().map(|t| of(t)).collect();
            results.add(COMMONHOLD, &workload, metric, median(&mut values), unit);
        };
        middle("ops_per_s", "ops/s", &|t| t.per_second);
        for process in 0..args.processes as usize {
            middle(&format!("ops_per_s_process_{}", process + 1), "ops/s", &|t| t.each[process]);
        }
        if phase == Phase::Put {
            middle("bytes_per_pair", "bytes", &|t| t.bytes_per_pair.unwrap_or(f64::NAN));
        }
        if phase == Phase::PutLatency {
            for (metric, quantile) in report::QUANTILES {
                middle(metric, "ns", &|t| t.latencies.at(quantile) as f64);
            }
            middle("clock_ns", "ns", &|_| clock::cost_ns());
        }
    }
    results
}
