//! `hold channel stat`: the producer, the consumers and their lag, and bridges to NATS.

use crate::report;
use crate::report::replication::Replication;
use crate::target::{Directory, StructureName};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

/// Examples of `hold channel stat`.
pub const EXAMPLES: &str = "\
Examples:
  hold channel stat shop ticks
  hold channel stat shop ticks --format json | jq '.consumers[] | {pid, lag_messages}'

Consumers with read-only handles are not registered, so they do not appear.";

/// Options of `hold channel stat`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,
}

/// Shows the statistics.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    show(&args.name, directory, &output.text_or_json("channel stat")?)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the statistics of the channel with this name.
pub fn show(name: &StructureName, directory: &Directory, output: &Output) -> Result<()> {
    let channel = directory.channel(name, true)?;
    let stat = channel.stat()?;
    let bridges = Replication::of_map(&directory.open_to_read(&name.hold)?, &name.name)?;
    if output.is_json() {
        let mut json = report::channel::json(channel.name(), &stat);
        bridges.put_bridges(&mut json);
        return output.json(&json);
    }
    output.text(&report::channel::facts(channel.name(), &stat).text())?;
    if !stat.consumers.is_empty() {
        output.text(&format!("\n{}", report::channel::consumers_table(&stat.consumers).text()))?;
    }
    bridges.show(output)
}
