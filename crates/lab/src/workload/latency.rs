//! Durations of single operations: recorded in a high-dynamic-range histogram, sent between
//! processes as sparse counts, merged without loss.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Three significant digits: a recorded value is off by at most 0.1%.
const DIGITS: u8 = 3;

/// The longest duration for which memory is touched beforehand: a minute.
const LONGEST: u64 = 60_000_000_000;

/// A histogram of nanoseconds.
#[derive(Clone)]
pub struct Latencies(Histogram<u64>);

/// A histogram on its way to another process: pairs of (nanoseconds, how often).
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Packed(Vec<(u64, u64)>);

impl Latencies {
    /// An empty histogram.
    pub fn new() -> Latencies {
        Latencies(Histogram::new(DIGITS).expect("three digits are within the histogram's bounds"))
    }

    /// An empty histogram whose memory was touched already: recording takes no page fault.
    pub fn ready() -> Latencies {
        let mut counts = Histogram::new_with_bounds(1, LONGEST, DIGITS)
            .expect("a minute and three digits are within the histogram's bounds");
        counts.auto(true);
        counts.reset();
        Latencies(counts)
    }

    /// Records one duration.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0 += ns;
    }

    /// Forgets what was recorded, but keeps the memory.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration that the share `quantile` (0 to 1) of all do not exceed.
    pub fn at(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// The shortest duration.
    pub fn shortest(&self) -> u64 {
        self.0.min()
    }

    /// The mean of all durations.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The standard deviation of all durations.
    pub fn deviation(&self) -> f64 {
        self.0.stdev()
    }

    /// The longest duration.
    pub fn longest(&self) -> u64 {
        self.0.max()
    }

    /// Takes the recorded durations out for sending, leaving the histogram empty.
    pub fn pack(&mut self) -> Packed {
        let recorded = self.0.iter_recorded();
        let pairs = recorded.map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
        self.0.reset();
        Packed(pairs)
    }

    /// Adds what another histogram has.
    pub fn merge(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("a histogram that resizes itself takes any value");
    }

    /// Adds what another process packed.
    pub fn add(&mut self, packed: &Packed) {
        for (ns, times) in &packed.0 {
            self.0.record_n(*ns, *times).expect("a histogram that resizes itself takes any value");
        }
    }
}

impl Packed {
    /// Adds the durations of another one.
    pub fn extend(&mut self, other: Packed) {
        self.0.extend(other.0);
    }

    /// All of them; `None` if nothing was recorded.
    pub fn latencies(&self) -> Option<Latencies> {
        let mut all = Latencies::new();
        all.add(self);
        (all.count() > 0).then_some(all)
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

/// A duration for people: three digits and a unit, such as `312 ns` or `4.05 ms`.
pub fn show(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_loses_no_count_and_keeps_the_digits() {
        let mut here = Latencies::new();
        (1..=100_000).for_each(|ns| here.record(ns));
        let text = serde_json::to_string(&here.pack()).unwrap();
        assert_eq!(here.count(), 0);
        let mut there = Latencies::new();
        there.add(&serde_json::from_str(&text).unwrap());
        assert_eq!(there.count(), 100_000);
        assert!(there.at(0.5).abs_diff(50_000) <= 100);
        assert!(there.longest().abs_diff(100_000) <= 200);
    }

    #[test]
    fn durations_read_well() {
        let shown = [999, 1_000, 12_345, 123_456, 4_050_000, 2_000_000_000].map(show);
        assert_eq!(shown, ["999 ns", "1.00 µs", "12.3 µs", "123 µs", "4.05 ms", "2.00 s"]);
    }
}
