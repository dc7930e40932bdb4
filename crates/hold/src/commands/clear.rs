//! `hold clear`: deletes all pairs of a map, after asking on a terminal.

use crate::commands::shared::answer;
use crate::commands::shared::confirmation::is_confirmed;
use crate::target::{Directory, MapName};
use commonhold_terminal::failure::{Result, complain, note};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::things;
use serde_json::json;
use std::process::ExitCode;

/// Examples of `hold clear`.
pub const EXAMPLES: &str = "\
Examples:
  hold clear shop prices                        # asks first
  hold clear shop prices --yes

The map, its options and its stream remain. Pairs that other processes store while the command runs
may remain, too.
If the map has replicas or a journal that cannot keep up, the command pauses for them for up to 5
seconds. 'hold drop' deletes the map itself.

Exit codes:
  0     cleared
  1     the answer was no
  2, 3  error (see 'hold help')";

/// Options of `hold clear`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Deletes the pairs.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("clear")?;
    let map = directory.map_to_write(&args.name)?;
    let what = format!("all pairs of map {}", args.name.shown());
    if !(args.yes || is_confirmed(&what)?) {
        complain("no pair was deleted");
        return Ok(answer(false));
    }
    let deleted = map.clear()?;
    match output.is_json() {
        true => output.json_line(&json!({ "deleted": deleted }))?,
        false if !output.is_quiet() => {
            note(&format!("deleted {}", things(deleted, "pair", "pairs")))
        }
        false => {}
    }
    Ok(ExitCode::SUCCESS)
}
