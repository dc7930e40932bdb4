//! `hold log create`: makes a log, and the hold if it does not exist yet.

use super::line::level_parser;
use crate::making::NewHold;
use crate::target::{Directory, StructureName};
use clap::ValueEnum;
use commonhold::hold::StructureKind;
use commonhold::log::{LogLevel, LogOptions};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{self, shown, things};
use serde_json::json;
use std::process::ExitCode;

/// Examples of `hold log create`.
pub const EXAMPLES: &str = "\
Examples:
  hold log create shop events
  hold log create shop trace --rings 8 --ring-bytes 1M --overflow overwrite --level trace

All rings are allocated when the log is created. When a thread has exited, another thread can use
its ring; the lines remain until they are collected or overwritten. If the log exists with the
same ring and overflow settings, the command succeeds and does not change it, not even its level.
If these settings differ, the command fails.

Exit codes:
  0     the log was created, or already existed
  2, 3  error (see 'hold help')";

/// What to do when a line does not fit because its ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Overflow {
    /// Drop the incoming line, and count it
    Drop,
    /// Overwrite the oldest lines
    Overwrite,
}

/// Options of `hold log create`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// Maximum number of threads, across all processes, that write at the same time
    #[arg(long, value_name = "N", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    rings: u32,

    /// Size of each ring, from 4K to 1G, rounded up to a power of two; a line may take up to a
    /// quarter of its ring
    #[arg(long, value_name = "SIZE", default_value = "256K", value_parser = ring_bytes)]
    ring_bytes: u64,

    /// What to do when a line does not fit because its ring is full
    #[arg(long, value_enum, default_value_t = Overflow::Drop)]
    overflow: Overflow,

    /// Reject lines below this level; 'hold log level' changes it
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = level_parser())]
    level: LogLevel,

    #[command(flatten)]
    #[command(next_help_heading = "If the hold does not exist yet")]
    hold: NewHold,
}

fn ring_bytes(text: &str) -> std::result::Result<u64, String> {
    match sizes::bytes(text)? {
        bytes if (4 << 10..=1 << 30).contains(&bytes) => Ok(bytes.next_power_of_two()),
        _ => Err("expected a size from 4K to 1G".to_owned()),
    }
}

/// Makes the log.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("log create")?;
    let overflow = match args.overflow {
        Overflow::Drop => commonhold::log::Overflow::Drop,
        Overflow::Overwrite => commonhold::log::Overflow::Overwrite,
    };
    let options = LogOptions::new().rings(args.rings).ring_bytes(args.ring_bytes);
    let bytes = u64::from(args.rings) * args.ring_bytes;
    let hold = args.hold.open_or_create_for(directory, &args.name, StructureKind::Log, bytes)?;
    let log = hold
        .logs()
        .open_or_create(&args.name.name, options.overflow(overflow).level(args.level))?;
    let (name, stat) = (log.name(), log.stat()?);
    let json = json!({
        "name": name,
        "rings": stat.rings,
        "ring_bytes": stat.ring_bytes,
        "level": stat.level.name(),
    });
    let (rings, bytes) = (things(stat.rings.into(), "ring", "rings"), shown(stat.ring_bytes));
    let text = format!("log {name}: {rings} of {bytes}, level {}", stat.level);
    output.report(&json, &text)?;
    Ok(ExitCode::SUCCESS)
}
