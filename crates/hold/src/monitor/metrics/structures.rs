//! The hold and its contents, in Prometheus' format.

use super::text::{Kind, Text};
use crate::monitor::inventory::Inventory;
use Kind::{Counter, Gauge};
use commonhold::channel::{ChannelStat, ConsumerInfo};
use commonhold::hold::{HoldKind, HoldStat};
use commonhold::log::LogStat;
use commonhold::map::{MapMode, MapStat};
use commonhold::queue::NamedQueueStat;

/// Name, kind, help and value of a metric.
type Metric<T> = (&'static str, Kind, &'static str, fn(&T) -> f64);

const HOLD: [Metric<HoldStat>; 7] = [
    ("hold_memory_bytes", Gauge, "Memory or disk space that the hold takes.", |h| {
        h.memory_bytes as f64
    }),
    ("hold_file_bytes", Gauge, "Length of the hold's file.", |h| h.file_bytes as f64),
    ("hold_used_bytes", Gauge, "Bytes in use.", |h| h.used_bytes as f64),
    ("hold_free_bytes", Gauge, "Free bytes in the file.", |h| h.free_bytes as f64),
    ("hold_max_bytes", Gauge, "The hold's size limit.", |h| h.max_bytes as f64),
    ("hold_participants", Gauge, "Living participants.", |h| h.participants.into()),
    ("hold_maps", Gauge, "Maps.", |h| h.maps.into()),
];

const MAP: [Metric<MapStat>; 4] = [
    ("hold_map_pairs", Gauge, "Pairs of a map.", |m| m.len as f64),
    ("hold_map_index_bytes", Gauge, "Bytes of a map's index.", |m| m.index_bytes as f64),
    ("hold_map_record_bytes", Gauge, "Bytes of a map's records.", |m| m.record_bytes as f64),
    ("hold_map_load_ratio", Gauge, "Share of a map's slots in use, 0 to 1.", |m| m.load),
];

const CACHE: [Metric<MapStat>; 4] = [
    ("hold_map_hits_total", Counter, "Look-ups in a cache that found a pair.", |m| m.hits as f64),
    ("hold_map_misses_total", Counter, "Look-ups in a cache that found none.", |m| m.misses as f64),
    ("hold_map_expired_total", Counter, "Pairs of a cache that expired and were removed.", |m| {
        m.expired as f64
    }),
    ("hold_map_evicted_total", Counter, "Pairs of a cache removed to make room.", |m| {
        m.evicted as f64
    }),
];

const NAMED_QUEUE: [Metric<NamedQueueStat>; 3] = [
    ("hold_queue_length", Gauge, "Elements in a named queue.", |q| q.len as f64),
    ("hold_queue_pushed_total", Counter, "Elements pushed, including the initial ones.", |q| {
        q.pushed as f64
    }),
    ("hold_queue_pulled_total", Counter, "Elements pulled.", |q| q.pulled as f64),
];

const CHANNEL: [Metric<ChannelStat>; 5] = [
    ("hold_channel_sent_messages_total", Counter, "Messages ever sent.", |c| c.sequence as f64),
    ("hold_channel_sent_bytes_total", Counter, "Bytes ever sent, with headers and fillers.", |c| {
        c.sent_bytes as f64
    }),
    ("hold_channel_kept_bytes", Gauge, "Bytes from the oldest readable message on.", |c| {
        c.kept_bytes as f64
    }),
    ("hold_channel_producers", Gauge, "Whether a living producer exists.", |c| {
        f64::from(c.producer.is_some())
    }),
    (
        "hold_channel_consumers",
        Gauge,
        "Living consumers; read-only ones are not registered.",
        |c| c.consumers.len() as f64,
    ),
];

const CONSUMER: [Metric<ConsumerInfo>; 3] = [
    (
        "hold_channel_consumer_lag_messages",
        Gauge,
        "Messages that a consumer has not read yet.",
        |c| c.lag_messages as f64,
    ),
    ("hold_channel_consumer_lag_bytes", Gauge, "Bytes that a consumer has not read yet.", |c| {
        c.lag_bytes as f64
    }),
    (
        "hold_channel_consumer_missed_total",
        Counter,
        "Messages that a lossy consumer has missed.",
        |c| c.missed as f64,
    ),
];

const LOG: [Metric<LogStat>; 7] = [
    ("hold_log_lines_total", Counter, "Lines written, including dropped ones.", |l| {
        l.used.iter().map(|ring| ring.lines as f64).sum()
    }),
    ("hold_log_dropped_lines_total", Counter, "Lines dropped because their ring was full.", |l| {
        l.dropped as f64
    }),
    ("hold_log_refused_lines_total", Counter, "Lines dropped because no ring was free.", |l| {
        l.refused as f64
    }),
    (
        "hold_log_overwritten_lines_total",
        Counter,
        "Lines overwritten before they were collected.",
        |l| l.overwritten as f64,
    ),
    ("hold_log_waiting_bytes", Gauge, "Bytes of lines that are not collected yet.", |l| {
        l.waiting_bytes as f64
    }),
    ("hold_log_threads", Gauge, "Threads that have written so far.", |l| l.threads.into()),
    ("hold_log_collectors", Gauge, "Whether a collector runs.", |l| {
        f64::from(l.collector.is_some())
    }),
];

