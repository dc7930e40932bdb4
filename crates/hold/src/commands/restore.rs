//! `hold restore`: makes a hold from a backup.

use crate::target::Directory;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::things;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold restore`.
pub const EXAMPLES: &str = "\
Examples:
  hold restore shop.backup shop                 # into memory
  hold restore shop.backup ./shop.hold          # into a file

The hold must not exist yet; 'hold drop' deletes an existing hold.";

/// Options of `hold restore`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The backup, a file created by 'hold backup'
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The hold to create: a bare name (in memory), or a path that contains a slash or ends in
    /// .hold
    #[arg(value_name = "HOLD")]
    hold: PathBuf,
}

/// Makes the hold.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("restore")?;
    let path = directory.resolve(&args.hold)?;
    let report = commonhold::hold::restore(&args.file, &path)?;
    let json = json!({
        "path": path.to_string_lossy(),
        "maps": report.maps,
        "pairs": report.pairs,
    });
    let text = format!(
        "{}: {} in {} restored",
        path.display(),
        things(report.pairs, "pair", "pairs"),
        things(report.maps.into(), "map", "maps"),
    );
    output.report(&json, &text)?;
    Ok(ExitCode::SUCCESS)
}
