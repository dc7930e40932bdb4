//! `hold log write`: writes lines, as a program would.

use super::line::level_parser;
use crate::commands::answer;
use crate::commands::given::Given;
use crate::failure::{Result, complain};
use crate::formats::frames::Framing;
use crate::formats::sizes::things;
use crate::output::Output;
use crate::target::{Directory, StructureName};
use commonhold::{LogLevel, Written};
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;

/// Examples of `hold log write`.
pub const EXAMPLES: &str = "\
Examples:
  hold log write shop events 'the shop is open'
  hold log write shop events --level error 'no apples left'
  my-program 2>&1 | hold log write shop events

A writer waits for nobody: a line for which there is no room is dropped and counted.

Exit codes: 0 all lines are in the log, or of a level that it does not want ('hold log level');
1 lines were dropped; 2, 3 see 'hold help'";

/// Options of `hold log write`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// The lines; without any, those of standard input
    #[arg(value_name = "LINE", allow_negative_numbers = true)]
    lines: Vec<OsString>,

    /// How much the lines matter
    #[arg(long, short, value_name = "LEVEL", default_value = "info", value_parser = level_parser())]
    level: LogLevel,
}

/// Writes the lines.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("log write")?;
    let log = directory.log(&args.name, false)?;
    let given = Given {
        arguments: &args.lines,
        framing: Framing::default(),
        // No line has more; the log knows exactly.
        most: usize::try_from(log.stat()?.ring_bytes / 4).unwrap_or(usize::MAX),
        done: "written",
    };
    let (mut accepted, mut filtered, mut dropped) = (0, 0, 0);
    given.each(&output, |line| {
        match log.write(args.level, line)? {
            Written::Accepted => accepted += 1,
            Written::Filtered => filtered += 1,
            Written::Dropped => dropped += 1,
        }
        Ok(true)
    })?;
    if output.is_json() {
        let json = json!({ "accepted": accepted, "filtered": filtered, "dropped": dropped });
        output.json_line(&json)?;
    } else if dropped > 0 {
        let lines = things(dropped, "line was", "lines were");
        let name = log.name();
        complain(&format!(
            "{lines} dropped: log '{name}' has no room until 'hold log collect' has taken lines out"
        ));
    }
    Ok(answer(dropped == 0))
}
