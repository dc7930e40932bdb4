//! Origins, replicas, journals and bridges in Prometheus' format, from their reports. The reports are JSON
//! of other processes, perhaps of another version: missing parts are left out.

use super::text::{Kind, Labels, Text};
use crate::monitor::inventory::Inventory;
use Kind::{Counter, Gauge};
use commonhold::stream::StreamPosition;
use commonhold_io::reports::Report;
use serde_json::Value;

/// Name, kind, help, field and factor.
type Metric = (&'static str, Kind, &'static str, &'static str, f64);

const REPLICA: [Metric; 11] = [
    ("hold_replica_connected", Gauge, "Whether a replica is connected.", "connected", 1.0),
    (
        "hold_replica_ready",
        Gauge,
        "Whether a replica's map has been synchronised once.",
        "ready",
        1.0,
    ),
    (
        "hold_replica_lag_bytes",
        Gauge,
        "Bytes of the stream that a replica has not applied.",
        "lag_bytes",
        1.0,
    ),
    (
        "hold_replica_lag_messages",
        Gauge,
        "Changes of the stream that a replica has not applied, approximately.",
        "lag_messages",
        1.0,
    ),
    ("hold_replica_lag_seconds", Gauge, "Age of a replica's data.", "lag_ms", 1e-3),
    ("hold_replica_changes_total", Counter, "Changes that a replica has applied.", "changes", 1.0),
    (
        "hold_replica_applied_bytes_total",
        Counter,
        "Bytes of the changes that a replica has applied.",
        "bytes",
        1.0,
    ),
    (
        "hold_replica_synchronisations_total",
        Counter,
        "Times that a replica received the whole map.",
        "synchronisations",
        1.0,
    ),
    (
        "hold_replica_sync_bytes_total",
        Counter,
        "Bytes of the pairs that a replica has received with whole maps.",
        "sync_bytes",
        1.0,
    ),
    (
        "hold_replica_sync_wire_bytes_total",
        Counter,
        "Bytes that a replica has received over the network for the pairs of whole maps.",
        "sync_wire_bytes",
        1.0,
    ),
    (
        "hold_replica_connections_total",
        Counter,
        "Connections that a replica has made.",
        "connections",
        1.0,
    ),
];

const FOLLOWER: [Metric; 4] = [
    (
        "hold_origin_replica_lag_bytes",
        Gauge,
        "Bytes of the stream that a replica of an origin has not applied.",
        "lag_bytes",
        1.0,
    ),
    (
        "hold_origin_replica_connected_seconds",
        Gauge,
        "Time since a replica of an origin connected.",
        "connected_ms",
        1e-3,
    ),
    (
        "hold_origin_replica_sync_bytes_total",
        Counter,
        "Bytes of the pairs of whole maps that an origin sent to a replica, before compression.",
        "sync_bytes",
        1.0,
    ),
    (
        "hold_origin_replica_sync_wire_bytes_total",
        Counter,
        "Bytes that an origin has sent over the network for the pairs of whole maps.",
        "sync_wire_bytes",
        1.0,
    ),
];

const JOURNAL: [Metric; 2] = [
    ("hold_journal_file_bytes", Gauge, "Bytes of a journal's file.", "bytes", 1.0),
    ("hold_journal_compactions_total", Counter, "Compactions of a journal.", "compactions", 1.0),
];

const BRIDGE: [Metric; 10] = [
    ("hold_bridge_connected", Gauge, "Whether a bridge to NATS is connected.", "connected", 1.0),
    (
        "hold_bridge_disconnected_seconds",
        Gauge,
        "Time for which a bridge has had no connection.",
        "disconnected_ms",
        1e-3,
    ),
    ("hold_bridge_ready", Gauge, "Whether a bridge has caught up once.", "ready", 1.0),
    (
        "hold_bridge_lag_messages",
        Gauge,
        "Changes or messages that the other side of a bridge lacks, approximately.",
        "lag_messages",
        1.0,
    ),
    ("hold_bridge_lag_seconds", Gauge, "Age of the older side of a bridge.", "lag_ms", 1e-3),
    (
        "hold_bridge_in_flight",
        Gauge,
        "Messages of a bridge whose acknowledgement is not there yet.",
        "in_flight",
        1.0,
    ),
    (
        "hold_bridge_messages_total",
        Counter,
        "Changes or messages that a bridge transferred.",
        "messages",
        1.0,
    ),
    (
        "hold_bridge_missed_total",
        Counter,
        "Messages that a bridge missed, because a channel overwrote them.",
        "missed",
        1.0,
    ),
    (
        "hold_bridge_skipped",
        Gauge,
        "Pairs or messages that a bridge left out, because they are too long.",
        "skipped",
        1.0,
    ),
    (
        "hold_bridge_reconnects_total",
        Counter,
        "Times that a bridge made its lost connection again.",
        "reconnects",
        1.0,
    ),
];

fn number(of: &Value, field: &str, times: f64) -> Option<f64> {
    match &of[field] {
        Value::Bool(is) => Some(f64::from(*is)),
        // Milliseconds are divided: a product with 0.001 rarely prints as a short number.
        value if times == 1e-3 => value.as_f64().map(|number| number / 1e3),
        value => value.as_f64(),
    }
}

fn labels(report: &Report) -> Labels<'_> {
    vec![("map", &*report.map), ("party", &*report.id)]
}

