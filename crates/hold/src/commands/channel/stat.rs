//! `hold channel stat`: who sends, who receives, who is behind.

use crate::commands::table::Table;
use crate::failure::Result;
use crate::formats::sizes::{count, shown};
use crate::output::Output;
use crate::target::{Directory, StructureName};
use commonhold::{ChannelStat, ConsumerInfo, ConsumerState, Peer};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Examples of `hold channel stat`.
pub const EXAMPLES: &str = "\
Examples:
  hold channel stat shop ticks
  hold channel stat shop ticks --format json | jq '.consumers[] | {pid, lag_messages}'

Consumers that opened the hold read-only are not known, and not shown.";

/// Options of `hold channel stat`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,
}

/// Shows the figures.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    show(&args.name, directory, &output.text_or_json("channel stat")?)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the figures of what has this name.
pub fn show(name: &StructureName, directory: &Directory, output: &Output) -> Result<()> {
    let channel = directory.channel(name, true)?;
    let stat = channel.stat()?;
    if output.is_json() {
        return output.json(&json(channel.name(), &stat));
    }
    output.text(&facts(channel.name(), &stat).text())?;
    if !stat.consumers.is_empty() {
        output.text(&format!("\n{}", consumers_table(&stat.consumers).text()))?;
    }
    Ok(())
}

fn facts(name: &str, stat: &ChannelStat) -> Table {
    let mut facts = Table::of_facts();
    facts.fact("channel", name);
    let ring = (shown(stat.ring_bytes), shown(stat.max_message));
    facts.fact("ring", format!("{}, messages of up to {}", ring.0, ring.1));
    facts.fact("sent", count(stat.sequence));
    facts.fact("kept", shown(stat.kept_bytes));
    facts.fact("producer", stat.producer.map_or("nobody".to_owned(), peer_text));
    if let (true, Some(slowest)) = (stat.is_waiting, stat.slowest) {
        facts.fact("waits for", peer_text(slowest));
    }
    facts
}

fn peer_text(peer: Peer) -> String {
    format!("slot {} (process {})", peer.slot, peer.pid)
}

fn consumers_table(consumers: &[ConsumerInfo]) -> Table {
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

/// The figures, for programs.
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
