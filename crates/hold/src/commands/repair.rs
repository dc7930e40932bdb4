//! `hold repair`: cleans up after killed processes; with `--salvage`, saves what a system crash has
//! left of a file hold.

use super::check;
use crate::commands::shared::answer;
use crate::target::{Directory, HoldName};
use commonhold::Hold;
use commonhold::hold::SalvageReport;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{self, things};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

/// Examples of `hold repair`.
pub const EXAMPLES: &str = "\
Examples:
  hold repair shop
  hold repair ./shop.hold --salvage             # after a system crash; maps only

Without --salvage, the command completes or undoes the unfinished operations of killed
processes, returns free memory to the system and checks the hold. Other processes may use the
hold while the command runs. After a kill, running this command is never strictly necessary: the
next process that needs an affected part recovers it.

Use --salvage for a file hold that was open when the system crashed or lost power. No other
process may have the hold open. For each key, the command keeps the newest record with a correct
checksum. It reports the records that were dropped or are uncertain. Pages reach the disk in
arbitrary order, so deleted keys may come back and new keys may be missing. Queues, channels and
logs are not salvaged. The old file is kept under another name. Without --force, salvaging a sound
hold is an error. With a journal ('hold journal'), a system crash loses no change that 'hold sync'
or 'Map::sync' has confirmed. Without a journal, regular backups ('hold backup') limit the loss.

Exit codes:
  0     no problems remain
  1     problems remain (they are listed)
  2, 3  error (see 'hold help')";

/// Options of `hold repair`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: HoldName,

    /// Salvage the intact records of a file hold after a system crash
    #[arg(long)]
    salvage: bool,

    /// Salvage a hold even if it is sound
    #[arg(long, requires = "salvage")]
    force: bool,
}

/// Repairs the hold.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("repair")?;
    if args.salvage {
        return salvage(args, directory, &output);
    }
    let hold = directory.open_to_write(&args.name.hold)?;
    let recovered = hold.sweep()?;
    let trimmed_bytes = hold.trim()?;
    let report = hold.check()?;
    let json = json!({
        "recovered": recovered,
        "trimmed_bytes": trimmed_bytes,
        "check": check::json(&report),
    });
    let text = format!(
        "{} recovered; {} returned to the system\n{}",
        things(recovered as u64, "dead participant", "dead participants"),
        sizes::shown(trimmed_bytes),
        check::text(&report),
    );
    output.report(&json, &text)?;
    Ok(answer(report.ok))
}

fn salvage(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let path = directory.resolve(&args.name.hold)?;
    if !args.force {
        ensure_damaged(&path)?;
    }
    let report = commonhold::hold::salvage(&path)?;
    output.report(&salvage_json(&report), &salvage_text(&report))?;
    Ok(ExitCode::SUCCESS)
}

/// Fails if there is nothing to salvage: the hold opens and is sound.
fn ensure_damaged(path: &Path) -> Result<()> {
    // A hold that cannot be opened or checked is one to salvage, or salvage reports the reason
    // itself.
    match Hold::open(path).and_then(|hold| hold.check()) {
        Ok(report) if report.ok => Err(Failure::failed(format!(
            "{}: this hold is sound, so it was not salvaged and is unchanged; 'hold repair' \
             without --salvage cleans up after killed processes. --force salvages it anyway, which \
             rewrites the maps and loses the queues, channels and logs",
            path.display()
        ))),
        _ => Ok(()),
    }
}

fn salvage_text(report: &SalvageReport) -> String {
    let mut lines = vec![
        format!(
            "{} in {} kept",
            things(report.kept, "pair", "pairs"),
            things(report.maps.into(), "map", "maps")
        ),
        format!(
            "{} of the same keys omitted",
            things(report.superseded, "older record", "older records")
        ),
        format!("{} dropped", things(report.dropped, "damaged record", "damaged records")),
        format!("{} missing", things(report.missing, "pair in the index", "pairs in the index")),
        format!("{} uncertain", things(report.undecidable, "record", "records")),
    ];
    if report.cut_off > 0 {
        lines.push(format!("the file is {} shorter than it was", sizes::shown(report.cut_off)));
    }
    lines.extend(report.notes.iter().map(|note| format!("  - {note}")));
    lines.push(format!("the old file was kept as {}", report.kept_old_as.display()));
    lines.join("\n")
}

fn salvage_json(report: &SalvageReport) -> Value {
    json!({
        "maps": report.maps,
        "kept": report.kept,
        "superseded": report.superseded,
        "dropped": report.dropped,
        "missing": report.missing,
        "cut_off": report.cut_off,
        "undecidable": report.undecidable,
        "notes": report.notes,
        "kept_old_as": report.kept_old_as.to_string_lossy(),
    })
}
