//! The numbers of one look, and the rates since the previous look. `hold top --once --format json`
//! prints them: numbers are numbers, and an unknown rate is null.

use super::process::ProcessState;
use super::watch::{Look, Seen};
use crate::report::mode;
use crate::report::replication::{number, peer, state, word};
use commonhold::channel::{ChannelStat, Peer};
use commonhold::log::LogStat;
use commonhold::map::{MapMode, MapStat};
use commonhold::queue::QueueStat;
use commonhold::stream::StreamStat;
use serde::Serialize;
use serde_json::Value;

/// See the module.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// The time between the two looks; `None` for the first look.
    pub interval_ms: Option<u64>,
    pub hold: HoldView,
    pub maps: Vec<MapView>,
    pub queues: Vec<QueueView>,
    pub channels: Vec<ChannelView>,
    pub logs: Vec<LogView>,
    pub participants: Vec<ParticipantView>,
}

/// The sizes of the hold.
#[derive(Clone, Debug, Serialize)]
pub struct HoldView {
    pub path: String,
    pub used_bytes: u64,
    pub memory_bytes: u64,
    pub max_bytes: u64,
}

/// A map.
#[derive(Clone, Debug, Serialize)]
pub struct MapView {
    pub name: String,
    /// As in `hold stat`.
    pub mode: Value,
    #[serde(skip)]
    pub mode_text: String,
    pub pairs: u64,
    /// Of index and records.
    pub bytes: u64,
    pub stream: Option<StreamView>,
    pub cache: Option<CacheView>,
    /// The replicas that an origin of this map serves.
    pub replicas: Vec<ReplicaView>,
    /// The origin that this map follows.
    pub origin: Option<OriginView>,
}

/// The stream of a map.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StreamView {
    /// The total since the stream began.
    pub written_bytes: u64,
    pub bytes_per_second: Option<f64>,
    /// In the interval.
    pub changes: Option<u64>,
    pub changes_per_second: Option<f64>,
}

/// The counters of a cache. Each handle adds its lookups only when it closes or asks for the
/// statistics, so there is no rate of hits and misses.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CacheView {
    pub hits: u64,
    pub misses: u64,
    pub expired: u64,
    pub evicted: u64,
    pub expired_per_second: Option<f64>,
    pub evicted_per_second: Option<f64>,
}

/// A replica, as its origin reports it once a second.
#[derive(Clone, Debug, Serialize)]
pub struct ReplicaView {
    pub peer: String,
    pub state: String,
    pub lag_bytes: u64,
}

/// An origin, as its replica reports it once a second.
#[derive(Clone, Debug, Serialize)]
pub struct OriginView {
    pub address: String,
    pub state: &'static str,
    pub lag_bytes: u64,
    pub lag_ms: u64,
}

/// A structure of queues.
#[derive(Clone, Debug, Serialize)]
pub struct QueueView {
    pub name: String,
    pub elements: u32,
    /// Pulled by a participant and not pushed again.
    pub in_flight: u64,
    pub queues: Vec<NamedQueueView>,
}

/// One named queue.
#[derive(Clone, Debug, Serialize)]
pub struct NamedQueueView {
    pub name: String,
    pub length: u64,
    pub pushed: u64,
    pub pulled: u64,
    pub pushed_per_second: Option<f64>,
    pub pulled_per_second: Option<f64>,
}

/// A channel.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelView {
    pub name: String,
    pub messages: u64,
    pub bytes: u64,
    pub messages_per_second: Option<f64>,
    pub bytes_per_second: Option<f64>,
    pub producer_pid: Option<u32>,
    /// The process of the consumer for which the producer waits.
    pub waits_for_pid: Option<u32>,
    pub consumers: Vec<ConsumerView>,
}

/// A consumer of a channel.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ConsumerView {
    pub slot: u32,
    pub pid: u32,
    pub lag_messages: u64,
    pub lag_bytes: u64,
    pub missed: u64,
}

/// A log.
#[derive(Clone, Debug, Serialize)]
pub struct LogView {
    pub name: String,
    pub lines: u64,
    pub lines_per_second: Option<f64>,
    /// Lines that were not accepted, for lack of room or of a ring.
    pub dropped: u64,
    pub dropped_per_second: Option<f64>,
    /// Accepted lines that were overwritten before they were collected.
    pub overwritten: u64,
    pub waiting_bytes: u64,
    pub collector_pid: Option<u32>,
}

