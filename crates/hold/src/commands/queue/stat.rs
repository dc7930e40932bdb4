//! `hold queue stat`: the statistics of a queue, the processes that have elements in flight, and
//! bridges to NATS.

use crate::report::queue;
use crate::report::replication::Replication;
use crate::target::{Directory, StructureName};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
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

/// Shows the statistics.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    show(&args.name, directory, &output.text_or_json("queue stat")?)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the statistics of the queue with this name.
pub fn show(name: &StructureName, directory: &Directory, output: &Output) -> Result<()> {
    let stat = directory.queue_stat(name)?;
    let bridges = Replication::of_map(&directory.open_to_read(&name.hold)?, &name.name)?;
    if output.is_json() {
        let mut json = queue::json(&stat);
        bridges.put_bridges(&mut json);
        return output.json(&json);
    }
    output.text(&queue::facts(&stat).text())?;
    output.text(&format!("\n{}", queue::named_table(&stat.queues).text()))?;
    if !stat.holders.is_empty() {
        output.text(&format!("\n{}", queue::holders_table(&stat.holders).text()))?;
    }
    bridges.show(output)
}
