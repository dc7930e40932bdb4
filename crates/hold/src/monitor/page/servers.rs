//! File servers: their present state, the last minutes, each worker, the cache.

use super::chart::{Chart, Curve, Scale};
use super::markup::{Table, escaped};
use crate::monitor::history::{RECENT, Sample};
use crate::monitor::inventory::Inventory;
use crate::monitor::observer::Live;
use crate::monitor::workers::{Sum, errors, hit_rate};
use crate::report::latency_buckets::{Buckets, Summary};
use crate::report::numbers::{self, byte_rate, bytes, maybe_time, power, rate, share, span};
use commonhold::map::SizeStat;
use commonhold_files::store::caches;
use commonhold_terminal::sizes::{count, things};
use std::collections::BTreeMap;

/// Shown if there is no server.
pub const NONE: &str =
    "<section><h2>Workers</h2>\n<p class=\"alarm\">No worker is reporting.</p></section>\n";

/// All of it; nothing, if there never was a server.
pub fn section(live: &Live, inventory: &Inventory) -> String {
    let sums = live.workers.sums();
    if sums.is_empty() {
        return String::new();
    }
    let mut all = Sum::default();
    sums.values().for_each(|sum| all.add(sum));
    let now = live.history.last();
    let recently = live.history.latency();
    [
        tiles(&all, &now, &recently),
        charts(live),
        "<div class=\"pair\">\n".to_owned(),
        latency(&all, &recently),
        totals(&all),
        "</div>\n".to_owned(),
        workers(live),
        contents(&all, &sizes(inventory)),
    ]
    .concat()
}

fn tiles(all: &Sum, now: &Sample, recently: &Buckets) -> String {
    let tile = |id: &str, name: &str, value: String, below: String| {
        format!(
            "<div id=\"{id}\"><dt>{name}</dt><dd>{}<small>{}</small></dd></div>\n",
            escaped(&value),
            escaped(&below)
        )
    };
    let counts = &all.counts;
    let hits = hit_rate(counts.hits as f64, counts.misses as f64);
    let wrong = errors(counts);
    [
        "<dl class=\"tiles\">\n".to_owned(),
        tile(
            "requests",
            "requests/s",
            rate(now.requests_per_second),
            format!("{} total", count(counts.requests)),
        ),
        tile("hits", "hit rate", share(now.hit_rate), format!("{} overall", share(hits))),
        tile(
            "sent",
            "sent",
            byte_rate(now.bytes_per_second),
            format!("{} total", bytes(counts.bytes)),
        ),
        tile(
            "open",
            "open connections",
            count(now.open),
            format!("{} total", count(counts.accepted)),
        ),
        tile(
            "p99",
            &format!("p99, last {RECENT} s"),
            maybe_time(recently.percentile(0.99)),
            format!("{} overall", maybe_time(all.latency.percentile(0.99))),
        ),
        tile("errors", "errors/s", rate(now.errors_per_second), format!("{} total", count(wrong))),
        "</dl>\n".to_owned(),
    ]
    .concat()
}

fn charts(live: &Live) -> String {
    let curve = |name, class, value: fn(&Sample) -> Option<f64>| Curve {
        name,
        class,
        values: live.history.samples().map(value).collect(),
    };
    let requests = Chart {
        title: "Requests per second",
        scale: Scale::Linear,
        curves: vec![curve("now", "one", |sample| Some(sample.requests_per_second))],
        shown: rate,
    };
    let latency = Chart {
        title: "Latency",
        scale: Scale::Log,
        curves: vec![
            curve("p50", "one", |sample| sample.p50_us.map(|us| us as f64)),
            curve("p99", "two", |sample| sample.p99_us.map(|us| us as f64)),
        ],
        shown: |us| numbers::time(us as u64),
    };
    format!("<div class=\"pair\">\n{}{}</div>\n", requests.html(), latency.html())
}

fn latency(all: &Sum, recently: &Buckets) -> String {
    let mut table = Table::new(&["", "p50>", "p90>", "p99>", "p99.9>", "max>", "responses>"]);
    let mut row = |name: &str, summary: Summary| {
        let times = [summary.p50, summary.p90, summary.p99, summary.p999, summary.max];
        let times = times.into_iter().map(maybe_time);
        table.row([name.to_owned()].into_iter().chain(times).chain([count(summary.count)]));
    };
    row(&format!("last {RECENT} s"), recently.summary());
    row("since start", all.latency.summary());
    table.section("Latencies")
}

