//! What a worker did and saw in one phase.
//!
//! The workloads fill it in; the team makes one for each worker and adds them up.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

/// What a worker did and saw.
pub struct Tally {
    /// Operations as the workload counts them.
    pub operations: u64,
    /// Values that were not the expected ones.
    pub wrong: u64,
    /// Keys that should have been there.
    pub absent: u64,
    /// Nanoseconds of whatever the workload times one by one, if that is asked for.
    pub times: Option<Histogram<u64>>,
}

impl Tally {
    /// An empty one; `timed` says whether single times are wanted.
    pub fn new(timed: bool) -> Result<Tally> {
        let times = timed.then(|| Histogram::new(3)).transpose();
        let times = times.context("cannot make a histogram")?;
        Ok(Tally { operations: 0, wrong: 0, absent: 0, times })
    }

    /// Compares what came back.
    pub fn check(&mut self, value: &[u8], expected: &[u8]) {
        self.wrong += u64::from(value != expected);
    }

    /// Notes how long one thing took.
    pub fn record(&mut self, nanoseconds: u64) -> Result<()> {
        let Some(times) = &mut self.times else { return Ok(()) };
        times.record(nanoseconds).context("cannot record a time")
    }
}
