//! `hold log stat`: who collects, what was dropped, and which threads have which rings.

use crate::commands::table::Table;
use crate::failure::Result;
use crate::formats::sizes::{count, shown, things};
use crate::output::Output;
use crate::target::{Directory, StructureName};
use commonhold::{LogStat, Overflow, RingStat};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Examples of `hold log stat`.
pub const EXAMPLES: &str = "\
Examples:
  hold log stat shop events
  hold log stat shop events --format json | jq .dropped";

/// Options of `hold log stat`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,
}

/// Shows the figures.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    show(&args.name, directory, &output.text_or_json("log stat")?)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the figures of what has this name.
pub fn show(name: &StructureName, directory: &Directory, output: &Output) -> Result<()> {
    let log = directory.log(name, true)?;
    let stat = log.stat()?;
    if output.is_json() {
        return output.json(&json(log.name(), &stat));
    }
    output.text(&facts(log.name(), &stat).text())?;
    if !stat.used.is_empty() {
        output.text(&format!("\n{}", rings_table(&stat.used).text()))?;
    }
    Ok(())
}

fn facts(name: &str, stat: &LogStat) -> Table {
    let mut facts = Table::of_facts();
    facts.fact("log", name);
    let rings = things(stat.rings.into(), "ring", "rings");
    facts.fact("memory", format!("{rings} of {}", shown(stat.ring_bytes)));
    facts.fact("if full", overflow(stat.overflow));
    facts.fact("level", stat.level.name());
    let collector = |(slot, pid)| format!("slot {slot} (process {pid})");
    facts.fact("collector", stat.collector.map_or("nobody".to_owned(), collector));
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

fn rings_table(rings: &[RingStat]) -> Table {
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

/// Whether somebody has the ring.
fn state(ring: &RingStat) -> &'static str {
    match (ring.slot, ring.alive) {
        (None, _) => "free",
        (Some(_), true) => "in use",
        (Some(_), false) => "dead",
    }
}

/// The figures, for programs.
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
