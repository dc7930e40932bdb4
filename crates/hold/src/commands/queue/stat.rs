//! `hold queue stat`: the figures of a queue, and who has elements in hand.

use super::list;
use crate::commands::table::Table;
use crate::failure::Result;
use crate::formats::sizes::{count, shown};
use crate::output::Output;
use crate::target::{Directory, StructureName};
use commonhold::{Holder, QueueStat};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Examples of `hold queue stat`.
pub const EXAMPLES: &str = "\
Examples:
  hold queue stat shop jobs
  hold queue stat shop jobs --format json | jq '.holders[].pid'";

/// Options of `hold queue stat`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,
}

/// Shows the figures.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    show(&args.name, directory, &output.text_or_json("queue stat")?)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the figures of what has this name.
pub fn show(name: &StructureName, directory: &Directory, output: &Output) -> Result<()> {
    let stat = directory.queue_stat(name)?;
    if output.is_json() {
        return output.json(&json(&stat));
    }
    let mut facts = Table::of_facts();
    facts.fact("queue", &*stat.name);
    facts.fact("elements", count(stat.elements.into()));
    facts.fact("element", shown(stat.element_bytes.into()));
    facts.fact("orphans to", &*stat.orphans);
    output.text(&facts.text())?;
    output.text(&format!("\n{}", list::table(&stat.queues).text()))?;
    if !stat.holders.is_empty() {
        output.text(&format!("\n{}", holders_table(&stat.holders).text()))?;
    }
    Ok(())
}

fn holders_table(holders: &[Holder]) -> Table {
    let mut table = Table::new(&["in hand of slot>", "pid>", "elements>", "state"]);
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

/// The figures, for programs.
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
        "queues": list::json(&stat.queues),
        "holders": stat.holders.iter().map(holder).collect::<Vec<_>>(),
    })
}