/// A participant.
#[derive(Clone, Debug, Serialize)]
pub struct ParticipantView {
    pub slot: u32,
    pub generation: u32,
    pub pid: u32,
    pub program: String,
    pub alive: bool,
    /// `None` if the participant is dead, or if its process is not visible from here.
    pub state: Option<ProcessState>,
    /// The locks that it holds, if it is suspended.
    pub locks: Vec<String>,
    pub age_ms: u64,
}

/// The time between two looks.
#[derive(Clone, Copy)]
struct Interval(f64);

impl Interval {
    /// The rate of a counter; `None` if the counter is new, or began again.
    fn rate(interval: Option<Interval>, before: Option<u64>, now: u64) -> Option<f64> {
        let new = now.checked_sub(before?)?;
        interval?.of(new)
    }

    fn of(self, new: u64) -> Option<f64> {
        (self.0 > 0.0).then(|| new as f64 / self.0)
    }
}

impl View {
    /// Compares a look with the one before it.
    pub fn of(now: &Look, before: Option<&Look>) -> View {
        let time = before.map(|before| now.at.saturating_duration_since(before.at));
        let interval = time.map(|time| Interval(time.as_secs_f64()));
        let old = before.map(|before| &before.inventory);
        let (hold, inventory) = (&now.inventory.hold, &now.inventory);
        let queue = |queue: &QueueStat| {
            let same = |other: &&QueueStat| other.name == queue.name;
            QueueView::of(queue, old.and_then(|old| old.queues.iter().find(same)), interval)
        };
        let channel = |(name, stat): &(String, ChannelStat)| {
            ChannelView::of(name, stat, old.and_then(|old| named(&old.channels, name)), interval)
        };
        let log = |(name, stat): &(String, LogStat)| {
            LogView::of(name, stat, old.and_then(|old| named(&old.logs, name)), interval)
        };
        View {
            interval_ms: time.map(|time| time.as_millis().try_into().unwrap_or(u64::MAX)),
            hold: HoldView {
                path: hold.path.to_string_lossy().into_owned(),
                used_bytes: hold.used_bytes,
                memory_bytes: hold.memory_bytes,
                max_bytes: hold.max_bytes,
            },
            maps: inventory
                .maps
                .iter()
                .map(|map| MapView::of(map, now, before, interval))
                .collect(),
            queues: inventory.queues.iter().map(queue).collect(),
            channels: inventory.channels.iter().map(channel).collect(),
            logs: inventory.logs.iter().map(log).collect(),
            participants: now.participants.iter().map(|one| participant(one, now.at_ms)).collect(),
        }
    }
}

fn named<'a, T>(all: &'a [(String, T)], name: &str) -> Option<&'a T> {
    all.iter().find(|(other, _)| other == name).map(|(_, stat)| stat)
}

impl MapView {
    fn of(map: &MapStat, now: &Look, before: Option<&Look>, interval: Option<Interval>) -> MapView {
        let old = before.and_then(|before| before.inventory.map(&map.name));
        let changes = now.changes.get(&map.name).copied().flatten();
        let is_cache = matches!(map.mode, MapMode::Cache { .. });
        MapView {
            name: map.name.clone(),
            mode: mode::json(&map.mode),
            mode_text: mode::text_of(&map.mode, map.replica),
            pairs: map.len,
            bytes: map.index_bytes.saturating_add(map.record_bytes),
            stream: map.stream.map(|stream| {
                StreamView::of(stream, old.and_then(|old| old.stream), changes, interval)
            }),
            cache: is_cache.then(|| CacheView::of(map, old, interval)),
            replicas: replicas(now, &map.name),
            origin: origin(now, &map.name),
        }
    }
}

impl StreamView {
    fn of(
        stream: StreamStat,
        old: Option<StreamStat>,
        changes: Option<u64>,
        interval: Option<Interval>,
    ) -> StreamView {
        // A map that was created again has another stream.
        let old = old.filter(|old| old.end.stream == stream.end.stream);
        StreamView {
            written_bytes: stream.end.offset,
            bytes_per_second: Interval::rate(
                interval,
                old.map(|old| old.end.offset),
                stream.end.offset,
            ),
            changes,
            changes_per_second: changes.and_then(|changes| interval?.of(changes)),
        }
    }
}

impl CacheView {
    fn of(map: &MapStat, old: Option<&MapStat>, interval: Option<Interval>) -> CacheView {
        let rate =
            |field: fn(&MapStat) -> u64| Interval::rate(interval, old.map(field), field(map));
        CacheView {
            hits: map.hits,
            misses: map.misses,
            expired: map.expired,
            evicted: map.evicted,
            expired_per_second: rate(|map| map.expired),
            evicted_per_second: rate(|map| map.evicted),
        }
    }
}

