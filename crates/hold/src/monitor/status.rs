//! All statistics as JSON, for programs: the contents of the hold as in `hold stat --format json`.
//! Times are in microseconds where a name says so, else in milliseconds.

use super::history::RECENT;
use super::observer::{Live, Observer, now_ms};
use super::workers::{Sum, Worker};
use crate::report::latency_buckets::Buckets;
use crate::report::{self, channel, log, map, queue};
use serde_json::{Value, json};

/// The document.
///
/// # Errors
/// Those of reading the hold.
pub fn json(observer: &Observer) -> commonhold::Result<String> {
    let inventory = observer.inventory()?;
    let live = observer.live();
    let document = json!({
        "title": observer.title,
        "at_ms": now_ms(),
        "servers": live.workers.sums().iter().map(|(place, sum)| server(place, sum)).collect::<Vec<_>>(),
        "workers": live.workers.present().into_iter().map(worker).collect::<Vec<_>>(),
        "latency_us": latency(&live),
        "history": live.history.samples().collect::<Vec<_>>(),
        "hold": report::hold::json(&inventory.hold),
        "maps": inventory.maps.iter().map(map::json).collect::<Vec<_>>(),
        "queues": inventory.queues.iter().map(queue::json).collect::<Vec<_>>(),
        "channels": inventory.channels.iter().map(|(name, stat)| channel::json(name, stat)).collect::<Vec<_>>(),
        "logs": inventory.logs.iter().map(|(name, stat)| log::json(name, stat)).collect::<Vec<_>>(),
        "reports": inventory.reports,
    });
    Ok(document.to_string())
}

fn server(place: &str, sum: &Sum) -> Value {
    json!({
        "place": place,
        "workers": sum.workers,
        "counts": sum.counts,
        "cache": sum.cache,
        "latency_us": sum.latency.summary(),
    })
}

fn worker(worker: &Worker) -> Value {
    let (says, recent) = (&worker.says, &worker.recent);
    json!({
        "place": worker.place,
        "id": worker.id,
        "pid": says.pid,
        "listens": says.listens,
        "serves": says.serves,
        "running_ms": says.running_ms,
        "counts": says.counts,
        "store": says.store,
        "requests_per_second": recent.requests,
        "bytes_per_second": recent.bytes,
        "latency_us": worker.latency.summary(),
    })
}

fn latency(live: &Live) -> Value {
    let mut all = Buckets::default();
    live.workers.sums().values().for_each(|sum| all.add(&sum.latency));
    json!({
        "all": all.summary(),
        "recent": live.history.latency().summary(),
        "recent_seconds": RECENT,
    })
}
