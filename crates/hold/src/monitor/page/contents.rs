//! The contents of the hold.

use super::markup::Table;
use crate::monitor::inventory::Inventory;
use crate::report::mode;
use crate::report::numbers::{bytes, share, span};
use crate::target::is_own;
use commonhold::channel::ChannelStat;
use commonhold::log::LogStat;
use commonhold::map::MapMode;
use commonhold_io::reports::Report;
use commonhold_terminal::sizes::count;
use serde_json::Value;

/// All of it. Commonhold's own names are left out, as everywhere.
pub fn section(inventory: &Inventory) -> String {
    [
        memory(inventory),
        maps(inventory),
        queues(inventory),
        channels(inventory),
        logs(inventory),
        replicas_of_holds(inventory),
        replicas(inventory),
        origins(inventory),
        journals(inventory),
        bridges(inventory),
    ]
    .concat()
}

fn memory(inventory: &Inventory) -> String {
    let hold = &inventory.hold;
    let part = hold.used_bytes as f64 / hold.max_bytes.max(1) as f64 * 100.0;
    format!(
        "<section><h2>Memory of the hold</h2>\n\
         <svg class=\"meter\" role=\"presentation\"><rect class=\"all\" width=\"100%\" height=\"100%\" rx=\"3\"/>\
         <rect width=\"{part:.2}%\" height=\"100%\" rx=\"3\"/></svg>\n\
         <p>{} used, {} allocated, limit {}; open by {}</p></section>\n",
        bytes(hold.used_bytes),
        bytes(hold.memory_bytes),
        bytes(hold.max_bytes),
        commonhold_terminal::sizes::things(hold.participants.into(), "participant", "participants"),
    )
}

fn maps(inventory: &Inventory) -> String {
    let columns = [
        "map",
        "mode",
        "pairs>",
        "index>",
        "records>",
        "hit rate>",
        "expired>",
        "evicted>",
        "stream>",
    ];
    let mut table = Table::new(&columns);
    for map in inventory.maps.iter().filter(|map| !is_own(&map.name)) {
        let is_cache = matches!(map.mode, MapMode::Cache { .. });
        let of_cache = |text: String| if is_cache { text } else { "–".to_owned() };
        let (hits, misses) = (map.hits as f64, map.misses as f64);
        table.row([
            map.name.clone(),
            mode::text_of(&map.mode, map.replica),
            count(map.len),
            bytes(map.index_bytes),
            bytes(map.record_bytes),
            of_cache(share((hits + misses > 0.0).then(|| hits / (hits + misses)))),
            of_cache(count(map.expired)),
            of_cache(count(map.evicted)),
            map.stream
                .map_or("–".to_owned(), |stream| format!("{} written", bytes(stream.end.offset))),
        ]);
    }
    table.section("Maps")
}

fn queues(inventory: &Inventory) -> String {
    let mut table = Table::new(&["queue", "name", "waiting>", "of>", "pushed>", "pulled>"]);
    for queue in inventory.queues.iter().filter(|queue| !is_own(&queue.name)) {
        for one in &queue.queues {
            table.row([
                queue.name.clone(),
                one.name.clone(),
                count(one.len),
                count(queue.elements.into()),
                count(one.pushed),
                count(one.pulled),
            ]);
        }
    }
    table.section("Queues")
}

fn shown<T>(all: &[(String, T)]) -> impl Iterator<Item = &(String, T)> {
    all.iter().filter(|(name, _)| !is_own(name))
}

fn channels(inventory: &Inventory) -> String {
    let mut table = Table::new(&[
        "channel",
        "sent>",
        "kept>",
        "producer",
        "consumers>",
        "most behind>",
        "missed>",
    ]);
    for (name, stat) in shown(&inventory.channels) {
        let ChannelStat { consumers, producer, .. } = stat;
        let behind = consumers.iter().map(|consumer| consumer.lag_messages).max();
        table.row([
            name.clone(),
            count(stat.sequence),
            bytes(stat.kept_bytes),
            producer.map_or("none".to_owned(), |peer| format!("process {}", peer.pid)),
            count(consumers.len() as u64),
            behind.map_or("–".to_owned(), count),
            count(consumers.iter().map(|consumer| consumer.missed).sum()),
        ]);
    }
    table.section("Channels")
}

