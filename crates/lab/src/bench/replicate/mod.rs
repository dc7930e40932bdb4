//! `hold bench replicate`: one writer sets keys of a map, an origin sends the changes to many
//! replicas; the workload of libworld's own benchmark.
//!
//! Writer and origin are in one process, the replicas in another, where one thread reads all of
//! them, or with `--apply` each has a thread and a hold of its own. The writer waits while the
//! slowest replica is more than `--max-ahead` changes behind, as libworld's does (its *watermark*).
//! In the end every replica must have received the whole stream.
//!
//! - [`writer`]: sets keys; [`readers`]: the process of the replicas

mod readers;
mod writer;

use super::{crew::Crew, goals, show, table};
use crate::workload::{
    Result, RunError,
    latency::{Latencies, show as shown_time},
    pin::Cpus,
    results::{COMMONHOLD, Results, median},
    temporary::TemporaryHold,
};
use clap::ValueEnum;
use commonhold::map::MapOptions;
use commonhold_io::sockets::LoopKind;
use commonhold_replicate::{Address, Origin, OriginOptions, Transmission};
use commonhold_terminal::sizes;
use readers::{Job, Read};
use std::path::PathBuf;
use std::time::Duration;
use writer::Wrote;

const MAP: &str = "bench";

/// Shown after `hold bench replicate --help`.
pub const EXAMPLES: &str = "\
Examples:
  hold bench replicate                                   # 0, 16 and 1,024 replicas that only read
  hold bench replicate --replicas 16 --max-ahead 65536   # the writer may be further ahead
  hold bench replicate --replicas 16 --loop epoll,pool,uring
  hold bench replicate --replicas 4 --apply --rate 1000  # the age of applied changes

This benchmark is modelled on the one in libworld, a predecessor of Commonhold. The libworld
results in the report come from a different machine.";

/// Options of `hold bench replicate`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Number of replicas; one run for each number
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "0,16,1024")]
    replicas: Vec<usize>,

    /// Number of threads that the origin uses to send
    #[arg(long, value_name = "N", default_value_t = 1)]
    io_threads: usize,

    /// How these threads wait for sockets: epoll, pool, uring; one run for each
    #[arg(long = "loop", value_name = "LOOP,...", value_delimiter = ',', default_value = "epoll")]
    kinds: Vec<LoopKind>,

    /// Number of different keys
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    cardinality: u32,

    /// Bytes per key, at least 8
    #[arg(long, value_name = "SIZE", default_value = "16", value_parser = sizes::bytes)]
    key_size: u64,

    /// Bytes per value, at least 8
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = sizes::bytes)]
    data_size: u64,

    /// Number of changes by which the writer may be ahead of the slowest replica
    #[arg(long, value_name = "N", default_value_t = 1024)]
    max_ahead: u64,

    /// Length of each run, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,

    /// How replicas connect
    #[arg(long, value_enum, default_value_t = Transport::Unix)]
    transport: Transport,

    /// Have each replica apply changes to its own map
    #[arg(long)]
    apply: bool,

    /// Changes per second (the age of each change is measured); 0 means as many as possible
    #[arg(long, value_name = "N", default_value_t = 0)]
    rate: u64,

    /// Size of the stream
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = sizes::bytes)]
    stream_size: u64,

    /// Number of runs for each number of replicas and each loop; results are medians
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,

    /// Processors for the process that runs the replicas [default: any]
    #[arg(long, value_name = "LIST", value_parser = Cpus::parse)]
    cpus: Option<Cpus>,

    /// The job of a worker process, which `hold bench` starts by itself
    #[arg(long, value_name = "JOB", hide = true)]
    worker: Option<String>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    /// A unix socket
    Unix,
    /// TCP over the loopback interface
    Tcp,
}

