//! File servers in Prometheus' format: sums over all workers of a place, including those that are
//! gone, and a few metrics of each worker.

use super::text::{Kind, Text};
use crate::monitor::workers::{Sum, Worker, Workers};
use std::collections::BTreeMap;

/// Upper bounds of the latency buckets, in microseconds.
const ENDS_US: [u64; 17] = [
    25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 10_000_000,
];
const DURATION: &str = "hold_server_request_duration_seconds";

type Metric<T> = (&'static str, &'static str, fn(&T) -> u64);

const COUNTERS: [Metric<Sum>; 11] = [
    ("hold_server_requests_total", "Answered requests.", |s| s.counts.requests),
    ("hold_server_hits_total", "Answers from the cache.", |s| s.counts.hits),
    ("hold_server_misses_total", "Responses with contents that were not in the cache.", |s| {
        s.counts.misses
    }),
    ("hold_server_not_found_total", "Requests for files that do not exist.", |s| {
        s.counts.not_found
    }),
    ("hold_server_refused_total", "Other responses with a status of 400 and above.", |s| {
        s.counts.refused
    }),
    ("hold_server_broken_total", "Responses that were not sent completely.", |s| s.counts.broken),
    ("hold_server_sent_bytes_total", "Bytes passed to the system to send.", |s| s.counts.bytes),
    ("hold_server_connections_total", "Accepted connections.", |s| s.counts.accepted),
    ("hold_server_timeouts_total", "Connections closed because their peer took too long.", |s| {
        s.counts.timed_out
    }),
    ("hold_server_cache_evicted_total", "Contents evicted to make room.", |s| s.cache.evicted),
    ("hold_server_cache_refused_total", "Contents for which the cache had no room.", |s| {
        s.cache.refused
    }),
];

const GAUGES: [Metric<Sum>; 5] = [
    ("hold_server_workers", "Workers that report.", |s| s.workers),
    ("hold_server_open_connections", "Open connections.", |s| s.counts.open),
    ("hold_server_cache_entries", "Contents in the cache.", |s| s.cache.entries),
    ("hold_server_cache_bytes", "Bytes of the contents in the cache.", |s| s.cache.bytes),
    ("hold_server_cache_limit_bytes", "Maximum number of bytes in the cache.", |s| {
        s.cache.limit_bytes
    }),
];

const OF_WORKERS: [(Metric<Worker>, Kind); 3] = [
    (
        ("hold_server_worker_requests_total", "Requests that one worker answered.", |w| {
            w.says.counts.requests
        }),
        Kind::Counter,
    ),
    (
        (
            "hold_server_worker_sent_bytes_total",
            "Bytes that one worker passed to the system to send.",
            |w| w.says.counts.bytes,
        ),
        Kind::Counter,
    ),
    (
        ("hold_server_worker_open_connections", "Connections that one worker has open.", |w| {
            w.says.counts.open
        }),
        Kind::Gauge,
    ),
];

pub fn write(text: &mut Text, workers: &Workers) {
    let sums = workers.sums();
    for (metrics, kind) in [(&COUNTERS[..], Kind::Counter), (&GAUGES[..], Kind::Gauge)] {
        for (name, help, value) in metrics {
            let samples =
                sums.iter().map(|(place, sum)| (vec![("server", &**place)], value(sum) as f64));
            text.family(name, kind, help, samples);
        }
    }
    durations(text, &sums);
    let present = workers.present();
    for ((name, help, value), kind) in OF_WORKERS {
        let samples = present.iter().map(|worker| {
            let labels = vec![("server", &*worker.place), ("worker", &*worker.id)];
            (labels, value(worker) as f64)
        });
        text.family(name, kind, help, samples);
    }
}

fn durations(text: &mut Text, sums: &BTreeMap<String, Sum>) {
    if sums.is_empty() {
        return;
    }
    let help = "Time from the end of a request's head until the system has the whole response, to 1 \
                %.";
    text.head(DURATION, "histogram", help);
    for (place, sum) in sums {
        let (bucket, count) = (format!("{DURATION}_bucket"), sum.latency.count() as f64);
        for end in ENDS_US {
            let (le, passed) = ((end as f64 / 1e6).to_string(), sum.latency.at_most(end) as f64);
            text.sample(&bucket, &[("server", place), ("le", &le)], passed);
        }
        text.sample(&bucket, &[("server", place), ("le", "+Inf")], count);
        let server = [("server", &**place)];
        text.sample(&format!("{DURATION}_sum"), &server, sum.latency.sum_us() as f64 / 1e6);
        text.sample(&format!("{DURATION}_count"), &server, count);
    }
}