fn totals(all: &Sum) -> String {
    let (counts, cache) = (&all.counts, &all.cache);
    let columns =
        ["", "unknown ids>", "refused>", "broken off>", "timed out>", "evicted>", "no room>"];
    let mut table = Table::new(&columns);
    let numbers = [
        counts.not_found,
        counts.refused,
        counts.broken,
        counts.timed_out,
        cache.evicted,
        cache.refused,
    ];
    table.row(["since start".to_owned()].into_iter().chain(numbers.map(count)));
    table.section("Errors and evictions")
}

fn workers(live: &Live) -> String {
    let present = live.workers.present();
    let names = [
        "process",
        "requests/s>",
        "requests>",
        "hit rate>",
        "sent>",
        "open>",
        "p50>",
        "p99>",
        "errors>",
        "up>",
    ];
    let is_one_place = present.windows(2).all(|pair| pair[0].place == pair[1].place);
    let mut columns = names.to_vec();
    if !is_one_place {
        columns.push("serves");
    }
    let mut table = Table::new(&columns);
    for worker in &present {
        let counts = &worker.says.counts;
        let p = |share| maybe_time(worker.latency.percentile(share));
        table.row([
            worker.says.pid.to_string(),
            rate(worker.recent.requests),
            count(counts.requests),
            share(hit_rate(counts.hits as f64, counts.misses as f64)),
            bytes(counts.bytes),
            count(counts.open),
            p(0.5),
            p(0.99),
            count(errors(counts)),
            span(worker.says.running_ms),
            worker.place.clone(),
        ]);
    }
    if present.is_empty() {
        return NONE.to_owned();
    }
    let how: Vec<&str> = present.iter().map(|worker| &*worker.says.serves).collect();
    let mut how: Vec<_> = how.into_iter().filter(|words| !words.is_empty()).collect();
    how.dedup();
    let listens = present.iter().flat_map(|worker| &worker.says.listens);
    let mut listens: Vec<&str> = listens.map(|address| &**address).collect();
    listens.sort_unstable();
    listens.dedup();
    format!(
        "<section><h2>{}</h2>\n{}<p class=\"note\">at {}; {}</p></section>\n",
        things(present.len() as u64, "worker", "workers"),
        table.html(),
        escaped(&listens.join(", ")),
        escaped(&how.join("; "))
    )
}

/// The cache, by size.
/// The contents of all caches of files.
fn sizes(inventory: &Inventory) -> Vec<SizeStat> {
    let caches = inventory.maps.iter().filter(|map| caches::is_one(&map.name));
    let mut all = BTreeMap::new();
    for &SizeStat { up_to_bytes, pairs, bytes } in caches.flat_map(|map| &map.sizes) {
        let sum = all.entry(up_to_bytes).or_insert(SizeStat { up_to_bytes, pairs: 0, bytes: 0 });
        (sum.pairs, sum.bytes) = (sum.pairs + pairs, sum.bytes + bytes);
    }
    all.into_values().collect()
}

fn contents(all: &Sum, sizes: &[SizeStat]) -> String {
    let cache = &all.cache;
    let part =
        share((cache.limit_bytes > 0).then(|| cache.bytes as f64 / cache.limit_bytes as f64));
    let words = format!(
        "{}, {} of {} ({part})",
        things(cache.entries, "entry", "entries"),
        bytes(cache.bytes),
        bytes(cache.limit_bytes)
    );
    format!("<section><h2>Cache</h2>\n<p>{}</p>\n{}</section>\n", escaped(&words), bars(sizes))
}

/// A row with a bar for each size, the empty ones in between, too.
fn bars(sizes: &[SizeStat]) -> String {
    let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else { return String::new() };
    let most = sizes.iter().map(|size| size.bytes).max().unwrap_or_default().max(1) as f64;
    let mut rows = String::new();
    let powers = first.up_to_bytes.trailing_zeros()..=last.up_to_bytes.trailing_zeros();
    for up_to in powers.map(|power| 1u64 << power) {
        let found = sizes.iter().find(|size| size.up_to_bytes == up_to);
        let (pairs, size) = found.map_or((0, 0), |found| (found.pairs, found.bytes));
        let width = size as f64 / most * 100.0;
        rows.push_str(&format!(
            "<tr><th scope=\"row\" class=\"n\">≤ {}</th>\
             <td class=\"bar\"><svg role=\"presentation\"><rect width=\"{width:.1}%\" height=\"100%\" rx=\"2\"/></svg></td>\
             <td class=\"n\" data-name=\"bytes\">{}</td><td class=\"n\" data-name=\"entries\">{}</td></tr>\n",
            power(up_to),
            bytes(size),
            count(pairs)
        ));
    }
    format!(
        "<div class=\"wide\"><table class=\"sizes\">\n<thead><tr><th scope=\"col\" class=\"n\">size</th><th></th>\
         <th scope=\"col\" class=\"n\">bytes</th><th scope=\"col\" class=\"n\">entries</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}
