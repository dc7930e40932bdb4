//! The statistics of a log.

use super::table::Table;
use commonhold::log::{LogStat, Overflow, RingStat};
use commonhold_terminal::sizes::{count, shown, things};
use serde_json::{Value, json};

/// The statistics, for people.
pub fn facts(name: &str, stat: &LogStat) -> Table {
    let mut facts = Table::of_facts();
    facts.fact("log", name);
    let rings = things(stat.rings.into(), "ring", "rings");
    facts.fact("memory", format!("{rings} of {}", shown(stat.ring_bytes)));
    facts.fact("if full", overflow(stat.overflow));
    facts.fact("level", stat.level.name());
    let collector = |(slot, pid)| format!("slot {slot} (process {pid})");
    facts.fact("collector", stat.collector.map_or("none".to_owned(), collector));
    facts.fact("threads", count(stat.threads.into()));
    facts.fact("waiting", shown(stat.waiting_bytes));
    facts.fact("dropped", things(stat.dropped, "line", "lines"));
    facts.fact("refused", things(stat.refused, "line", "lines"));
    facts.fact("overwritten", things(stat.overwritten, "line", "lines"));
    facts
}

fn overflow(overflow: Overflow) -> &'static str {
    match overflow {
        Overflow::Drop => "drop",
        Overflow::Overwrite => "overwrite",
    }
}

/// A row each.
pub fn rings_table(rings: &[RingStat]) -> Table {
    let columns =
        ["ring>", "thread", "pid>", "tid>", "name", "state", "lines>", "waiting>", "lost>"];
    let mut table = Table::new(&columns);
    for ring in rings {
        table.row([
            ring.ring.to_string(),
            ring.thread.to_string(),
            ring.who.pid.to_string(),
            ring.who.tid.to_string(),
            ring.who.name.clone(),
            state(ring).to_owned(),
            count(ring.lines),
            shown(ring.waiting_bytes),
            count(ring.dropped.saturating_add(ring.overwritten)),
        ]);
    }
    table
}

/// Whether a thread has the ring.
fn state(ring: &RingStat) -> &'static str {
    match (ring.slot, ring.alive) {
        (None, _) => "free",
        (Some(_), true) => "in use",
        (Some(_), false) => "dead",
    }
}

/// The statistics, for programs.
pub fn json(name: &str, stat: &LogStat) -> Value {
    json!({
        "name": name,
        "rings": stat.rings,
        "ring_bytes": stat.ring_bytes,
        "overflow": overflow(stat.overflow),
        "level": stat.level.name(),
        "collector": stat.collector.map(|(slot, pid)| json!({ "slot": slot, "pid": pid })),
        "threads": stat.threads,
        "dropped": stat.dropped,
        "refused": stat.refused,
        "overwritten": stat.overwritten,
        "waiting_bytes": stat.waiting_bytes,
        "used": stat.used.iter().map(ring_json).collect::<Vec<_>>(),
    })
}

fn ring_json(ring: &RingStat) -> Value {
    json!({
        "ring": ring.ring,
        "slot": ring.slot,
        "alive": ring.alive,
        "thread": ring.thread.to_string(),
        "pid": ring.who.pid,
        "tid": ring.who.tid,
        "name": ring.who.name,
        "waiting_bytes": ring.waiting_bytes,
        "lines": ring.lines,
        "dropped": ring.dropped,
        "overwritten": ring.overwritten,
    })
}