/// Measures, or runs the replicas.
pub fn run(args: &Args, json: bool) -> Result<()> {
    if let Some(order) = &args.worker {
        return readers::run(order);
    }
    args.validate()?;
    let mut cases: Vec<Case> = Vec::new();
    for replicas in &args.replicas {
        let kinds = if *replicas == 0 { &args.kinds[..1] } else { &args.kinds[..] };
        cases.extend(kinds.iter().map(|kind| Case { replicas: *replicas, kind: *kind }));
    }
    let mut runs = vec![Vec::new(); cases.len()];
    for _ in 0..args.runs {
        for (case, runs) in cases.iter().zip(&mut runs) {
            runs.push(measure(args, *case)?);
        }
    }
    let results = collect(args, &cases, &runs);
    show(&results, json, &|results| lines(args, &cases, &runs, results))
}

/// One measurement.
#[derive(Clone, Copy)]
struct Case {
    replicas: usize,
    kind: LoopKind,
}

impl Case {
    fn workload(self, args: &Args) -> String {
        let apply = if args.apply { " apply" } else { "" };
        let rate = if args.rate > 0 { format!(" at {}/s", args.rate) } else { String::new() };
        format!("replicate {} {}{apply}{rate}", self.replicas, self.kind)
    }
}

impl Args {
    fn validate(&self) -> Result<()> {
        if self.replicas.is_empty() || self.kinds.is_empty() || self.runs == 0 {
            return Err(RunError::new("expected at least one of --replicas, --loop and --runs"));
        }
        if !(8..=1 << 20).contains(&self.key_size) || !(8..=1 << 20).contains(&self.data_size) {
            return Err(RunError::new("expected 8 to 1M for --key-size and --data-size"));
        }
        if self.cardinality == 0 || self.max_ahead == 0 {
            return Err(RunError::new("expected at least 1 for --cardinality and --max-ahead"));
        }
        if self.max_ahead.saturating_mul(self.frame_bytes()) > self.stream_size / 2 {
            return Err(RunError::new(format!(
                "expected a --max-ahead of at most half of the stream, got {}; raise --stream-size",
                self.max_ahead
            )));
        }
        if self.seconds.is_nan() || self.seconds <= 0.0 {
            return Err(RunError::new("expected --seconds of more than 0"));
        }
        Ok(())
    }

    /// Bytes of one change on the wire.
    fn frame_bytes(&self) -> u64 {
        (40 + self.key_size + self.data_size).next_multiple_of(8)
    }
}

/// The results of one run.
#[derive(Clone)]
struct Measured {
    wrote: Wrote,
    /// Bytes and changes that all replicas together were sent, per second.
    bytes_per_s: f64,
    messages_per_s: f64,
    /// How old changes were when they were applied.
    staleness: Option<Latencies>,
}

fn measure(args: &Args, case: Case) -> Result<Measured> {
    let name = PathBuf::from(format!("bench-replicate-{}", std::process::id()));
    let temporary = TemporaryHold::create(&name, None, false)?;
    let hold = temporary.hold();
    let map = hold.maps().open_or_create(MAP, MapOptions::general())?;
    let options = OriginOptions {
        stream_bytes: args.stream_size,
        io_threads: args.io_threads,
        kind: case.kind,
        transmission: Transmission::Automatic { watermark: 0, delay: Duration::ZERO },
        ..OriginOptions::default()
    };
    let origin = Origin::start(hold, MAP, options)?;
    let directory = tempfile::tempdir()?;
    let wanted = match args.transport {
        Transport::Unix => Address::Unix(directory.path().join("origin")),
        Transport::Tcp => Address::Tcp("127.0.0.1".into(), 0),
    };
    let address = origin.listen(&wanted)?;
    let mut crew = Crew::new("replicate")?;
    if case.replicas > 0 {
        let timed = (args.rate > 0).then_some(args.frame_bytes() as usize);
        let (address, replicas, apply) = (address.to_string(), case.replicas, args.apply);
        let job = Job { address, replicas, apply, timed };
        crew.enlist(&args.cpus.clone().unwrap_or_default(), vec![("replicas".into(), job)])?;
    }
    crew.begin()?;
    let wrote = writer::write(args, &map, &origin, case.replicas)?;
    let end = map.follow()?.end()?;
    origin.finish(Duration::from_secs(30));
    let mut measured = Measured { wrote, bytes_per_s: 0.0, messages_per_s: 0.0, staleness: None };
    if case.replicas > 0 {
        let read: Read = crew.report(0)?;
        read.check(end.offset, case.replicas)?;
        let messages = measured.wrote.sets * case.replicas as u64;
        measured.messages_per_s = messages as f64 / measured.wrote.seconds;
        measured.bytes_per_s = measured.messages_per_s * args.frame_bytes() as f64;
        measured.staleness = read.staleness();
        crew.dismiss()?;
    }
    Ok(measured)
}

