//! The statistics of a channel.

use super::table::Table;
use commonhold::channel::{ChannelStat, ConsumerInfo, ConsumerState, Peer};
use commonhold_terminal::sizes::{count, shown};
use serde_json::{Value, json};

/// The statistics, for people.
pub fn facts(name: &str, stat: &ChannelStat) -> Table {
    let mut facts = Table::of_facts();
    facts.fact("channel", name);
    let ring = (shown(stat.ring_bytes), shown(stat.max_message));
    facts.fact("ring", format!("{}, messages of up to {}", ring.0, ring.1));
    facts.fact("sent", count(stat.sequence));
    facts.fact("kept", shown(stat.kept_bytes));
    facts.fact("producer", stat.producer.map_or("none".to_owned(), peer_text));
    if let (true, Some(slowest)) = (stat.is_waiting, stat.slowest) {
        facts.fact("waits for", peer_text(slowest));
    }
    facts
}

fn peer_text(peer: Peer) -> String {
    format!("slot {} (process {})", peer.slot, peer.pid)
}

/// A row each.
pub fn consumers_table(consumers: &[ConsumerInfo]) -> Table {
    let mut table =
        Table::new(&["consumer in slot>", "pid>", "policy", "behind>", "bytes>", "missed>"]);
    for consumer in consumers {
        table.row([
            consumer.peer.slot.to_string(),
            consumer.peer.pid.to_string(),
            policy(consumer.policy).to_owned(),
            count(consumer.lag_messages),
            shown(consumer.lag_bytes),
            count(consumer.missed),
        ]);
    }
    table
}

fn policy(state: ConsumerState) -> &'static str {
    match state {
        ConsumerState::Lossless => "lossless",
        ConsumerState::Lossy => "lossy",
        ConsumerState::Patient => "patient",
        ConsumerState::Dropped => "dropped",
        ConsumerState::Joining => "joining",
        _ => "unknown",
    }
}

/// The statistics, for programs.
pub fn json(name: &str, stat: &ChannelStat) -> Value {
    let peer = |peer: Peer| json!({ "slot": peer.slot, "pid": peer.pid });
    let consumer = |consumer: &ConsumerInfo| {
        json!({
            "slot": consumer.peer.slot,
            "pid": consumer.peer.pid,
            "policy": policy(consumer.policy),
            "lag_messages": consumer.lag_messages,
            "lag_bytes": consumer.lag_bytes,
            "missed": consumer.missed,
        })
    };
    json!({
        "name": name,
        "ring_bytes": stat.ring_bytes,
        "max_message_bytes": stat.max_message,
        "sequence": stat.sequence,
        "sent_bytes": stat.sent_bytes,
        "kept_bytes": stat.kept_bytes,
        "producer": stat.producer.map(peer),
        "waiting": stat.is_waiting,
        "slowest": stat.slowest.map(peer),
        "consumers": stat.consumers.iter().map(consumer).collect::<Vec<_>>(),
    })
}
