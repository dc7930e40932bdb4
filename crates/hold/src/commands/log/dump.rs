//! `hold log dump`: prints all lines that are in the hold, and leaves them there.

use super::line::{Lines, level_parser};
use crate::target::{Directory, StructureName};
use commonhold::log::LogLevel;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::{Output, Sink};
use std::process::ExitCode;

/// Examples of `hold log dump`.
pub const EXAMPLES: &str = "\
Examples:
  hold log dump shop events
  hold log dump shop events --level warn
  hold log dump ./crashed.hold events --format json | jq -r .text

The output includes collected lines that have not been overwritten yet. The command opens the hold
read-only and changes nothing. It works while other processes write, and even after they have all
been killed.";

/// Options of `hold log dump`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// Leave out lines below this level
    #[arg(long, short, value_name = "LEVEL", default_value = "trace", value_parser = level_parser())]
    level: LogLevel,
}

/// Prints the lines.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("log dump")?;
    let lines = Lines { json: output.is_json(), level: args.level };
    let mut sink = Sink::stdout();
    let mut text = Vec::new();
    for line in directory.log(&args.name, true)?.dump()?.iter().filter(|line| lines.want(line)) {
        text.clear();
        lines.append(line, &mut text);
        sink.put(|out| out.write_all(&text))?;
    }
    sink.finish()?;
    Ok(ExitCode::SUCCESS)
}
