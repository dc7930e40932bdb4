//! `hold log stat`: the collector, the dropped lines, and the thread of each ring.

use crate::report;
use crate::target::{Directory, StructureName};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
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

/// Shows the statistics.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    show(&args.name, directory, &output.text_or_json("log stat")?)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the statistics of the log with this name.
pub fn show(name: &StructureName, directory: &Directory, output: &Output) -> Result<()> {
    let log = directory.log(name, true)?;
    let stat = log.stat()?;
    if output.is_json() {
        return output.json(&report::log::json(log.name(), &stat));
    }
    output.text(&report::log::facts(log.name(), &stat).text())?;
    if !stat.used.is_empty() {
        output.text(&format!("\n{}", report::log::rings_table(&stat.used).text()))?;
    }
    Ok(())
}
