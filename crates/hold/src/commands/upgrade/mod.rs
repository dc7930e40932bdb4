//! `hold upgrade`: checks that a hold has the format of this version, or copies it in that format.

mod copying;
mod drafts;
mod messages;

use crate::target::{Directory, HoldName};
use commonhold::raw::FORMAT;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::things;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold upgrade`.
pub const EXAMPLES: &str = "\
Examples:
  hold upgrade shop                             # check the format
  hold upgrade shop --to shop2                  # copy everything to a new hold
  hold upgrade ./shop.hold --to /mnt/new/shop.hold

This version cannot open a hold of another format, so it cannot convert one: the command fails, and
the error names both formats. To convert the maps, run 'hold backup' with the version that wrote
the hold, and 'hold restore' with this one.

The copy contains all maps, the elements of all queues and the messages that channels keep. Its logs
are empty, so all log lines must have been collected first. No other process may have the hold open
for writing. Replicas of the copy's maps receive the whole map. The hold itself is kept.";

/// Options of `hold upgrade`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: HoldName,

    /// Copy everything to this new hold; both holds have the format of this version
    #[arg(long, value_name = "NEW")]
    to: Option<PathBuf>,
}

/// Checks the format, or makes the copy.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("upgrade")?;
    match &args.to {
        Some(to) => copy(args, &directory.resolve(to)?, directory, &output)?,
        None => check(args, directory, &output)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A hold of another format cannot be opened: the error has both formats.
fn check(args: &Args, directory: &Directory, output: &Output) -> Result<()> {
    let format = directory.open_to_read(&args.name.hold)?.stat()?.format;
    let path = directory.resolve(&args.name.hold)?;
    let json = json!({
        "path": path.to_string_lossy(),
        "format": format,
        "current": FORMAT,
        "upgraded": false,
    });
    let text = format!(
        "{}: has format {format}, the format of this version; nothing to do",
        path.display()
    );
    output.report(&json, &text)
}

fn copy(args: &Args, to: &std::path::Path, directory: &Directory, output: &Output) -> Result<()> {
    let hold = directory.open_to_write(&args.name.hold)?;
    let copied = copying::copy(&hold, to)?;
    let json = json!({
        "path": to.to_string_lossy(),
        "format": FORMAT,
        "upgraded": true,
        "maps": copied.maps,
        "pairs": copied.pairs,
        "queues": copied.queues,
        "elements": copied.elements,
        "channels": copied.channels,
        "messages": copied.messages,
        "logs": copied.logs,
    });
    let text = format!(
        "{}: format {FORMAT}; {} in {}, {} in {}, {} in {}, {} without lines",
        to.display(),
        things(copied.pairs, "pair", "pairs"),
        things(copied.maps, "map", "maps"),
        things(copied.elements, "element", "elements"),
        things(copied.queues, "queue", "queues"),
        things(copied.messages, "message", "messages"),
        things(copied.channels, "channel", "channels"),
        things(copied.logs, "log", "logs"),
    );
    output.report(&json, &text)
}
