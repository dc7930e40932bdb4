//! `hold log`: the subcommands for logs, one file each.
//!
//! - [`create`], [`write`], [`collect`], [`mod@dump`], [`tail`], [`mod@level`], [`stat`]
//! - [`line`]: a line of a log, for people and in JSON

mod collect;
mod create;
mod dump;
mod level;
mod line;
pub mod stat;
mod tail;
mod write;

use crate::target::Directory;
use commonhold_terminal::failure::Result;
use commonhold_terminal::help::flowing;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

/// Examples of `hold log`.
pub const EXAMPLES: &str = "\
Examples:
  hold log create shop events
  hold log write shop events 'the shop is open'
  hold log tail -f shop events                    # works while a collector is running
  hold log collect shop events --file shop.log --max-bytes 10M
  hold log dump shop events                       # all lines still in the log, even after a crash

Each thread that writes has its own ring buffer, so writers never wait for each other. One collector
at a time merges the lines by time and frees their space for new lines. Lines that have not been
collected yet remain in the hold, even if their writers die.";

/// Options of `hold log`.
#[derive(clap::Args, Debug)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    subcommand: Subcommand,
}

/// The subcommands of `hold log`.
#[derive(clap::Subcommand, Debug)]
enum Subcommand {
    /// Create a log
    #[command(after_help = flowing(create::EXAMPLES))]
    Create(create::Args),
    /// Write lines
    #[command(after_help = flowing(write::EXAMPLES))]
    Write(write::Args),
    /// Write all lines, merged by time, to standard output or to rotated files
    #[command(after_help = flowing(collect::EXAMPLES))]
    Collect(collect::Args),
    /// Print all lines still in the log, without collecting them
    #[command(after_help = flowing(dump::EXAMPLES))]
    Dump(dump::Args),
    /// Print the last lines and, with -f, new lines, without collecting them
    #[command(after_help = flowing(tail::EXAMPLES))]
    Tail(tail::Args),
    /// Print or set the level below which the log rejects lines
    #[command(after_help = flowing(level::EXAMPLES))]
    Level(level::Args),
    /// Show the collector, the number of dropped lines, and the thread of each ring
    #[command(after_help = flowing(stat::EXAMPLES))]
    Stat(stat::Args),
}

/// Runs the subcommand.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    match &args.subcommand {
        Subcommand::Create(args) => create::run(args, directory, output),
        Subcommand::Write(args) => write::run(args, directory, output),
        Subcommand::Collect(args) => collect::run(args, directory, output),
        Subcommand::Dump(args) => dump::run(args, directory, output),
        Subcommand::Tail(args) => tail::run(args, directory, output),
        Subcommand::Level(args) => level::run(args, directory, output),
        Subcommand::Stat(args) => stat::run(args, directory, output),
    }
}
