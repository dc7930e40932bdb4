//! `hold serve-import`: creates a database from a directory, for `hold serve --files sqlite`.

use crate::commands::shared::choice_parser::choice;
use commonhold_files::LayoutKind;
use commonhold_files::source::{Directory, Symlinks, import};
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::Output;
use commonhold_terminal::progress;
use commonhold_terminal::sizes::{shown, things};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold serve-import`.
pub const EXAMPLES: &str = "\
Examples:
  hold serve-import ./public files.db
  hold serve-import ~/Zotero/storage papers.db --layout zotero
  hold serve files.db --files sqlite

The file appears under its name only when the database is complete. A server that uses an older
database then switches to the new one. The command imports regular files, with their .br and .gz
versions. It follows symlinks to files and directories only if they lead to a place below DIR, and
not if they lead to a directory that contains them. Without --hidden, it skips names that begin
with a dot, except DIR/.well-known.

Exit codes:
  0     the database is complete
  2, 3  error, and nothing has changed (see 'hold help')";

/// Options of `hold serve-import`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory
    #[arg(value_name = "DIR")]
    place: PathBuf,

    /// The database to create or replace
    #[arg(value_name = "FILE")]
    database: PathBuf,

    /// How ids map to files
    #[arg(long, value_name = "LAYOUT", default_value_t, value_parser = choice(&LayoutKind::ALL, LayoutKind::word))]
    layout: LayoutKind,

    /// Also import files and directories whose names begin with a dot
    #[arg(long)]
    hidden: bool,
}

/// Imports.
pub fn run(args: &Args, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("serve-import")?;
    let failed = |path: &PathBuf, error| Failure::failed(format!("{}: {error}", path.display()));
    let directory = Directory::open(&args.place, Symlinks::Inside);
    let directory = directory.map_err(|error| failed(&args.place, error))?;
    let layout = args.layout.layout(None, args.hidden);
    let spinner = progress::of_bytes(&output, None);
    let mut progress = |files: u64, bytes: u64| {
        spinner.set_position(bytes);
        spinner.set_message(things(files, "file", "files"));
    };
    let imported = import(&directory, &*layout, &args.database, &mut progress);
    let (files, bytes) = imported.map_err(|error| failed(&args.database, error))?;
    spinner.finish_and_clear();
    let (count, size) = (things(files, "file", "files"), shown(bytes));
    output.report(
        &json!({ "files": files, "bytes": bytes }),
        &format!("{}: {count}, {size}", args.database.display()),
    )?;
    Ok(ExitCode::SUCCESS)
}
