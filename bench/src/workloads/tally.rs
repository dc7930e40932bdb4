//! The work and the findings of a worker in one phase; or, for a server, the findings of its
//! client.
//!
//! The workloads fill it in; the team makes one for each worker and adds them up.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The work and the findings of a worker.
pub struct Tally {
    /// Operations as the workload counts them.
    pub operations: u64,
    /// Values that were not the expected ones.
    pub wrong: u64,
    /// Keys that should have been there.
    pub absent: u64,
    /// Nanoseconds of the operations that the workload times one by one, if requested.
    pub times: Option<Histogram<u64>>,
}

impl Tally {
    /// An empty one; `timed` requests single times.
    pub fn new(timed: bool) -> Result<Tally> {
        let times = timed.then(|| Histogram::new(3)).transpose();
        let times = times.context("cannot make a histogram")?;
        Ok(Tally { operations: 0, wrong: 0, absent: 0, times })
    }

    /// Verifies the answer.
    pub fn check(&mut self, value: &[u8], expected: &[u8]) {
        self.wrong += u64::from(value != expected);
    }

    /// Notes how long one thing took.
    pub fn record(&mut self, nanoseconds: u64) -> Result<()> {
        let Some(times) = &mut self.times else { return Ok(()) };
        times.record(nanoseconds).context("cannot record a time")
    }
}

/// A client's findings about a server besides counts and times.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Requests that were answered, and rightly so.
    pub operations: u64,
    /// The values that are reported unchanged.
    pub measurements: Vec<Measurement>,
    /// Remarks that cast doubt on a result.
    pub notes: Vec<String>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// Its metric.
    pub metric: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: String,
}

impl Findings {
    /// Adds one.
    pub fn measured(&mut self, metric: &str, value: f64, unit: &str) {
        self.measurements.push(Measurement {
            metric: metric.to_owned(),
            value,
            unit: unit.to_owned(),
        });
    }
}
