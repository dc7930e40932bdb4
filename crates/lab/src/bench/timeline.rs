//! Events over time: counts and latencies of equal intervals, recorded by one process, merged from
//! several.
//!
//! All memory is touched before the first interval. Messages before it belong to the warm-up and do
//! not count; messages after the last one count for that.

use crate::workload::{
    Result, RunError,
    latency::{Latencies, Packed},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Each interval takes 200 KiB in every process.
const MOST: u64 = 1000;

/// The intervals.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Span {
    /// From the start to the first interval.
    pub warm_up_ns: u64,
    /// All intervals together.
    pub measured_ns: u64,
    /// One of them; the last may be shorter.
    pub interval_ns: u64,
}

impl Span {
    /// # Errors
    /// An error if nothing is to be measured, or in too many intervals.
    pub fn new(warm_up: Duration, seconds: f64, interval: Duration) -> Result<Span> {
        let span = Span {
            warm_up_ns: warm_up.as_nanos() as u64,
            measured_ns: (seconds * 1e9) as u64,
            interval_ns: interval.as_nanos().max(1) as u64,
        };
        if interval.is_zero() {
            return Err(RunError::new("expected an --interval of more than 0"));
        }
        match span.count() {
            0 => Err(RunError::new("expected --seconds of more than 0")),
            1..=MOST => Ok(span),
            count => Err(RunError::new(format!(
                "expected at most {MOST} intervals, got {count}; raise --interval or lower \
                 --seconds"
            ))),
        }
    }

    /// How many intervals.
    pub fn count(self) -> u64 {
        self.measured_ns.div_ceil(self.interval_ns)
    }

    /// When measuring ends, for a start at `start_ns`.
    pub fn end_ns(self, start_ns: u64) -> u64 {
        start_ns + self.warm_up_ns + self.measured_ns
    }

    /// All of it, in seconds.
    pub fn seconds(self) -> f64 {
        self.measured_ns as f64 / 1e9
    }

    /// Where interval `number` begins, and how long it is, in seconds.
    pub fn interval(self, number: usize) -> (f64, f64) {
        let begin = number as u64 * self.interval_ns;
        let end = (begin + self.interval_ns).min(self.measured_ns);
        (begin as f64 / 1e9, (end - begin) as f64 / 1e9)
    }
}

/// One interval.
pub struct Interval {
    /// How much arrived.
    pub count: u64,
    /// How much is known to be missed.
    pub missed: u64,
    /// The latencies.
    pub latencies: Latencies,
}

impl Interval {
    fn add(&mut self, other: &Interval) {
        self.count += other.count;
        self.missed += other.missed;
        self.latencies.merge(&other.latencies);
    }
}

/// A timeline on its way to another process.
#[derive(Serialize, Deserialize)]
pub struct PackedTimeline(Vec<(u64, u64, Packed)>);

/// All intervals.
pub struct Timeline {
    /// Which they are.
    pub span: Span,
    /// The events of each.
    pub intervals: Vec<Interval>,
}

impl Timeline {
    /// Nothing has happened yet.
    pub fn new(span: Span) -> Timeline {
        let interval = |_| Interval { count: 0, missed: 0, latencies: Latencies::ready() };
        Timeline { span, intervals: (0..span.count()).map(interval).collect() }
    }

    /// The interval of an instant, for a start at `start_ns`; none during the warm-up.
    #[inline]
    pub fn at(&mut self, start_ns: u64, instant_ns: u64) -> Option<&mut Interval> {
        let since = instant_ns.checked_sub(start_ns + self.span.warm_up_ns)?;
        let last = self.intervals.len() - 1;
        Some(&mut self.intervals[((since / self.span.interval_ns) as usize).min(last)])
    }

    /// Takes everything out for sending.
    pub fn pack(&mut self) -> PackedTimeline {
        let pack = |i: &mut Interval| (i.count, i.missed, i.latencies.pack());
        PackedTimeline(self.intervals.iter_mut().map(pack).collect())
    }

    /// Adds what another process packed.
    pub fn add(&mut self, packed: &PackedTimeline) {
        for (interval, (count, missed, latencies)) in self.intervals.iter_mut().zip(&packed.0) {
            interval.count += count;
            interval.missed += missed;
            interval.latencies.add(latencies);
        }
    }

    /// Adds what another timeline of the same span has.
    pub fn merge(&mut self, other: &Timeline) {
        for (interval, other) in self.intervals.iter_mut().zip(&other.intervals) {
            interval.add(other);
        }
    }

    /// All intervals as one.
    pub fn total(&self) -> Interval {
        let mut total = Interval { count: 0, missed: 0, latencies: Latencies::new() };
        self.intervals.iter().for_each(|interval| total.add(interval));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn instants_find_their_interval() {
        let span = Span::new(MS, 0.0025, MS).unwrap();
        assert_eq!((span.count(), span.end_ns(0)), (3, 3_500_000));
        assert_eq!(span.interval(2), (0.002, 0.0005));
        let mut timeline = Timeline::new(span);
        assert!(timeline.at(7, 1_000_006).is_none(), "the warm-up");
        for instant in [1_000_007, 2_000_006, 2_000_007, 9_000_000] {
            let interval = timeline.at(7, instant).unwrap();
            interval.count += 1;
            interval.latencies.record(instant);
        }
        let mut merged = Timeline::new(span);
        let packed = timeline.pack();
        merged.add(&packed);
        merged.add(&packed);
        let counts: Vec<u64> = merged.intervals.iter().map(|i| i.count).collect();
        assert_eq!(counts, [4, 2, 2]);
        assert_eq!((merged.total().count, merged.total().latencies.count()), (8, 8));
    }

    #[test]
    fn invalid_spans_are_errors() {
        assert!(Span::new(MS, 0.0, MS).is_err());
        assert!(Span::new(MS, -1.0, MS).is_err());
        let text = Span::new(MS, 10.0, MS).unwrap_err().to_string();
        assert!(text.contains("got 10000"), "{text}");
    }
}
