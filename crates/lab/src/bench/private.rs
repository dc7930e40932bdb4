//! One process, random get and copy: a map in a hold compared with hashbrown's `HashMap<Vec<u8>,
//! Vec<u8>>` and its own fast hash function, in the same process and interleaved in one run.
//!
//! It measures the cost of sharing for a process that shares with no other. Losses are shown.

use super::{goals, table};
use crate::workload::{
    Result, RunError,
    driver::Driver,
    form::Padded,
    pairs,
    random::Permutation,
    results::{COMMONHOLD, Results, median},
    store::Store,
    stores::{MapStore, Private},
    tally::Tally,
    temporary::TemporaryHold,
};
use commonhold::map::MapOptions;
use std::path::PathBuf;
use std::time::Instant;

const RIVAL: &str = "hashbrown";
const NEW: &str = "private get, new copy";
const REUSED: &str = "private get, copy into a buffer";
const RATIO: &str = "ratio_to_hashbrown";

/// Options of `hold bench private`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Number of pairs
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    keys: u64,

    /// Length of the keys in bytes, at least 8
    #[arg(long, value_name = "BYTES", default_value_t = 8)]
    key_size: usize,

    /// Length of the values in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 8)]
    value_size: usize,

    /// Number of gets per round
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    gets: u64,

    /// Number of rounds, alternating between Commonhold and hashbrown; results are medians
    #[arg(long, value_name = "N", default_value_t = 9)]
    rounds: usize,
}

impl Args {
    fn form(&self) -> Padded {
        Padded { key_size: self.key_size, value_size: self.value_size }
    }
}

/// Fills both maps and takes turns in reading them.
pub fn measure(args: &Args) -> Result<Results> {
    if args.key_size < 8 || args.keys == 0 || args.gets == 0 || args.rounds == 0 {
        return Err(RunError::new(
            "expected at least 8 for --key-size, and at least 1 for all others",
        ));
    }
    let name = PathBuf::from(format!("bench-private-{}", std::process::id()));
    let temporary = TemporaryHold::create(&name, None, false)?;
    let shared = temporary.hold().maps().open_or_create("private", MapOptions::general())?;
    let mut both = Both { shared: MapStore::new(shared), own: Private::default() };
    let form = args.form();
    pairs::load(args.keys, &mut driver(&form, &mut both.shared))?;
    pairs::load(args.keys, &mut driver(&form, &mut both.own))?;
    let mut results = Results::here();
    for reading in [Reading::Fresh, Reading::Reused] {
        both.compare(args, &mut results, reading)?;
    }
    Ok(results)
}

/// The two stores, and how to read them.
struct Both {
    shared: MapStore<RunError>,
    own: Private<RunError>,
}

/// How a round reads: each value as a fresh vector, or copied into one that is used again.
#[derive(Clone, Copy)]
enum Reading {
    Fresh,
    Reused,
}

impl Both {
    /// Lets the two take turns and records medians.
    fn compare(&mut self, args: &Args, results: &mut Results, reading: Reading) -> Result<()> {
        let (mut our_rates, mut their_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..args.rounds {
            let our_rate = timed(args, round, reading, &mut self.shared)?;
            let their_rate = timed(args, round, reading, &mut self.own)?;
            our_rates.push(our_rate);
            their_rates.push(their_rate);
            ratios.push(our_rate / their_rate);
        }
        let workload = reading.workload();
        results.add(COMMONHOLD, workload, "ops_per_s", median(&mut our_rates), "ops/s");
        results.add(RIVAL, workload, "ops_per_s", median(&mut their_rates), "ops/s");
        results.add(COMMONHOLD, workload, RATIO, median(&mut ratios), "x");
        Ok(())
    }
}

impl Reading {
    fn workload(self) -> &'static str {
        match self {
            Reading::Fresh => NEW,
            Reading::Reused => REUSED,
        }
    }
}

fn driver<'a, S: Store>(form: &'a Padded, store: &'a mut S) -> Driver<'a, S, Padded> {
    Driver { store, form, batch: 1, get_many: 1, tally: Tally::new(false) }
}

/// Runs the gets of one round; each must yield its value.
fn timed<S: Store<Error = RunError>>(
    args: &Args,
    round: usize,
    reading: Reading,
    store: &mut S,
) -> Result<f64> {
    let order = Permutation::new(args.keys, round as u64);
    let numbers = (0..args.gets as usize).map(|turn| order.at(turn as u64 % args.keys));
    let form = args.form();
    let mut driver = driver(&form, store);
    let begin = Instant::now();
    match reading {
        Reading::Fresh => pairs::own(numbers, &mut driver)?,
        Reading::Reused => pairs::copy(numbers, &mut driver)?,
    }
    let seconds = begin.elapsed().as_secs_f64();
    driver.tally.verdict()?;
    Ok(args.gets as f64 / seconds)
}

/// The result for people.
pub fn lines(results: &Results) -> Vec<String> {
    let row = |workload: &str| {
        let value = |system, metric| results.value(system, workload, metric).unwrap_or(f64::NAN);
        [
            workload.to_owned(),
            table::rate(value(COMMONHOLD, "ops_per_s")),
            table::rate(value(RIVAL, "ops_per_s")),
            format!("{:.2}x", value(COMMONHOLD, RATIO)),
            goals::text("private.get_copy", "ops_per_s"),
        ]
    };
    let heading = ["random", "commonhold", RIVAL, "ratio", "goal"];
    let mut lines = table::lines(heading, &[row(NEW), row(REUSED)]);
    lines
        .push("\nBoth in one process, alternating in one run; medians, also of the ratios.".into());
    lines
}
