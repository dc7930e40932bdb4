//! `hold backup` copies a hold as of one instant, while other processes write. `hold backup verify`
//! reads such a copy to its end.

mod contents;

use crate::commands::shared::own_or_subcommand::OwnOrSubcommand;
use crate::target::{Directory, HoldName};
use commonhold::hold::BackupReport;
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::help::flowing;
use commonhold_terminal::output::{self, Output};
use commonhold_terminal::sizes::{self, things};
use serde_json::{Value, json};
use std::io::stdout;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Examples of `hold backup`.
pub const EXAMPLES: &str = "\
Examples:
  hold backup shop shop.backup
  hold backup ./shop.hold /mnt/safe/shop-monday.backup
  hold backup shop shop.backup --rotate 7        # also shop.backup.1 to shop.backup.6
  hold backup shop - | zstd > shop.backup.zst    # to a pipe; the report goes to standard error
  hold backup shop - | ssh spare hold restore - shop
  hold backup verify shop.backup                 # reads the file and reports damage
  hold restore shop.backup shop2

Without --rotate, FILE must not exist yet. With --rotate N, FILE is the newest of N backups: when
the new backup is complete, FILE becomes FILE.1, FILE.1 becomes FILE.2 and so on, and the oldest
of N backups is deleted. At every instant, even if the command is killed, the newest complete backup
is FILE, or FILE.1 if FILE does not exist. If the new backup cannot be completed, the earlier ones
do not change.

If FILE is '-', the command writes the backup to standard output, and its report to standard error.
The memory that it needs does not grow with the hold. If writers make many changes while it writes
to a slow pipe, it stores these changes in a temporary file (in TMPDIR, or in /tmp).

Do not copy the file of an open hold with 'cp': the copy may be inconsistent. A backup is always
consistent.";

/// Options of `hold backup`: a subcommand, or those for making a backup.
pub type Args = OwnOrSubcommand<MakeArgs, Subcommand>;

/// The subcommands of `hold backup`.
#[derive(clap::Subcommand, Debug)]
pub enum Subcommand {
    /// Read a backup to its end, and report its contents and any damage
    #[command(after_help = flowing(contents::EXAMPLES))]
    Verify(contents::Args),
}

/// Options for making a backup.
#[derive(clap::Args, Debug)]
pub struct MakeArgs {
    #[command(flatten)]
    name: HoldName,

    /// The file to write, which 'hold restore' reads; '-' is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Keep the last N backups: FILE, FILE.1 and so on; the oldest is deleted when the new one is
    /// complete
    #[arg(long, value_name = "N", overrides_with = "rotate")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    rotate: Option<u32>,
}

/// Makes a backup, or verifies one.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    match args {
        Args::Subcommand(Subcommand::Verify(args)) => contents::run(args, output),
        Args::Own(args) => make(args, directory, &output.text_or_json("backup")?),
    }
}

fn make(args: &MakeArgs, directory: &Directory, output: &Output) -> Result<ExitCode> {
    if args.file == Path::new("-") {
        return write_to_stdout(args, directory, output);
    }
    let hold = directory.open_to_write(&args.name.hold)?;
    let report = match args.rotate {
        None => hold.backup(&args.file)?,
        Some(keep) => hold.backup_rotated(&args.file, keep)?,
    };
    let name = args.file.to_string_lossy();
    output.report(&json_of(&name, &report), &text_of(&name, &report))?;
    Ok(ExitCode::SUCCESS)
}

fn write_to_stdout(args: &MakeArgs, directory: &Directory, output: &Output) -> Result<ExitCode> {
    if args.rotate.is_some() {
        return Err(Failure::usage("--rotate: expected a file name, got '-'"));
    }
    if output::is_terminal() {
        return Err(Failure::usage(
            "standard output is a terminal, but a backup is binary data; redirect it to a file or \
             a pipe, or name a file instead of '-'",
        ));
    }
    let report = directory.open_to_write(&args.name.hold)?.backup_to(stdout().lock())?;
    let name = "standard output";
    match (output.is_json(), output.is_quiet()) {
        (true, _) => note(&json_of("-", &report).to_string()),
        (false, true) => {}
        (false, false) => note(&text_of(name, &report)),
    }
    Ok(ExitCode::SUCCESS)
}

fn json_of(file: &str, report: &BackupReport) -> Value {
    json!({
        "file": file,
        "maps": report.maps,
        "pairs": report.pairs,
        "left_out": report.left_out,
        "bytes": report.bytes,
        "paused_ms": report.paused_ms,
    })
}

fn text_of(file: &str, report: &BackupReport) -> String {
    let mut text = format!(
        "{file}: {} in {}, {}; writers waited {:.1} ms",
        things(report.pairs, "pair", "pairs"),
        things(report.maps.into(), "map", "maps"),
        sizes::shown(report.bytes),
        report.paused_ms,
    );
    if report.left_out > 0 {
        let others = things(report.left_out.into(), "other structure", "other structures");
        text += &format!("; not copied: {others} (queues, channels, logs, incomplete replicas)");
    }
    text
}
