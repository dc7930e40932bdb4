//! The work and the findings of a worker in one phase; or, for a server, the findings of its
//! client.
//!
//! The workloads fill it in; the team makes one for each worker and adds them up.

pub use commonhold_lab::workload::tally::Tally;
use serde::{Deserialize, Serialize};

/// A client's findings about a server besides counts and times.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Requests that were answered correctly.
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
    /// The value.
    pub value: f64,
    /// The unit.
    pub unit: String,
}

impl Findings {
    /// Adds a measurement.
    pub fn measured(&mut self, metric: &str, value: f64, unit: &str) {
        self.measurements.push(Measurement {
            metric: metric.to_owned(),
            value,
            unit: unit.to_owned(),
        });
    }
}