pub fn write(text: &mut Text, inventory: &Inventory) {
    let hold = &inventory.hold;
    let (path, kind) = (
        hold.path.to_string_lossy(),
        match hold.kind {
            HoldKind::Memory => "memory",
            HoldKind::File => "file",
        },
    );
    let format = hold.format.to_string();
    let (help, labels) = (
        "The hold of these metrics, and the version of the program that reads it.",
        vec![
            ("path", &*path),
            ("uuid", &*hold.uuid),
            ("kind", kind),
            ("version", env!("CARGO_PKG_VERSION")),
            ("format", &*format),
        ],
    );
    text.family("hold_info", Gauge, help, [(labels, 1.0)]);
    for (name, kind, help, value) in HOLD {
        text.family(name, kind, help, [(vec![], value(hold))]);
    }
    maps(text, &inventory.maps);
    queues(text, inventory);
    channels(text, &inventory.channels);
    for (name, kind, help, value) in LOG {
        let samples = inventory.logs.iter().map(|(log, stat)| (vec![("log", &**log)], value(stat)));
        text.family(name, kind, help, samples);
    }
}

fn maps(text: &mut Text, maps: &[MapStat]) {
    let caches = || maps.iter().filter(|map| matches!(map.mode, MapMode::Cache { .. }));
    for (name, kind, help, value) in MAP {
        text.family(
            name,
            kind,
            help,
            maps.iter().map(|map| (vec![("map", &*map.name)], value(map))),
        );
    }
    for (name, kind, help, value) in CACHE {
        text.family(name, kind, help, caches().map(|map| (vec![("map", &*map.name)], value(map))));
    }
    let sizes: Vec<(&str, String, u64, u64)> = caches()
        .flat_map(|map| {
            map.sizes.iter().map(|s| (&*map.name, s.up_to_bytes.to_string(), s.pairs, s.bytes))
        })
        .collect();
    let labels = |map, up_to| vec![("map", map), ("up_to_bytes", up_to)];
    let pairs = sizes.iter().map(|(map, up_to, pairs, _)| (labels(*map, &**up_to), *pairs as f64));
    let help = "Pairs of a cache by the size of their records: at most this many bytes, and more than \
         half of that.";
    text.family("hold_map_size_class_pairs", Gauge, help, pairs);
    let bytes = sizes.iter().map(|(map, up_to, _, bytes)| (labels(*map, &**up_to), *bytes as f64));
    text.family(
        "hold_map_size_class_bytes",
        Gauge,
        "Bytes of a cache's pairs by the size of their records.",
        bytes,
    );
    let streams = || maps.iter().filter_map(|map| Some((&*map.name, map.stream?)));
    let kept = streams().map(|(map, stream)| (vec![("map", map)], stream.bytes as f64));
    text.family("hold_stream_bytes", Gauge, "Bytes of changes that a map's stream keeps.", kept);
    let written = streams().map(|(map, stream)| (vec![("map", map)], stream.end.offset as f64));
    text.family(
        "hold_stream_written_bytes_total",
        Counter,
        "Bytes of changes since a map's stream began.",
        written,
    );
}

fn queues(text: &mut Text, inventory: &Inventory) {
    let queues = &inventory.queues;
    let all = queues.iter().map(|q| (vec![("queue", &*q.name)], q.elements.into()));
    text.family("hold_queue_elements", Gauge, "All elements of a queue.", all);
    let held = queues.iter().map(|q| {
        (vec![("queue", &*q.name)], q.holders.iter().map(|holder| holder.elements as f64).sum())
    });
    text.family("hold_queue_in_flight_elements", Gauge, "Elements in flight.", held);
    for (name, kind, help, value) in NAMED_QUEUE {
        let samples = queues.iter().flat_map(|queue| {
            let named = queue.queues.iter();
            named.map(|one| (vec![("queue", &*queue.name), ("name", &*one.name)], value(one)))
        });
        text.family(name, kind, help, samples);
    }
}

fn channels(text: &mut Text, channels: &[(String, ChannelStat)]) {
    for (name, kind, help, value) in CHANNEL {
        let samples =
            channels.iter().map(|(channel, stat)| (vec![("channel", &**channel)], value(stat)));
        text.family(name, kind, help, samples);
    }
    // One process may consume a channel several times, from one slot: a number distinguishes these.
    let consumers: Vec<(&str, String, &ConsumerInfo)> = channels
        .iter()
        .flat_map(|(channel, stat)| {
            let consumers = stat.consumers.iter().enumerate();
            consumers.map(|(place, one)| {
                let before = &stat.consumers[..place];
                let number = before.iter().filter(|other| other.peer == one.peer).count();
                (&**channel, format!("{}-{}-{number}", one.peer.pid, one.peer.slot), one)
            })
        })
        .collect();
    for (name, kind, help, value) in CONSUMER {
        let samples = consumers.iter().map(|(channel, who, one)| {
            (vec![("channel", *channel), ("consumer", &**who)], value(one))
        });
        text.family(name, kind, help, samples);
    }
}
