//! The results of `hold bench channel`, for programs and for people.

use super::super::{
    goals, percentiles,
    percentiles::PERCENTILES,
    table::{self, rate},
    timeline::{Interval, Timeline},
};
use super::{Args, Measured};
use crate::workload::results::{COMMONHOLD, Results};
use commonhold_terminal::sizes;

const WORKLOAD: &str = "channel";

/// All results. A rate is that of one consumer; of several, their mean.
pub fn collect(args: &Args, measured: &Measured) -> Results {
    let mut results = Results::here();
    let all = measured.all();
    let mut add = |workload: &str, interval: &Interval, seconds: f64, consumers: f64| {
        let mut put = |metric: &str, value: f64, unit: &str| {
            results.add(COMMONHOLD, workload, metric, value, unit);
        };
        let per_second = interval.count as f64 / seconds / consumers;
        put("messages", interval.count as f64, "messages");
        put("missed", interval.missed as f64, "messages");
        put("messages_per_s", per_second, "messages/s");
        put("bytes_per_s", per_second * args.message_size as f64, "bytes/s");
        percentiles::add(&mut results, COMMONHOLD, workload, &interval.latencies);
    };
    let (span, consumers) = (measured.span, measured.consumers.len() as f64);
    add(WORKLOAD, &all.total(), span.seconds(), consumers);
    for (number, (_, timeline)) in (1..).zip(&measured.consumers) {
        add(&format!("{WORKLOAD} consumer {number}"), &timeline.total(), span.seconds(), 1.0);
    }
    for (number, interval) in all.intervals.iter().enumerate() {
        let name = format!("{WORKLOAD} interval {}", number + 1);
        add(&name, interval, span.interval(number).1, consumers);
    }
    totals(measured, &mut results);
    results
}

/// The results of the whole run, including the warm-up.
fn totals(measured: &Measured, results: &mut Results) {
    let mut put = |workload: &str, metric: &str, value: u64| {
        results.add(COMMONHOLD, workload, metric, value as f64, "messages");
    };
    put(WORKLOAD, "all_sent", measured.sent.messages);
    put(WORKLOAD, "all_unsent", measured.sent.unsent);
    for (number, (taken, _)) in (1..).zip(&measured.consumers) {
        let name = format!("{WORKLOAD} consumer {number}");
        put(&name, "all_received", taken.received);
        put(&name, "all_missed", taken.missed);
        put(&name, "times_dropped", taken.dropped);
    }
}

impl Measured {
    /// All consumers together.
    pub fn all(&self) -> Timeline {
        let mut all = Timeline::new(self.span);
        self.consumers.iter().for_each(|(_, timeline)| all.merge(timeline));
        all
    }
}

/// The lines that show it to people.
pub fn lines(args: &Args, measured: &Measured) -> Vec<String> {
    let mut lines = vec![title(args), String::new()];
    lines.extend(percentile_lines(measured));
    lines.push(String::new());
    lines.extend(interval_lines(args, measured));
    lines.push(String::new());
    lines.extend(goal_lines(args, measured));
    lines.extend(losses(measured));
    lines.extend(args.warnings().unwrap_or_default());
    lines
}

/// The run in a line.
pub fn title(args: &Args) -> String {
    let pace = match args.rate {
        0 => "as fast as possible".to_owned(),
        rate => format!("{} messages per second", sizes::count(rate)),
    };
    let timed = match args.sample() {
        1 => "each".to_owned(),
        sample => format!("one of {sample}"),
    };
    format!(
        "Messages of {} bytes, {pace}, {}, a ring of {}, {}, wait: {}, {timed} timed",
        args.message_size,
        sizes::things(args.consumers, "consumer", "consumers"),
        sizes::shown(args.ring_bytes()),
        args.policy.name(),
        args.wait.name(),
    )
}

fn percentile_lines(measured: &Measured) -> Vec<String> {
    let all = measured.all().total();
    let each: Vec<Interval> = measured.consumers.iter().map(|(_, t)| t.total()).collect();
    let single = if each.len() > 1 { &each[..] } else { &[] };
    let columns = |of: &dyn Fn(&Interval) -> String| -> Vec<String> {
        std::iter::once(&all).chain(single).map(of).collect()
    };
    let row = |(label, _, quantile): &(&str, &str, f64)| {
        let mut row = vec![(*label).to_owned()];
        row.extend(columns(&|interval| percentiles::shown(&interval.latencies, *quantile)));
        row
    };
    let rows: Vec<Vec<String>> = PERCENTILES.iter().map(row).collect();
    let mut heading = vec!["percentile".to_owned(), "latency".to_owned()];
    heading.extend((1..=single.len()).map(|k| format!("consumer {k}")));
    table::wide(&heading, &rows)
}

fn interval_lines(args: &Args, measured: &Measured) -> Vec<String> {
    let (all, consumers) = (measured.all(), measured.consumers.len() as f64);
    let row = |name: String, interval: &Interval, seconds: f64| {
        let per_second = interval.count as f64 / seconds / consumers;
        let at = |quantile| percentiles::shown(&interval.latencies, quantile);
        let missed = sizes::count(interval.missed);
        let bytes = per_second * args.message_size as f64 / 1e6;
        let bytes = format!("{bytes:.1} MB/s");
        [name, rate(per_second), bytes, at(0.5), at(0.99), at(0.999), at(1.0), missed]
    };
    let mut rows: Vec<[String; 8]> = Vec::new();
    for (number, interval) in all.intervals.iter().enumerate() {
        let (begin, seconds) = measured.span.interval(number);
        rows.push(row(format!("from {begin:.1} s"), interval, seconds));
    }
    rows.push(row("all".to_owned(), &all.total(), measured.span.seconds()));
    let rate = if consumers > 1.0 { "each consumer" } else { "messages" };
    table::lines(["interval", rate, "bytes", "median", "p99", "p99.9", "max", "missed"], &rows)
}

/// The comparison with Olive's result, if it is the same workload.
fn goal_lines(args: &Args, measured: &Measured) -> Vec<String> {
    if (args.message_size, args.consumers, args.rate) != (32, 1, 0) {
        return Vec::new();
    }
    let ours = measured.all().total().count as f64 / measured.span.seconds();
    let [theirs, ratio, goal] = goals::compare(goals::of(WORKLOAD, "messages_per_s"), ours, rate);
    let rows = [["messages".to_owned(), rate(ours), theirs, ratio, goal]];
    let mut lines =
        table::lines(["as fast as possible", "here", "Olive*", "ratio*", "goal"], &rows);
    lines.push(format!("\n{}\n", goals::NOTE));
    lines
}

/// The lines that report undelivered messages, and that all others were verified.
fn losses(measured: &Measured) -> Vec<String> {
    let sent = &measured.sent;
    let mut lines = Vec::new();
    if sent.unsent > 0 {
        let unsent = sizes::things(sent.unsent, "message", "messages");
        lines.push(format!(
            "The rate was not reached: {unsent} were due, but still unsent a second after the end."
        ));
    }
    for (number, (taken, _)) in (1..).zip(&measured.consumers) {
        if taken.missed + taken.dropped > 0 {
            lines.push(format!(
                "Consumer {number} missed {}, and was dropped {}.",
                sizes::things(taken.missed, "message", "messages"),
                sizes::things(taken.dropped, "time", "times"),
            ));
        }
    }
    let sent = sizes::things(sent.messages, "message", "messages");
    lines.push(format!("{sent} sent, including the warm-up; every message received was verified."));
    lines
}
