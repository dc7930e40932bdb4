//! `hold backup`: copies a hold as it is at one instant, while others write.

use crate::target::{Directory, HoldName};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{self, things};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold backup`.
pub const EXAMPLES: &str = "\
Examples:
  hold backup shop shop.backup
  hold backup ./shop.hold /mnt/safe/shop-monday.backup
  hold restore shop.backup shop2

Do not copy the file of an open hold with 'cp': the copy may be inconsistent. A backup is always
consistent.";

/// Options of `hold backup`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: HoldName,

    /// The file to write; 'hold restore' reads it
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Writes the backup.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("backup")?;
    let hold = directory.open_to_write(&args.name.hold)?;
    let report = hold.backup(&args.file)?;
    let json = json!({
        "file": args.file.to_string_lossy(),
        "maps": report.maps,
        "pairs": report.pairs,
        "left_out": report.left_out,
        "bytes": report.bytes,
        "paused_ms": report.paused_ms,
    });
    let mut text = format!(
        "{}: {} in {}, {}; writers waited {:.1} ms",
        args.file.display(),
        things(report.pairs, "pair", "pairs"),
        things(report.maps.into(), "map", "maps"),
        sizes::shown(report.bytes),
        report.paused_ms,
    );
    if report.left_out > 0 {
        let others = things(report.left_out.into(), "other structure", "other structures");
        text += &format!("; not copied: {others} (queues, channels, logs, incomplete replicas)");
    }
    output.report(&json, &text)?;
    Ok(ExitCode::SUCCESS)
}
