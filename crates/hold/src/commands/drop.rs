//! `hold drop`: deletes a map or another structure, or a whole hold, after asking on a terminal.
//!
//! Invariant: nothing is deleted without a confirmation, at the terminal or by an option.

use crate::commands::shared::answer;
use crate::commands::shared::structure_kind::{kind_of, nothing_called};
use crate::target::Directory;
use commonhold::hold::StructureKind;
use commonhold_terminal::failure::{Failure, Result, complain};
use commonhold_terminal::output::Output;
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold drop`.
pub const EXAMPLES: &str = "\
Examples:
  hold drop shop prices                         # a map, queue, channel or log; asks first
  hold drop shop --yes                          # the whole hold, without asking
  hold drop shop --force                        # even while other processes have it open

Exit codes: 0 = deleted; 1 = nothing to delete, or the answer was no; 2, 3 see 'hold help'";

/// Options of `hold drop`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The hold: a bare name (a hold in memory), or a path that contains a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    hold: PathBuf,

    /// Delete only this map, queue, channel or log
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Do not ask, and delete the hold even if other processes have it open; they continue to use
    /// the deleted file
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
        return report(&output, false, &format!("{what} is kept"));
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

fn is_confirmed(what: &str) -> Result<bool> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::usage(format!(
            "{what} is not deleted without a confirmation; add --yes, or run the command on a \
             terminal"
        )));
    }
    let mut error = std::io::stderr();
    let asked = write!(error, "Delete {what}? [y/N] ").and_then(|()| error.flush());
    asked.map_err(|e| Failure::failed(format!("standard error: {e}")))?;
    let mut reply = String::new();
    stdin.read_line(&mut reply).map_err(|e| Failure::failed(format!("standard input: {e}")))?;
    Ok(matches!(reply.trim().to_lowercase().as_str(), "y" | "yes"))
}
