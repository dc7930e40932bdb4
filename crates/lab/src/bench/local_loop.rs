//! Localmemcache's own benchmark: 2 million turns of set and get over 10,000 decimal keys, drawn
//! at random, value = key, in a file, one process, one operation at a time. The digits are written
//! beforehand, as in all benchmarks of this loop.

use super::{goals, table};
use crate::workload::{
    Result, RunError,
    driver::Driver,
    form::Decimal,
    latency::show,
    pairs::{self, Numbers},
    results::{COMMONHOLD, Results, median},
    stores::MapStore,
    tally::Tally,
    temporary::TemporaryHold,
};
use commonhold::map::MapOptions;
use std::path::PathBuf;
use std::time::Instant;

const WORKLOAD: &str = "loop";
/// The number of turns in the predecessor's result.
const THEIR_TURNS: u64 = 2_000_000;

/// Options of `hold bench loop`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Number of set operations, and of get operations
    #[arg(long, value_name = "N", default_value_t = THEIR_TURNS)]
    turns: u64,

    /// Number of different keys
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keys: u64,

    /// The hold's file, which is deleted afterwards [default: a file in the current directory]
    #[arg(long, value_name = "FILE")]
    path: Option<PathBuf>,

    /// Number of runs; the result is the median
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,
}

/// Runs the loop.
pub fn measure(args: &Args) -> Result<Results> {
    if args.runs == 0 || args.keys == 0 || args.turns == 0 {
        return Err(RunError::new("expected at least 1 for --turns, --keys and --runs"));
    }
    let own = || PathBuf::from(format!("./bench-loop-{}.hold", std::process::id()));
    let path = args.path.clone().unwrap_or_else(own);
    let temporary = TemporaryHold::create(&path, None, false)
        .map_err(|error| RunError::new(format!("{error} (use another file: --path FILE)")))?;
    let map = temporary.hold().maps().open_or_create("loop", MapOptions::general())?;
    let (mut store, form) = (MapStore::new(map), Decimal::below(args.keys));
    let mut seconds = Vec::new();
    for run in 0..args.runs {
        seconds.push(turn(&mut store, &form, args, run as u64)?);
    }
    let seconds = median(&mut seconds);
    let mut results = Results::here();
    let ops = (2 * args.turns) as f64 / seconds;
    results.add(COMMONHOLD, WORKLOAD, "ops_per_s", ops, "ops/s");
    results.add(COMMONHOLD, WORKLOAD, "time_ms", seconds * 1e3, "ms");
    results.add(COMMONHOLD, WORKLOAD, "turns", args.turns as f64, "turns");
    Ok(results)
}

/// One run of all turns; seconds.
fn turn(store: &mut MapStore<RunError>, form: &Decimal, args: &Args, seed: u64) -> Result<f64> {
    let numbers = Numbers::new(seed).take(args.turns, args.keys);
    let mut driver = Driver { store, form, batch: 1, get_many: 1, tally: Tally::new(false) };
    let begin = Instant::now();
    pairs::decimal_loop(numbers, &mut driver)?;
    let seconds = begin.elapsed().as_secs_f64();
    driver.tally.verdict()?;
    Ok(seconds)
}

/// The result for people.
pub fn lines(results: &Results) -> Vec<String> {
    let value = |metric| results.value(COMMONHOLD, WORKLOAD, metric).unwrap_or(f64::NAN);
    let (ms, turns) = (value("time_ms"), value("turns"));
    let theirs = goals::of(WORKLOAD, "time_ms").and_then(|goal| goal.recorded).unwrap_or(f64::NAN);
    // Their time scales with the turns; ours was measured for exactly these.
    let theirs = theirs * turns / THEIR_TURNS as f64;
    let row = [
        format!("{turns:.0} x (set + get)"),
        table::rate(value("ops_per_s")),
        show((ms * 1e6) as u64),
        show((theirs * 1e6) as u64),
        format!("{:.2}x", ms / theirs),
        goals::text(WORKLOAD, "time_ms"),
    ];
    let heading = ["loop", "operations", "time", "Localmemcache*", "ratio*", "goal"];
    let mut lines = table::lines(heading, &[row]);
    lines.push(format!("\n{}", goals::NOTE));
    lines
}
