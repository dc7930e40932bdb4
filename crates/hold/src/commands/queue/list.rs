//! `hold queue list`: the named queues of a queue, and how many elements wait in each.

use crate::report::queue;
use crate::target::{Directory, StructureName};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
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
        true => output.json(&queue::named_json(&queues))?,
        false => output.text(&queue::named_table(&queues).text())?,
    }
    Ok(ExitCode::SUCCESS)
}
