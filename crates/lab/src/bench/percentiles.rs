//! The latencies to report, their metrics and their form: the percentiles of Olive's own tool.

use crate::workload::{
    latency::{Latencies, show},
    results::Results,
};

/// The values of a histogram: label, metric, share of all durations that are at most this long.
pub const PERCENTILES: [(&str, &str, f64); 15] = [
    ("min", "latency_ns_min", 0.0),
    ("1", "latency_ns_p1", 0.01),
    ("10", "latency_ns_p10", 0.1),
    ("25", "latency_ns_p25", 0.25),
    ("50", "latency_ns_p50", 0.5),
    ("75", "latency_ns_p75", 0.75),
    ("80", "latency_ns_p80", 0.8),
    ("90", "latency_ns_p90", 0.9),
    ("95", "latency_ns_p95", 0.95),
    ("99", "latency_ns_p99", 0.99),
    ("99.5", "latency_ns_p995", 0.995),
    ("99.9", "latency_ns_p999", 0.999),
    ("99.95", "latency_ns_p9995", 0.9995),
    ("99.99", "latency_ns_p9999", 0.9999),
    ("max", "latency_ns_max", 1.0),
];

/// One of them.
pub fn at(latencies: &Latencies, quantile: f64) -> u64 {
    match quantile {
        q if q <= 0.0 => latencies.shortest(),
        q if q >= 1.0 => latencies.longest(),
        q => latencies.at(q),
    }
}

/// Adds count, mean and percentiles to the results; nothing if nothing was timed.
pub fn add(results: &mut Results, system: &str, workload: &str, latencies: &Latencies) {
    let mut add = |metric: &str, value: f64, unit: &str| {
        results.add(system, workload, metric, value, unit);
    };
    add("latency_samples", latencies.count() as f64, "samples");
    if latencies.count() == 0 {
        return;
    }
    add("latency_ns_mean", latencies.mean(), "ns");
    for (_, metric, quantile) in PERCENTILES {
        add(metric, at(latencies, quantile) as f64, "ns");
    }
}

/// One percentile for people, a dash if nothing was timed.
pub fn shown(latencies: &Latencies, quantile: f64) -> String {
    if latencies.count() == 0 { "-".to_owned() } else { show(at(latencies, quantile)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_ascend_and_the_ends_are_exact() {
        let mut latencies = Latencies::ready();
        (100..100_000).for_each(|ns| latencies.record(ns));
        let values: Vec<u64> = PERCENTILES.iter().map(|(_, _, q)| at(&latencies, *q)).collect();
        assert!(values.is_sorted(), "{values:?}");
        assert_eq!(values[0], 100);
        assert!(values[14].abs_diff(99_999) <= 100);
        assert_eq!(shown(&Latencies::new(), 0.5), "-");
    }
}