pub fn write(text: &mut Text, inventory: &Inventory) {
    let of =
        |what: &'static str| inventory.reports.iter().filter(move |report| report.what == what);
    for (metrics, what) in
        [(&REPLICA[..], "replica"), (&JOURNAL[..], "journal"), (&BRIDGE[..], "bridge")]
    {
        for &(name, kind, help, field, times) in metrics {
            let samples =
                of(what).filter_map(|r| Some((labels(r), number(&r.says, field, times)?)));
            text.family(name, kind, help, samples);
        }
    }
    let lags = of("journal").filter_map(|r| Some((labels(r), lag_of_journal(inventory, r)?)));
    let help = "Bytes of a map's stream that its journal has not made durable.";
    text.family("hold_journal_lag_bytes", Gauge, help, lags);
    let failing = of("journal").map(|r| (labels(r), f64::from(r.says["error"].is_string())));
    text.family(
        "hold_journal_failing",
        Gauge,
        "Whether a journal fails to make changes durable.",
        failing,
    );
    origins(text, of("origin"));
    replicas_of_holds(text, of("hold"));
}

fn replicas_of_holds<'a>(text: &mut Text, replicas: impl Iterator<Item = &'a Report>) {
    let replicas: Vec<_> = replicas.collect();
    let connected = replicas
        .iter()
        .filter_map(|r| Some((vec![("party", &*r.id)], number(&r.says, "connected", 1.0)?)));
    let help = "Whether a replica of a whole hold is connected.";
    text.family("hold_whole_replica_connected", Gauge, help, connected);
    let maps = replicas.iter().flat_map(|report| {
        ["followed", "skipped", "dropped"].into_iter().filter_map(move |state| {
            let labels = vec![("party", &*report.id), ("state", state)];
            Some((labels, length(&report.says[state])?))
        })
    });
    let help = "Maps that a replica of a whole hold follows, skips, or keeps after their drop.";
    text.family("hold_whole_replica_maps", Gauge, help, maps);
}

/// A number, or the number of names in a list.
fn length(of: &Value) -> Option<f64> {
    of.as_array().map(|names| names.len() as f64).or_else(|| of.as_f64())
}

fn origins<'a>(text: &mut Text, origins: impl Iterator<Item = &'a Report>) {
    let origins: Vec<_> = origins.collect();
    let replicas =
        |report: &'a Report| report.says["replicas"].as_array().map_or(&[][..], Vec::as_slice);
    let counts = origins.iter().map(|report| (labels(report), replicas(report).len() as f64));
    text.family("hold_origin_replicas", Gauge, "Replicas that an origin serves.", counts);
    // The place identifies a replica that does not name itself.
    let followers: Vec<(&Report, String, &Value)> = origins
        .iter()
        .flat_map(|report| {
            replicas(report).iter().enumerate().map(|(place, replica)| {
                let id = replica["id"].as_u64().map_or(format!("-{place}"), |id| id.to_string());
                (*report, id, replica)
            })
        })
        .collect();
    for (name, kind, help, field, times) in FOLLOWER {
        let samples = followers.iter().filter_map(|(report, id, replica)| {
            let peer = replica["peer"].as_str().unwrap_or("-");
            let mut labels = [labels(report), vec![("replica", &**id), ("peer", peer)]].concat();
            labels.extend(
                replica["name"].as_str().filter(|it| !it.is_empty()).map(|it| ("name", it)),
            );
            Some((labels, number(replica, field, times)?))
        });
        text.family(name, kind, help, samples);
    }
}

/// The bytes of the map's stream that the journal has not made durable; all, if it has made nothing
/// durable yet.
pub fn lag_of_journal(inventory: &Inventory, report: &Report) -> Option<f64> {
    let end = inventory.map(&report.map)?.stream?.end;
    let durable: Option<StreamPosition> =
        report.says["durable"].as_str().and_then(|t| t.parse().ok());
    let durable = durable.filter(|durable| durable.stream == end.stream);
    Some(end.offset.saturating_sub(durable.map_or(0, |durable| durable.offset)) as f64)
}
