//! The reports of workers of file servers, as `hold stat` shows them: one line each.

use super::latency_buckets::Buckets;
use super::table::Table;
use commonhold::Hold;
use commonhold_files::ServerReport;
use commonhold_io::reports::reports;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{count, shown};
use serde_json::{Value, json};
use std::time::Duration;

/// Workers that report, by the directory that they serve.
pub struct Servers(Vec<(String, ServerReport)>);

impl Servers {
    /// Those of a hold. The reports are of other processes, perhaps of another version: invalid
    /// ones are left out.
    pub fn of_hold(hold: &Hold) -> Result<Servers> {
        let reports = reports(hold)?.into_iter().filter(|report| report.what == "server");
        let servers = reports.filter_map(|report| {
            let says = serde_json::from_value(report.says).ok()?;
            Some((report.map, says))
        });
        Ok(Servers(servers.collect()))
    }

    /// Puts them into a JSON object, under `servers`.
    pub fn put(&self, json: &mut Value) {
        json["servers"] = self.0.iter().map(|(place, says)| worker_json(place, says)).collect();
    }

    /// Shows them as a table, if there are any, after an empty line.
    pub fn show(&self, output: &Output) -> Result<()> {
        match self.0.is_empty() {
            true => Ok(()),
            false => output.text(&format!("\n{}", self.table().text())),
        }
    }

    fn table(&self) -> Table {
        let columns =
            ["server of", "pid>", "requests>", "hits>", "sent>", "open>", "p50>", "p99>", "up>"];
        let mut table = Table::new(&columns);
        for (place, says) in &self.0 {
            let (counts, latency) = (&says.counts, Buckets::of(&says.latency_us));
            let time = |share| latency.percentile(share).map_or("-".to_owned(), time);
            table.row([
                place.clone(),
                says.pid.to_string(),
                count(counts.requests),
                hits(counts.hits, counts.misses),
                shown(counts.bytes),
                count(counts.open),
                time(0.5),
                time(0.99),
                humantime::format_duration(Duration::from_secs(says.running_ms / 1000)).to_string(),
            ]);
        }
        table
    }
}

fn hits(hits: u64, misses: u64) -> String {
    match hits.saturating_add(misses) {
        0 => "-".to_owned(),
        all => format!("{:.1}%", hits as f64 / all as f64 * 100.0),
    }
}

fn time(us: u64) -> String {
    match us {
        0..10_000 => format!("{us} us"),
        10_000..10_000_000 => format!("{} ms", us / 1000),
        _ => format!("{} s", us / 1_000_000),
    }
}

fn worker_json(place: &str, says: &ServerReport) -> Value {
    json!({
        "place": place,
        "pid": says.pid,
        "listens": says.listens,
        "serves": says.serves,
        "running_ms": says.running_ms,
        "counts": says.counts,
        "store": says.store,
        "latency_us": Buckets::of(&says.latency_us).summary(),
    })
}