fn logs(inventory: &Inventory) -> String {
    let mut table =
        Table::new(&["log", "lines>", "waiting>", "dropped>", "overwritten>", "collector"]);
    for (name, stat) in shown(&inventory.logs) {
        let LogStat { dropped, refused, overwritten, .. } = stat;
        table.row([
            name.clone(),
            count(stat.used.iter().map(|ring| ring.lines).sum()),
            bytes(stat.waiting_bytes),
            count(dropped.saturating_add(*refused)),
            count(*overwritten),
            stat.collector.map_or("none".to_owned(), |(_, pid)| format!("process {pid}")),
        ]);
    }
    table.section("Logs")
}

fn reports<'a>(inventory: &'a Inventory, what: &'static str) -> impl Iterator<Item = &'a Report> {
    inventory.reports.iter().filter(move |report| report.what == what)
}

fn number(of: &Value, field: &str) -> u64 {
    of[field].as_u64().unwrap_or_default()
}

fn word(of: &Value, field: &str) -> String {
    of[field].as_str().unwrap_or("–").to_owned()
}

fn replicas(inventory: &Inventory) -> String {
    let mut table = Table::new(&[
        "replica",
        "origin",
        "connected",
        "behind>",
        "time>",
        "changes>",
        "whole map received>",
    ]);
    for report in reports(inventory, "replica") {
        let says = &report.says;
        table.row([
            report.map.clone(),
            word(says, "origin"),
            yes_or_no(says, "connected"),
            bytes(number(says, "lag_bytes")),
            span(number(says, "lag_ms")),
            count(number(says, "changes")),
            count(number(says, "synchronisations")),
        ]);
    }
    table.section("Replicas")
}

fn replicas_of_holds(inventory: &Inventory) -> String {
    let mut table =
        Table::new(&["all maps of", "connected", "followed>", "skipped", "dropped", "last error"]);
    for report in reports(inventory, "hold") {
        let says = &report.says;
        table.row([
            word(says, "origin"),
            yes_or_no(says, "connected"),
            count(number(says, "followed")),
            names(says, "skipped"),
            names(says, "dropped"),
            word(says, "last_error"),
        ]);
    }
    table.section("Replicas of whole holds")
}

fn yes_or_no(of: &Value, field: &str) -> String {
    if of[field].as_bool() == Some(true) { "yes" } else { "no" }.to_owned()
}

fn names(of: &Value, field: &str) -> String {
    let names: Vec<_> =
        of[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() { "–".to_owned() } else { names.join(", ") }
}

fn bridges(inventory: &Inventory) -> String {
    let mut table = Table::new(&[
        "map",
        "bridge",
        "remote",
        "connected",
        "behind>",
        "time>",
        "in flight>",
        "reconnects>",
        "last error",
    ]);
    for report in reports(inventory, "bridge") {
        let says = &report.says;
        table.row([
            report.map.clone(),
            word(says, "direction"),
            word(says, "remote"),
            yes_or_no(says, "connected"),
            count(number(says, "lag_messages")),
            span(number(says, "lag_ms")),
            count(number(says, "in_flight")),
            count(number(says, "reconnects")),
            word(says, "last_error"),
        ]);
    }
    table.section("Bridges")
}

fn origins(inventory: &Inventory) -> String {
    let mut table = Table::new(&["origin of", "replica", "state", "behind>", "connected>"]);
    for report in reports(inventory, "origin") {
        let replicas = report.says["replicas"].as_array().map_or(&[][..], Vec::as_slice);
        for replica in replicas {
            table.row([
                report.map.clone(),
                peer(replica),
                word(replica, "state"),
                bytes(number(replica, "lag_bytes")),
                span(number(replica, "connected_ms")),
            ]);
        }
        if replicas.is_empty() {
            table.row([report.map.clone(), "none".into(), "–".into(), "–".into(), "–".into()]);
        }
    }
    table.section("Origins")
}

/// The other end, and its name if it has one.
fn peer(replica: &Value) -> String {
    match replica["name"].as_str().unwrap_or_default() {
        "" => word(replica, "peer"),
        name => format!("{name} ({})", word(replica, "peer")),
    }
}

fn journals(inventory: &Inventory) -> String {
    let mut table = Table::new(&["journal of", "file", "sync", "size>", "not durable>", "state"]);
    for report in reports(inventory, "journal") {
        let says = &report.says;
        let lag = crate::monitor::metrics::lag_of_journal(inventory, report);
        table.row([
            report.map.clone(),
            word(says, "file"),
            word(says, "sync"),
            bytes(number(says, "bytes")),
            lag.map_or("–".to_owned(), |lag| bytes(lag as u64)),
            says["error"].as_str().unwrap_or("well").to_owned(),
        ]);
    }
    table.section("Journals")
}
