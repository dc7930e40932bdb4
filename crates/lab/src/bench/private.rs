//! One process, random get and copy: a map in a hold compared with hashbrown's `HashMap<Vec<u8>,
//! Vec<u8>>` and its own fast hash function, in the same process and interleaved in one run.
//!
//! It measures the cost of sharing for a process that shares with no other. Losses are shown.

use super::{goals, table};
use crate::workload::{
    Result, RunError,
    random::Permutation,
    results::{COMMONHOLD, Results, median},
    temporary::TemporaryHold,
};
use commonhold::map::{Map, MapOptions};
use hashbrown::HashMap;
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

    /// Rounds for Commonhold and for hashbrown, alternating; results are medians
    #[arg(long, value_name = "N", default_value_t = 9)]
    rounds: usize,
}

impl Args {
    fn key(&self, number: u64, out: &mut Vec<u8>) {
        // The lowest byte first and zeros after it: the hash has to do its work.
        out.clear();
        out.extend_from_slice(&number.to_le_bytes());
        out.resize(self.key_size, 0);
    }

    fn value(&self, number: u64) -> Vec<u8> {
        number.to_le_bytes().into_iter().cycle().take(self.value_size).collect()
    }

    fn order(&self, round: usize) -> Permutation {
        Permutation::new(self.keys, round as u64)
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
    let mut own: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let mut key = Vec::new();
    for number in 0..args.keys {
        args.key(number, &mut key);
        let value = args.value(number);
        shared.set(&key, &value)?;
        own.insert(key.clone(), value);
    }
    let mut results = Results::here();
    compare(args, &mut results, NEW, get_new(&shared), clone_own(&own))?;
    compare(args, &mut results, REUSED, get_into(&shared), copy_own(&own))?;
    Ok(results)
}

/// Lets the two take turns and records medians.
fn compare(
    args: &Args,
    results: &mut Results,
    workload: &str,
    mut ours: impl Get,
    mut theirs: impl Get,
) -> Result<()> {
    let (mut our_rates, mut their_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..args.rounds {
        let our_rate = timed(args, round, &mut ours)?;
        let their_rate = timed(args, round, &mut theirs)?;
        our_rates.push(our_rate);
        their_rates.push(their_rate);
        ratios.push(our_rate / their_rate);
    }
    results.add(COMMONHOLD, workload, "ops_per_s", median(&mut our_rates), "ops/s");
    results.add(RIVAL, workload, "ops_per_s", median(&mut their_rates), "ops/s");
    results.add(COMMONHOLD, workload, RATIO, median(&mut ratios), "x");
    Ok(())
}

/// Gets a key's value and returns its first byte: outer `None` if absent, inner `None` if empty.
trait Get: FnMut(&[u8]) -> Result<Option<Option<u8>>> {}
impl<F: FnMut(&[u8]) -> Result<Option<Option<u8>>>> Get for F {}

fn first(value: &[u8]) -> Option<u8> {
    std::hint::black_box(value).first().copied()
}

fn get_new(map: &Map) -> impl Get {
    move |key| Ok(map.get(key)?.map(|value| first(&value)))
}

fn clone_own(map: &HashMap<Vec<u8>, Vec<u8>>) -> impl Get {
    move |key| Ok(map.get(key).cloned().map(|value| first(&value)))
}

fn get_into(map: &Map) -> impl Get {
    let mut value = Vec::new();
    move |key| Ok(map.get_into(key, &mut value)?.then(|| first(&value)))
}

fn copy_own(map: &HashMap<Vec<u8>, Vec<u8>>) -> impl Get {
    let mut value = Vec::new();
    move |key| {
        let Some(found) = map.get(key) else { return Ok(None) };
        value.clone_from(found);
        Ok(Some(first(&value)))
    }
}

/// Runs the gets of one round; each must yield the value's first byte.
fn timed(args: &Args, round: usize, get: &mut impl Get) -> Result<f64> {
    let order = args.order(round);
    let mut key = Vec::new();
    let begin = Instant::now();
    for turn in 0..args.gets {
        let number = order.at(turn % args.keys);
        args.key(number, &mut key);
        let wanted = (args.value_size > 0).then_some(number as u8);
        if get(&key)? != Some(wanted) {
            return Err(RunError::new(format!(
                "key {number} was not found, or its value is wrong"
            )));
        }
    }
    Ok(args.gets as f64 / begin.elapsed().as_secs_f64())
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
            format!(">= {}x", goals::PRIVATE_RATIO),
        ]
    };
    let heading = ["random", "commonhold", RIVAL, "ratio", "goal"];
    let mut lines = table::lines(heading, &[row(NEW), row(REUSED)]);
    lines
        .push("\nBoth in one process, alternating in one run; medians, also of the ratios.".into());
    lines
}
