//! The results of `hold bench log`, for programs and for people.

use super::super::{
    percentiles::{self, PERCENTILES},
    table::{self, rate},
};
use super::{Args, Measured, writer::Full};
use crate::workload::{
    clock,
    latency::{Latencies, show},
    results::{COMMONHOLD, Results},
};
use commonhold_terminal::sizes;

const WORKLOAD: &str = "log";

/// All results.
pub fn collect(args: &Args, measured: &Measured) -> Results {
    let mut results = Results::here();
    let mut put = |metric: &str, value: f64, unit: &str| {
        results.add(COMMONHOLD, WORKLOAD, metric, value, unit);
    };
    let seconds = |end_ns: u64| end_ns.saturating_sub(measured.start_ns).max(1) as f64 / 1e9;
    let wrote = &measured.wrote;
    let accepted: u64 = wrote.iter().map(|w| w.tally.lines).sum();
    let delivered: u64 = measured.delivered.each.iter().map(|tally| tally.lines).sum();
    let written = wrote.iter().map(|w| seconds(w.end_ns)).fold(0.0, f64::max);
    put("lines_accepted", accepted as f64, "lines");
    put("lines_delivered", delivered as f64, "lines");
    put("lines_dropped", wrote.iter().map(|w| w.dropped).sum::<u64>() as f64, "lines");
    put("lines_lost_seen", measured.delivered.lost as f64, "lines");
    put("lines_late", measured.delivered.late as f64, "lines");
    put("refusals", wrote.iter().map(|w| w.refusals).sum::<u64>() as f64, "times");
    put("accepted_per_s", accepted as f64 / written, "lines/s");
    put("delivered_per_s", delivered as f64 / seconds(measured.delivered.end_ns), "lines/s");
    put("bytes_delivered", measured.delivered.bytes as f64, "bytes");
    put("clock_ns", clock::cost_ns(), "ns");
    for (number, wrote) in (1..).zip(wrote) {
        let metric = format!("accepted_per_s_writer_{number}");
        put(&metric, wrote.tally.lines as f64 / seconds(wrote.end_ns), "lines/s");
    }
    let mut latencies = Latencies::new();
    wrote.iter().for_each(|wrote| latencies.add(&wrote.latencies));
    percentiles::add(&mut results, COMMONHOLD, WORKLOAD, &latencies);
    debug_assert_eq!(wrote.len(), args.writers as usize);
    results
}

/// The result for people.
pub fn lines(args: &Args, results: &Results) -> Vec<String> {
    let value = |metric: &str| results.value(COMMONHOLD, WORKLOAD, metric).unwrap_or(f64::NAN);
    let count = |metric: &str| sizes::count(value(metric) as u64);
    let row = |name: &str, lines: &str, per_second: &str| {
        [name.to_owned(), count(lines), rate(value(per_second))]
    };
    let mut rows = vec![
        row("accepted", "lines_accepted", "accepted_per_s"),
        row("delivered", "lines_delivered", "delivered_per_s"),
    ];
    rows.push(["dropped".to_owned(), count("lines_dropped"), "-".to_owned()]);
    let mut lines = vec![title(args), String::new()];
    lines.extend(table::lines(["lines", "number", "per second"], &rows));
    lines.push(String::new());
    lines.extend(cost_lines(&|metric| results.value(COMMONHOLD, WORKLOAD, metric)));
    lines.push(format!(
        "(one of {} lines timed, if accepted at once; each time includes {:.0} ns to read the \
         clock)",
        args.sample,
        value("clock_ns")
    ));
    lines.push("\nEvery accepted line was delivered once, in its writer's order.".to_owned());
    lines
}

fn title(args: &Args) -> String {
    let pace = match args.rate {
        0 => "as fast as possible".to_owned(),
        rate => format!("{} a second each", sizes::count(rate)),
    };
    let full = if args.full == Full::Drop { "drops lines" } else { "is waited for" };
    format!(
        "{}, lines of {} bytes, {pace}, rings of {}, a full one {full}, to {}",
        sizes::things(args.writers.into(), "writer", "writers"),
        args.line_bytes,
        sizes::shown(args.ring_bytes),
        args.file.display(),
    )
}

fn cost_lines(value: &dyn Fn(&str) -> Option<f64>) -> Vec<String> {
    let time = |metric| value(metric).map_or("-".to_owned(), |ns| show(ns as u64));
    let mean = ["mean".to_owned(), time("latency_ns_mean")];
    let each = PERCENTILES.iter().map(|(label, metric, _)| [(*label).to_owned(), time(metric)]);
    let rows: Vec<[String; 2]> = std::iter::once(mean).chain(each).collect();
    table::lines(["cost of a line to its writer", "time"], &rows)
}
