//! `hold check`: checks everything in a hold and reports damage.

use crate::commands::shared::answer;
use crate::target::{Directory, HoldName};
use commonhold::hold::CheckReport;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{count, things};
use commonhold_terminal::text::printable_lines;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Examples of `hold check`.
pub const EXAMPLES: &str = "\
Examples:
  hold check shop
  hold check ./shop.hold --format json
  hold check shop -q && hold backup shop shop.backup

Writers wait during the check. Readers do not wait.

Exit codes:
  0     the hold is undamaged
  1     it is damaged (the problems are listed)
  2, 3  error (see 'hold help')";

/// Options of `hold check`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: HoldName,
}

/// Checks the hold.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("check")?;
    let report = directory.open_to_write(&args.name.hold)?.check()?;
    match (output.is_json(), report.ok && output.is_quiet()) {
        (true, _) => output.json(&json(&report))?,
        (false, true) => {}
        (false, false) => output.text(&printable_lines(&text(&report)))?,
    }
    Ok(answer(report.ok))
}

/// The report for people.
pub fn text(report: &CheckReport) -> String {
    let what = format!(
        "{}, {}, {}; {} pieces of memory allocated, {} reachable, {} in flight",
        things(report.maps.into(), "map", "maps"),
        things(report.records, "record", "records"),
        things(report.others.into(), "queue, channel or log", "queues, channels and logs"),
        count(report.allocated),
        count(report.reachable),
        count(report.in_flight),
    );
    if report.ok {
        return format!("ok: {what}");
    }
    let mut lines = vec![format!("{what}; problems:")];
    lines.extend(report.problems.iter().map(|p| format!("  - {p}")));
    lines.push(
        "to do: save readable pairs with 'hold dump'; 'hold repair' cleans up after killed \
         processes; see 'hold repair --help' for --salvage"
            .to_owned(),
    );
    lines.join("\n")
}

/// The report in JSON.
pub fn json(report: &CheckReport) -> Value {
    json!({
        "ok": report.ok,
        "problems": report.problems,
        "maps": report.maps,
        "records": report.records,
        "others": report.others,
        "allocated": report.allocated,
        "reachable": report.reachable,
        "in_flight": report.in_flight,
        "segments": report.segments,
    })
}
