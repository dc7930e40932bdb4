//! The results of `hold bench files`, for programs and for people.

use super::Args;
use super::ask::Requests;
use super::load::Measured;
use crate::bench::{
    percentiles::{self, PERCENTILES},
    plot::{
        curves,
        page::{self, Words},
    },
    table::{self, rate},
};
use crate::workload::{Result, latency::show, results::Results};
use commonhold_terminal::sizes;
use std::path::Path;

impl Measured {
    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds
    }

    /// Bytes of bodies per second.
    pub fn byte_rate(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }

    /// Requests per second of the server's processor time; `None` if that is unknown or too small
    /// to measure.
    pub fn per_server_second(&self) -> Option<f64> {
        let seconds = self.server_seconds.filter(|seconds| *seconds > 0.0)?;
        Some(self.answered as f64 / seconds)
    }
}

/// Adds all results of one run.
pub fn add(results: &mut Results, system: &str, workload: &str, measured: &Measured) {
    let mut put = |metric: &str, value: f64, unit: &str| {
        results.add(system, workload, metric, value, unit);
    };
    put("requests_per_s", measured.rate(), "requests/s");
    put("bytes_per_s", measured.byte_rate(), "bytes/s");
    put("answered", measured.answered as f64, "requests");
    put("unknown_answered", measured.unknown as f64, "requests");
    put("unsent", measured.unsent as f64, "requests");
    put("reopened", measured.reopened as f64, "connections");
    put("time_s", measured.seconds, "s");
    if let Some(seconds) = measured.server_seconds {
        put("server_cpu_s", seconds, "s");
    }
    if let Some(rate) = measured.per_server_second() {
        put("requests_per_server_cpu_s", rate, "requests/s");
    }
    let latencies = &measured.timeline.total().latencies;
    percentiles::add(results, system, workload, latencies);
    results.add(system, workload, "latency_ns_deviation", latencies.deviation(), "ns");
}

/// The run in a line.
pub fn title(args: &Args, requests: &Requests) -> String {
    let asking = &args.asking;
    let order = match asking.zipf {
        s if s > 0.0 => format!("Zipf {s}"),
        _ => "uniform".to_owned(),
    };
    let kept = if asking.keeps_alive() { "connections kept" } else { "a connection each" };
    format!(
        "{}, {} ({}), {}, {kept}, {order}, {}",
        sizes::things(requests.files() as u64, "file", "files"),
        sizes::shown(requests.bytes),
        asking.layout.name(),
        asking.protocol.name(),
        args.load.shown()
    )
}

/// The lines that show one run to people.
pub fn lines(args: &Args, requests: &Requests, measured: &Measured) -> Vec<String> {
    let mut lines = vec![title(args, requests), args.serving.shown(), String::new()];
    let latencies = measured.timeline.total().latencies;
    let row = |(label, _, quantile): &(&str, &str, f64)| {
        [(*label).to_owned(), percentiles::shown(&latencies, *quantile)]
    };
    let mut rows: Vec<[String; 2]> = PERCENTILES.iter().map(row).collect();
    rows.push(["mean".to_owned(), show(latencies.mean() as u64)]);
    rows.push(["deviation".to_owned(), show(latencies.deviation() as u64)]);
    lines.extend(table::lines(["percentile", "latency"], &rows));
    lines.push(String::new());
    lines.extend(table::lines(SUMMARY, &[summary(measured)]));
    lines.push(String::new());
    lines.push(verified(measured));
    lines.extend(losses(measured));
    lines.extend(left_out(requests));
    lines
}

const SUMMARY: [&str; 6] =
    ["answered", "requests", "MB/s", "unknown", "server's CPU time", "per server CPU second"];

fn summary(measured: &Measured) -> [String; 6] {
    let dash = || "-".to_owned();
    [
        sizes::count(measured.answered),
        rate(measured.rate()),
        format!("{:.1}", measured.byte_rate() / 1e6),
        sizes::count(measured.unknown),
        measured.server_seconds.map_or_else(dash, |seconds| format!("{seconds:.2} s")),
        measured.per_server_second().map_or_else(dash, rate),
    ]
}

fn verified(measured: &Measured) -> String {
    match measured.unknown {
        0 => "Every response body was verified against its hash.".to_owned(),
        _ => "Every response body was verified against its hash, every unknown id refused."
            .to_owned(),
    }
}

/// Remarks on the run that are not errors.
fn losses(measured: &Measured) -> Vec<String> {
    let mut lines = Vec::new();
    if measured.unsent > 0 {
        lines.push(format!(
            "{} were due and not sent: the server or the connections cannot sustain the rate.",
            sizes::things(measured.unsent, "request", "requests")
        ));
    }
    if measured.reopened > 0 {
        lines.push(format!(
            "The server closed {} that should stay open; they were opened again.",
            sizes::things(measured.reopened, "connection", "connections")
        ));
    }
    lines
}

/// Entries that cannot be requested.
pub fn left_out(requests: &Requests) -> Option<String> {
    let things = sizes::things(requests.left_out, "thing", "things");
    (requests.left_out > 0)
        .then(|| format!("{things} in the directory cannot be requested and were left out."))
}

/// Draws the run to `path`; `place` says where it was measured.
pub fn draw(
    args: &Args,
    requests: &Requests,
    measured: &Measured,
    path: &Path,
    place: &str,
) -> Result<()> {
    let about = [title(args, requests), args.serving.shown()];
    let lines = about.into_iter().chain(place.lines().map(str::to_owned)).collect();
    let words = Words { title: "hold bench files".to_owned(), lines };
    let named = [(args.asking.protocol.name().to_owned(), &measured.timeline)];
    let mut charts = vec![curves::by_percentile(&named)];
    if args.load.has_intervals() {
        charts.push(curves::over_time(&measured.timeline));
        charts.push(curves::throughput("Requests", &named));
    }
    page::write(path, &words, &charts)
}