fn collect(args: &Args, cases: &[Case], runs: &[Vec<Measured>]) -> Results {
    let mut results = Results::here();
    for (case, runs) in cases.iter().zip(runs) {
        let workload = case.workload(args);
        let mut middle = |metric: &str, unit: &str, of: &dyn Fn(&Measured) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(of).collect();
            results.add(COMMONHOLD, &workload, metric, median(&mut values), unit);
        };
        middle("sets_per_s", "sets/s", &|m| m.wrote.sets as f64 / m.wrote.seconds);
        middle("messages_per_s", "messages/s", &|m| m.messages_per_s);
        middle("bytes_per_s", "bytes/s", &|m| m.bytes_per_s);
        if let Some(staleness) = runs.iter().find_map(|m| m.staleness.as_ref()) {
            super::percentiles::add(&mut results, COMMONHOLD, &workload, staleness);
        }
    }
    results
}

fn lines(args: &Args, cases: &[Case], runs: &[Vec<Measured>], results: &Results) -> Vec<String> {
    let mut rows: Vec<[String; 9]> = Vec::new();
    for (case, runs) in cases.iter().zip(runs) {
        let value = |metric: &str| {
            results.value(COMMONHOLD, &case.workload(args), metric).unwrap_or(f64::NAN)
        };
        let (sets, bytes) = (value("sets_per_s"), value("bytes_per_s"));
        let metric = if case.replicas == 0 { "sets_per_s" } else { "bytes_per_s" };
        let goal = goals::of(&format!("replicate {} epoll", case.replicas), metric)
            .filter(|_| args.is_libworlds());
        let compared = if case.replicas == 0 { sets } else { bytes };
        let [theirs, ratio, wanted] = goals::compare(goal, compared, plain);
        let staleness = runs.iter().find_map(|m| m.staleness.as_ref()).map_or_else(
            || "-".to_owned(),
            |s| format!("{} / {}", shown_time(s.at(0.5)), shown_time(s.at(0.99))),
        );
        rows.push([
            format!("{}", case.replicas),
            case.kind.to_string(),
            table::rate(sets),
            table::rate(value("messages_per_s")),
            format!("{:.0}", bytes / 1e6),
            staleness,
            theirs,
            ratio,
            wanted,
        ]);
    }
    let title = format!(
        "{} keys of {} bytes, values of {}; the writer at most {} changes ahead; {} that send; {}\n",
        args.cardinality,
        args.key_size,
        args.data_size,
        args.max_ahead,
        sizes::things(args.io_threads as u64, "thread", "threads"),
        if args.apply { "replicas apply changes" } else { "replicas only read" },
    );
    let heading = [
        "replicas",
        "loop",
        "sets",
        "messages",
        "MB/s",
        "age p50 / p99",
        "libworld*",
        "ratio*",
        "goal",
    ];
    let mut lines = vec![title];
    lines.extend(table::lines(heading, &rows));
    lines.push("\nEvery replica received the whole stream.".to_owned());
    if args.is_libworlds() {
        lines.push(format!("\n{}", goals::NOTE));
    }
    lines
}

impl Args {
    /// Whether libworld's results are for this workload.
    fn is_libworlds(&self) -> bool {
        self.key_size == 16 && self.data_size == 64 && self.rate == 0 && !self.apply
    }
}

fn plain(value: f64) -> String {
    if value >= 50e6 { format!("{:.0} MB/s", value / 1e6) } else { table::rate(value) }
}
