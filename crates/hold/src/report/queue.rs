//! The statistics of a queue.

use super::table::Table;
use commonhold::queue::{Holder, NamedQueueStat, QueueStat};
use commonhold_terminal::sizes::{count, shown};
use serde_json::{Value, json};

/// The statistics, for people.
pub fn facts(stat: &QueueStat) -> Table {
    let mut facts = Table::of_facts();
    facts.fact("queue", &*stat.name);
    facts.fact("elements", count(stat.elements.into()));
    facts.fact("element", shown(stat.element_bytes.into()));
    facts.fact("orphans to", &*stat.orphans);
    facts
}

/// The participants that have elements in flight.
pub fn holders_table(holders: &[Holder]) -> Table {
    let mut table = Table::new(&["in flight in slot>", "pid>", "elements>", "state"]);
    for holder in holders {
        let state = if holder.alive { "alive" } else { "dead: its elements go to the orphans" };
        table.row([
            holder.slot.to_string(),
            holder.pid.to_string(),
            count(holder.elements),
            state.to_owned(),
        ]);
    }
    table
}

/// The statistics, for programs.
pub fn json(stat: &QueueStat) -> Value {
    let holder = |holder: &Holder| {
        json!({
            "slot": holder.slot,
            "pid": holder.pid,
            "alive": holder.alive,
            "elements": holder.elements,
        })
    };
    json!({
        "name": stat.name,
        "elements": stat.elements,
        "element_bytes": stat.element_bytes,
        "orphans": stat.orphans,
        "queues": named_json(&stat.queues),
        "holders": stat.holders.iter().map(holder).collect::<Vec<_>>(),
    })
}

/// The named queues for people.
pub fn named_table(queues: &[NamedQueueStat]) -> Table {
    let mut table = Table::new(&["queue", "elements>", "pushed>", "pulled>"]);
    for queue in queues {
        let name = queue.name.clone();
        table.row([name, count(queue.len), count(queue.pushed), count(queue.pulled)]);
    }
    table
}

/// The named queues in JSON.
pub fn named_json(queues: &[NamedQueueStat]) -> Value {
    let one = |queue: &NamedQueueStat| {
        json!({
            "name": queue.name,
            "length": queue.len,
            "pushed": queue.pushed,
            "pulled": queue.pulled,
        })
    };
    queues.iter().map(one).collect()
}
