//! Latencies of answers: how often each time occurred, for one worker or for many together.
//!
//! Workers count in buckets that are the same everywhere, so those of several are added one by one;
//! a time is exact to 1 %.

use std::collections::BTreeMap;

/// Microseconds, and the number of answers that took this long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets(BTreeMap<u64, u64>);

impl Buckets {
    /// The report of a worker.
    pub fn of(reported: &[(u64, u64)]) -> Buckets {
        let mut buckets = Buckets::default();
        reported.iter().for_each(|&(us, count)| buckets.put(us, count));
        buckets
    }

    fn put(&mut self, us: u64, count: u64) {
        let all = self.0.entry(us).or_default();
        *all = all.saturating_add(count);
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Buckets) {
        other.0.iter().for_each(|(&us, &count)| self.put(us, count));
    }

    /// The counts since an earlier state of the same.
    pub fn since(&self, earlier: &Buckets) -> Buckets {
        let before = |us| earlier.0.get(us).copied().unwrap_or_default();
        let new = self.0.iter().map(|(us, count)| (*us, count.saturating_sub(before(us))));
        Buckets(new.filter(|(_, count)| *count > 0).collect())
    }

    /// The number of answers.
    pub fn count(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The number of answers that took at most this long.
    pub fn at_most(&self, us: u64) -> u64 {
        self.0.range(..=us).fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The total time of all.
    pub fn sum_us(&self) -> u64 {
        self.0.iter().fold(0, |sum, (us, count)| sum.saturating_add(us.saturating_mul(*count)))
    }

    /// The time that this share of the answers did not exceed; `None` of none.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut passed = 0u64;
        let found = self.0.iter().find(|(_, count)| {
            passed = passed.saturating_add(**count);
            passed >= wanted
        });
        found.map(|(us, _)| *us).or(self.worst())
    }

    /// The longest.
    pub fn worst(&self) -> Option<u64> {
        self.0.last_key_value().map(|(us, _)| *us)
    }

    /// p50, p90, p99, p99.9 and the longest.
    pub fn summary(&self) -> Summary {
        let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|share| self.percentile(share));
        Summary { count: self.count(), p50, p90, p99, p999, max: self.worst() }
    }
}

/// The percentiles of [`Buckets`], in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    pub count: u64,
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p99: Option<u64>,
    pub p999: Option<u64>,
    pub max: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_several_are_as_those_of_one() {
        let mut both = Buckets::of(&[(10, 90), (20, 9)]);
        both.add(&Buckets::of(&[(20, 900), (5000, 1)]));
        assert_eq!(both, Buckets::of(&[(10, 90), (20, 909), (5000, 1)]));
        assert_eq!((both.count(), both.at_most(19), both.at_most(20)), (1000, 90, 999));
        assert_eq!(both.sum_us(), 900 + 909 * 20 + 5000);
        let summary = both.summary();
        assert_eq!([summary.p50, summary.p90, summary.p99], [Some(20); 3]);
        assert_eq!((summary.p999, summary.max), (Some(20), Some(5000)));
        assert_eq!(
            both.since(&Buckets::of(&[(10, 90), (20, 900)])),
            Buckets::of(&[(20, 9), (5000, 1)])
        );
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles() {
        let summary = Buckets::default().summary();
        assert_eq!((summary.count, summary.p50, summary.max), (0, None, None));
    }

    #[test]
    fn strange_numbers_are_no_panic() {
        let mut strange = Buckets::of(&[(u64::MAX, u64::MAX), (u64::MAX, 1), (0, u64::MAX)]);
        strange.add(&strange.clone());
        assert_eq!((strange.count(), strange.sum_us()), (u64::MAX, u64::MAX));
        assert!(strange.percentile(0.5).is_some());
    }
}
