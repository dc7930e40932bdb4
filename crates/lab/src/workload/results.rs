//! The results of a benchmark, in the one shape that all benchmarks of the project have:
//! `{"machine": {...}, "results": [{"system", "workload", "metric", "value", "unit"}, ...]}`.
//! Ratios are derived from it, never stored.

use super::machine::Machine;
use super::memory::{self, Memory};
use serde::Serialize;

/// The name of this project as a measured system.
pub const COMMONHOLD: &str = "commonhold";

/// One measured number.
#[derive(Serialize, Clone, Debug)]
pub struct Measured {
    /// The measured system: `commonhold`, or a rival's name.
    pub system: String,
    /// The workload, such as `map general own put`.
    pub workload: String,
    /// The quantity, such as `ops_per_s`.
    pub metric: String,
    /// The number.
    pub value: f64,
    /// Its unit, such as `ops/s`.
    pub unit: String,
}

/// The machine, and its memory at the time.
#[derive(Serialize, Debug)]
struct Place {
    #[serde(flatten)]
    machine: Machine,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
}

/// All results of one benchmark.
#[derive(Serialize, Debug)]
pub struct Results {
    machine: Place,
    results: Vec<Measured>,
}

impl Results {
    /// No results yet, on this machine.
    pub fn here() -> Results {
        let machine = Place { machine: Machine::here(), memory: Some(memory::measure()) };
        Results { machine, results: Vec::new() }
    }

    /// The same without measuring the machine's memory, which takes longer than a short run.
    pub fn here_in_short() -> Results {
        let machine = Place { machine: Machine::here(), memory: None };
        Results { machine, results: Vec::new() }
    }

    /// Adds a number measured for `system`.
    pub fn add(&mut self, system: &str, workload: &str, metric: &str, value: f64, unit: &str) {
        let owned = str::to_owned;
        self.results.push(Measured {
            system: owned(system),
            workload: owned(workload),
            metric: owned(metric),
            value,
            unit: owned(unit),
        });
    }

    /// The number of `system` for `workload` and `metric`, if it was measured.
    pub fn value(&self, system: &str, workload: &str, metric: &str) -> Option<f64> {
        let wanted =
            |r: &&Measured| r.system == system && r.workload == workload && r.metric == metric;
        self.results.iter().find(wanted).map(|r| r.value)
    }

    /// The machine, for people.
    pub fn place(&self) -> String {
        let memory = self.machine.memory.map(|memory| format!("\n{}", memory.line()));
        format!("{}{}", self.machine.machine.line(), memory.unwrap_or_default())
    }

    /// The one JSON object.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

/// The middle of `values`, the mean of the two middle ones if their number is even.
pub fn median(values: &mut [f64]) -> f64 {
    assert!(!values.is_empty(), "a median needs a value");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_agreed_shape() {
        let mut results = Results::here();
        results.add(COMMONHOLD, "map general own put", "ops_per_s", 4.5e6, "ops/s");
        let json: serde_json::Value = serde_json::from_str(&results.to_json().unwrap()).unwrap();
        assert!(json["machine"]["cores"].as_u64().unwrap() > 0);
        assert_eq!(json["results"][0]["system"], "commonhold");
        assert_eq!(json["results"][0]["value"], 4.5e6);
        assert_eq!(results.value(COMMONHOLD, "map general own put", "ops_per_s"), Some(4.5e6));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
