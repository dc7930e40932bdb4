//! `hold drop`: deletes a map or another structure, or a whole hold, after asking on a terminal.

use crate::commands::shared::answer;
use crate::commands::shared::confirmation::is_confirmed;
use crate::commands::shared::structure_kind::{kind_of, nothing_called};
use crate::target::Directory;
use commonhold::hold::StructureKind;
use commonhold_terminal::failure::{Result, complain};
use commonhold_terminal::output::Output;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold drop`.
pub const EXAMPLES: &str = "\
Examples:
  hold drop shop prices                         # a map, queue, channel or log; asks first
  hold drop shop --yes                          # the whole hold, without asking
  hold drop shop --force                        # even while other processes have it open

Exit codes:
  0     deleted
  1     nothing to delete, or the answer was no
  2, 3  error (see 'hold help')";

/// Options of `hold drop`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The hold: a bare name (a hold in memory), or a path that contains a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    hold: PathBuf,

    /// Delete only this map, queue, channel or log
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    /// Do not ask for confirmation, and delete the hold even if other processes have it open; they
    /// continue to use the deleted file
    #[arg(long)]
    force: bool,
}

/// Deletes.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("drop")?;
    let path = directory.resolve(&args.hold)?;
    if !path.exists() {
        return report(&output, false, &format!("hold {} does not exist", path.display()));
    }
    let kind = match &args.name {
        Some(name) => kind_of(&directory.open_to_read(&args.hold)?, name)?,
        None => None,
    };
    if let (Some(name), None) = (&args.name, kind) {
        return report(&output, false, &nothing_called(name, &path, &args.hold));
    }
    let what = match (&args.name, kind) {
        (Some(name), Some(kind)) => format!("{kind} {name} of {}", path.display()),
        _ => format!("hold {}", path.display()),
    };
    if !(args.yes || args.force || is_confirmed(&what)?) {
        return report(&output, false, &format!("{what} was not deleted"));
    }
    let open = || directory.open_to_write(&args.hold);
    let dropped = match (&args.name, kind) {
        (Some(name), Some(StructureKind::Queue)) => open()?.queues().drop(name)?,
        (Some(name), Some(StructureKind::Channel)) => open()?.channels().drop(name)?,
        (Some(name), Some(StructureKind::Log)) => open()?.logs().drop(name)?,
        (Some(name), _) => open()?.maps().drop(name)?,
        (None, _) => commonhold::hold::remove(&path, args.force).map(|()| true)?,
    };
    report(&output, dropped, &format!("{what} does not exist"))
}

fn report(output: &Output, dropped: bool, otherwise: &str) -> Result<ExitCode> {
    match (output.is_json(), dropped || output.is_quiet()) {
        (true, _) => output.json_line(&json!({ "dropped": dropped }))?,
        (false, true) => {}
        (false, false) => complain(otherwise),
    }
    Ok(answer(dropped))
}