fn replicas(now: &Look, map: &str) -> Vec<ReplicaView> {
    let origins = now.inventory.reports.iter().filter(|r| r.what == "origin" && r.map == map);
    let all = origins.filter_map(|report| report.says["replicas"].as_array()).flatten();
    all.map(|replica| ReplicaView {
        peer: peer(replica),
        state: word(replica, "state").to_owned(),
        lag_bytes: number(replica, "lag_bytes"),
    })
    .collect()
}

fn origin(now: &Look, map: &str) -> Option<OriginView> {
    let is_it = |r: &&commonhold_io::reports::Report| r.what == "replica" && r.map == map;
    let says = &now.inventory.reports.iter().find(is_it)?.says;
    Some(OriginView {
        address: word(says, "origin").to_owned(),
        state: state(says),
        lag_bytes: number(says, "lag_bytes"),
        lag_ms: number(says, "lag_ms"),
    })
}

impl ParticipantView {
    /// Whether its process cannot run until another process continues it.
    pub fn is_suspended(&self) -> bool {
        self.state.is_some_and(ProcessState::is_suspended)
    }
}

impl QueueView {
    fn of(stat: &QueueStat, old: Option<&QueueStat>, interval: Option<Interval>) -> QueueView {
        let one = |queue: &commonhold::queue::NamedQueueStat| {
            let old = old.and_then(|old| old.queues.iter().find(|other| other.name == queue.name));
            NamedQueueView {
                name: queue.name.clone(),
                length: queue.len,
                pushed: queue.pushed,
                pulled: queue.pulled,
                pushed_per_second: Interval::rate(
                    interval,
                    old.map(|old| old.pushed),
                    queue.pushed,
                ),
                pulled_per_second: Interval::rate(
                    interval,
                    old.map(|old| old.pulled),
                    queue.pulled,
                ),
            }
        };
        QueueView {
            name: stat.name.clone(),
            elements: stat.elements,
            in_flight: stat.holders.iter().map(|holder| holder.elements).sum(),
            queues: stat.queues.iter().map(one).collect(),
        }
    }
}

impl ChannelView {
    fn of(
        name: &str,
        stat: &ChannelStat,
        old: Option<&ChannelStat>,
        interval: Option<Interval>,
    ) -> ChannelView {
        let rate =
            |field: fn(&ChannelStat) -> u64| Interval::rate(interval, old.map(field), field(stat));
        let consumer = |consumer: &commonhold::channel::ConsumerInfo| {
            let Peer { slot, pid, .. } = consumer.peer;
            let (lag_messages, lag_bytes) = (consumer.lag_messages, consumer.lag_bytes);
            ConsumerView { slot, pid, lag_messages, lag_bytes, missed: consumer.missed }
        };
        ChannelView {
            name: name.to_owned(),
            messages: stat.sequence,
            bytes: stat.sent_bytes,
            messages_per_second: rate(|stat| stat.sequence),
            bytes_per_second: rate(|stat| stat.sent_bytes),
            producer_pid: stat.producer.map(|peer| peer.pid),
            waits_for_pid: stat.slowest.filter(|_| stat.is_waiting).map(|peer| peer.pid),
            consumers: stat.consumers.iter().map(consumer).collect(),
        }
    }
}

impl LogView {
    fn of(
        name: &str,
        stat: &LogStat,
        old: Option<&LogStat>,
        interval: Option<Interval>,
    ) -> LogView {
        let rate =
            |field: fn(&LogStat) -> u64| Interval::rate(interval, old.map(field), field(stat));
        let lines = |stat: &LogStat| stat.used.iter().map(|ring| ring.lines).sum();
        let dropped = |stat: &LogStat| stat.dropped.saturating_add(stat.refused);
        LogView {
            name: name.to_owned(),
            lines: lines(stat),
            lines_per_second: rate(lines),
            dropped: dropped(stat),
            dropped_per_second: rate(dropped),
            overwritten: stat.overwritten,
            waiting_bytes: stat.waiting_bytes,
            collector_pid: stat.collector.map(|(_, pid)| pid),
        }
    }
}

fn participant(seen: &Seen, now_ms: u64) -> ParticipantView {
    let info = &seen.info;
    ParticipantView {
        slot: info.slot,
        generation: info.generation,
        pid: info.pid,
        program: info.program.clone(),
        alive: info.alive,
        state: seen.state,
        locks: seen.locks.clone(),
        age_ms: now_ms.saturating_sub(info.since_ms),
    }
}
