//! The table of `hold bench map`, with the goals next to the results.

use super::super::{
    goals::{self, compare},
    table,
};
use super::Args;
use crate::workload::latency::show;
use crate::workload::pairs::Phase;
use crate::workload::results::{COMMONHOLD, Results};
use indicatif::HumanCount;

/// The latencies that are reported, and under which metric.
pub const QUANTILES: [(&str, f64); 5] = [
    ("latency_ns_p50", 0.5),
    ("latency_ns_p99", 0.99),
    ("latency_ns_p999", 0.999),
    ("latency_ns_p9999", 0.9999),
    ("latency_ns_max", 1.0),
];

/// The lines that show `results` to people.
pub fn lines(args: &Args, results: &Results) -> Vec<String> {
    let comparable = args.processes == 2 && args.key_size == 4 && args.value_size == 4;
    let get = |phase: Phase, metric: &str| {
        results.value(COMMONHOLD, &format!("{} {}", args.workload(), phase.name()), metric)
    };
    let mut lines = vec![title(args)];
    let rows = rows(args, comparable, &get);
    let heading = ["phase", "all", "each (M/s)", "SharedHashFile*", "ratio*", "goal"];
    lines.extend(table::lines(heading, &rows));
    lines.extend(latency_lines(&|metric| get(Phase::PutLatency, metric)));
    if comparable {
        lines.push(format!("\n{}", goals::NOTE));
    }
    lines
}

fn title(args: &Args) -> String {
    format!(
        "{} processes, {} keys of {} bytes, values of {} bytes, {} map, order: {}",
        args.processes,
        HumanCount(args.keys),
        args.key_size,
        args.value_size,
        if args.fixed { "fixed-length" } else { "general" },
        args.order.name()
    )
}

fn rows(
    args: &Args,
    comparable: bool,
    get: &dyn Fn(Phase, &str) -> Option<f64>,
) -> Vec<[String; 6]> {
    let mut rows: Vec<[String; 6]> = Vec::new();
    for phase in args.main_phases() {
        let Some(rate) = get(phase, "ops_per_s") else { continue };
        let each = (1..=args.processes)
            .filter_map(|p| get(phase, &format!("ops_per_s_process_{p}")))
            .map(|r| format!("{:.2}", r / 1e6));
        let goal = goals::rate(args.fixed, phase.name()).filter(|_| comparable);
        let [theirs, ratio, wanted] = compare(goal, rate, table::rate);
        let each = each.collect::<Vec<_>>().join(" ");
        rows.push([phase.name().to_owned(), table::rate(rate), each, theirs, ratio, wanted]);
    }
    if let Some(bytes) = get(Phase::Put, "bytes_per_pair") {
        let goal = goals::bytes_per_pair(args.fixed).filter(|_| comparable);
        let [theirs, ratio, wanted] = compare(goal, bytes, |b| format!("{b:.1}"));
        let name = "bytes per pair".to_owned();
        rows.push([name, format!("{bytes:.1}"), String::new(), theirs, ratio, wanted]);
    }
    rows
}

fn latency_lines(get: &dyn Fn(&str) -> Option<f64>) -> Vec<String> {
    let labels = ["median", "p99", "p99.9", "p99.99", "slowest"];
    let goal = |metric| match goals::put_latency(metric) {
        Some(goal) => format!("<= {}", show(goal.limit() as u64)),
        None => String::new(),
    };
    let rows: Vec<[String; 3]> = QUANTILES
        .iter()
        .zip(labels)
        .filter_map(|((metric, _), label)| {
            Some([label.to_owned(), show(get(metric)? as u64), goal(metric)])
        })
        .collect();
    let Some(clock_ns) = get("clock_ns") else { return Vec::new() };
    let table = table::lines(["one put, while the map grows", "time", "goal"], &rows);
    let note = format!("(a separate pass; each time includes {clock_ns:.0} ns to read the clock)");
    std::iter::once(String::new()).chain(table).chain([note]).collect()
}
