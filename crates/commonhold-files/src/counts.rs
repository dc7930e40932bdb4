//! What a worker has done, for those who ask (`hold stat`, the status page, Prometheus).

use super::store::StoreStat;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Counts since the worker began, but `open`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Requests that were answered.
    pub requests: u64,
    /// Of these, contents that had been kept.
    pub hits: u64,
    /// Contents that had not, and could have been.
    pub misses: u64,
    /// Contents that are too large to be kept.
    pub direct: u64,
    /// Ids that nothing was under.
    pub not_found: u64,
    /// Other answers with an error (status 400 and above).
    pub refused: u64,
    /// Answers that could not be sent to their end.
    pub broken: u64,
    /// Bytes given to the system to send.
    pub bytes: u64,
    /// Connections.
    pub accepted: u64,
    /// Connections that were closed because their peer took too long.
    pub timed_out: u64,
    /// Connections that are open.
    pub open: u64,
}

/// How long answers took, from the end of the request's head until the system had the last byte.
pub(crate) struct Latency(Histogram<u64>);

/// The longest time that is told apart, in microseconds.
const LONGEST_US: u64 = 3_600_000_000;

impl Latency {
    pub(crate) fn new() -> Latency {
        // These bounds are valid; if they were not, nothing would be recorded.
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, 2);
        Latency(histogram.unwrap_or_else(|_| unreachable!("1 to an hour is a range")))
    }

    pub(crate) fn record(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(us.max(1));
    }

    /// Microseconds and how often, of those that occurred.
    pub(crate) fn occurred(&self) -> Vec<(u64, u64)> {
        let values = self.0.iter_recorded();
        values.map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }
}

/// What one worker tells of itself. What one of another version leaves out is nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerReport {
    /// Its process.
    pub pid: u32,
    /// Where it listens.
    pub listens: Vec<String>,
    /// What it serves, and how, in words.
    pub serves: String,
    /// Where its contents are kept, and what goes first: the words of
    /// [`CacheKind`](super::store::CacheKind) and [`EvictionKind`](super::store::EvictionKind).
    pub cache: String,
    /// See `cache`.
    pub eviction: String,
    /// For how long it has run.
    pub running_ms: u64,
    /// What it did.
    pub counts: Counts,
    /// What its store has.
    pub store: StoreStat,
    /// Microseconds and how many answers took so long.
    pub latency_us: Vec<(u64, u64)>,
}
