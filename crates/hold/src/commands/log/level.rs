//! `hold log level`: prints or sets which lines a log accepts.

use super::line::level_parser;
use crate::target::{Directory, StructureName};
use commonhold::log::LogLevel;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use serde_json::json;
use std::process::ExitCode;

/// Examples of `hold log level`.
pub const EXAMPLES: &str = "\
Examples:
  hold log level shop events                      # prints the level
  hold log level shop events debug                # all processes write debug lines from now on";

/// Options of `hold log level`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// The new level: the log rejects lines below it
    #[arg(value_name = "LEVEL", value_parser = level_parser())]
    level: Option<LogLevel>,
}

/// Prints or sets the level.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("log level")?;
    let log = directory.log(&args.name, args.level.is_none())?;
    if let Some(level) = args.level {
        log.set_level(level)?;
    }
    match (output.is_json(), args.level) {
        (true, _) => output.json_line(&json!({ "level": log.level().name() }))?,
        (false, None) => output.text(log.level().name())?,
        (false, Some(_)) => {}
    }
    Ok(ExitCode::SUCCESS)
}
