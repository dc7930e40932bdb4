//! The last minutes of file servers, second by second.

use super::workers::{Recent, hit_rate};
use crate::report::latency_buckets::Buckets;
use std::collections::VecDeque;

/// Seconds that are kept.
pub const SECONDS: usize = 300;
/// Seconds that "recently" means.
pub const RECENT: usize = 10;

/// One second of all workers together.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Sample {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    pub requests_per_second: f64,
    pub bytes_per_second: f64,
    pub errors_per_second: f64,
    /// 0 to 1.
    pub hit_rate: Option<f64>,
    pub p50_us: Option<u64>,
    pub p99_us: Option<u64>,
    pub open: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct History {
    samples: VecDeque<Sample>,
    latency: VecDeque<Buckets>,
}

impl History {
    /// Records one second; `new`: the latencies of new answers.
    pub fn note(&mut self, at_ms: u64, recent: &Recent, new: Buckets, open: u64) {
        self.samples.push_back(Sample {
            at_ms,
            requests_per_second: recent.requests,
            bytes_per_second: recent.bytes,
            errors_per_second: recent.errors,
            hit_rate: hit_rate(recent.hits, recent.misses),
            p50_us: recent.latency.percentile(0.5),
            p99_us: recent.latency.percentile(0.99),
            open,
        });
        self.latency.push_back(new);
        self.samples.drain(..self.samples.len().saturating_sub(SECONDS));
        self.latency.drain(..self.latency.len().saturating_sub(RECENT));
    }

    /// Oldest first.
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = &Sample> {
        self.samples.iter()
    }

    /// The last second.
    pub fn last(&self) -> Sample {
        self.samples.back().copied().unwrap_or_default()
    }

    /// The recent latencies.
    pub fn latency(&self) -> Buckets {
        let mut sum = Buckets::default();
        self.latency.iter().for_each(|one| sum.add(one));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_samples_are_dropped() {
        let mut history = History::default();
        for second in 0..2 * SECONDS as u64 {
            let new = Buckets::of(&[(second + 1, 1)]);
            history.note(second, &Recent::default(), new, second);
        }
        assert_eq!(history.samples().count(), SECONDS);
        assert_eq!(history.samples().next().map(|sample| sample.at_ms), Some(SECONDS as u64));
        assert_eq!((history.latency().count(), history.last().open), (RECENT as u64, 599));
    }
}
