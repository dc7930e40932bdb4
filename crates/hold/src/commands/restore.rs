//! `hold restore`: makes a hold from a backup.

use crate::commands::shared::backup_stream;
use crate::target::Directory;
use commonhold::hold::RestoreOptions;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::things;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Examples of `hold restore`.
pub const EXAMPLES: &str = "\
Examples:
  hold restore shop.backup shop                 # into memory
  hold restore shop.backup ./shop.hold          # into a file
  zstdcat shop.backup.zst | hold restore - shop # from a pipe
  hold restore shop.backup old --map prices     # only this map

The hold must not exist yet; 'hold drop' deletes an existing hold. The new hold appears when it is
complete. If the backup is damaged or truncated, or if the command is killed, no hold appears.

If FILE is '-', the command reads the backup from standard input to its end, and keeps it in a
temporary file (in TMPDIR, or in /tmp) until the hold is complete. The memory that the command needs
does not grow with the backup.

With --map, only the maps that these options name are restored. 'hold backup verify' lists the maps
in a backup. To bring a map back into an existing hold, restore it into a new hold, and copy its
pairs: 'hold dump old prices | hold load shop prices'.";

/// Options of `hold restore`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The backup, a file created by 'hold backup'; '-' is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The hold to create: a bare name (in memory), or a path that contains a slash or ends in
    /// .hold
    #[arg(value_name = "HOLD")]
    hold: PathBuf,

    /// Restore only this map. You can give this option several times
    #[arg(long = "map", value_name = "NAME")]
    maps: Vec<String>,
}

/// Makes the hold.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("restore")?;
    let path = directory.resolve(&args.hold)?;
    let options = args.maps.iter().fold(RestoreOptions::new(), |all, map| all.map(map));
    let report = match args.file == Path::new("-") {
        true => options.restore_from(backup_stream::input()?, &path)?,
        false => options.restore(&args.file, &path)?,
    };
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
