//! Statistics of a worker (`hold stat`, the status page, Prometheus).

use super::store::StoreStat;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Counts since the worker began, except `open`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Answered requests.
    pub requests: u64,
    /// Requests for contents that were in the cache.
    pub hits: u64,
    /// Requests for contents that were not in the cache, and could have been.
    pub misses: u64,
    /// Requests for contents that are too large for the cache.
    pub direct: u64,
    /// Requests for ids that name nothing.
    pub not_found: u64,
    /// Other answers with an error (status 400 and above).
    pub refused: u64,
    /// Answers that could not be sent to their end.
    pub broken: u64,
    /// Bytes given to the system to send.
    pub bytes: u64,
    /// Accepted connections.
    pub accepted: u64,
    /// Connections that were closed because their peer took too long.
    pub timed_out: u64,
    /// Open connections.
    pub open: u64,
}

/// The time of answers, from the end of the request's head until the system had the last byte.
pub(crate) struct Latency(Histogram<u64>);

/// The longest time that is distinguished, in microseconds.
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

    /// Pairs of a time in microseconds and its count, for the times that occurred.
    pub(crate) fn occurred(&self) -> Vec<(u64, u64)> {
        let values = self.0.iter_recorded();
        values.map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }
}

/// The report of one worker. Fields that a worker of another version leaves out are empty or 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerReport {
    /// The id of its process.
    pub pid: u32,
    /// The addresses where it listens.
    pub listens: Vec<String>,
    /// The place and the choices of the server, in words.
    pub serves: String,
    /// The choices of the cache and the eviction: the words of
    /// [`CacheKind`](super::store::CacheKind) and [`EvictionKind`](super::store::EvictionKind).
    pub cache: String,
    /// See `cache`.
    pub eviction: String,
    /// How long it has run, in milliseconds.
    pub running_ms: u64,
    /// Its counts.
    pub counts: Counts,
    /// The statistics of its store.
    pub store: StoreStat,
    /// Pairs of a time in microseconds and the number of answers that took that long.
    pub latency_us: Vec<(u64, u64)>,
}
