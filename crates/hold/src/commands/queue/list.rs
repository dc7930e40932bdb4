//! `hold queue list`: the named queues of a queue, and how many elements wait in each.

use crate::commands::table::Table;
use crate::failure::Result;
use crate::formats::sizes::count;
use crate::output::Output;
use crate::target::{Directory, StructureName};
use commonhold::NamedQueueStat;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Examples of `hold queue list`.
pub const EXAMPLES: &str = "\
Examples:
  hold queue list shop jobs
  hold queue list shop jobs --format json | jq '.[] | select(.name == \"full\").length'";

/// Options of `hold queue list`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,
}

/// Lists the named queues.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("queue list")?;
    let queues = directory.queue_stat(&args.name)?.queues;
    match output.is_json() {
        true => output.json(&json(&queues))?,
        false => output.text(&table(&queues).text())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The named queues for people.
pub fn table(queues: &[NamedQueueStat]) -> Table {
    let mut table = Table::new(&["queue", "elements>", "pushed>", "pulled>"]);
    for queue in queues {
        let name = queue.name.clone();
        table.row([name, count(queue.len), count(queue.pushed), count(queue.pulled)]);
    }
    table
}

/// The named queues in JSON.
pub fn json(queues: &[NamedQueueStat]) -> Value {
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
