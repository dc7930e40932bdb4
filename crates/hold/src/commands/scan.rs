//! `hold scan`: prints the pairs of a map.

use crate::commands::shared::map_iteration::{self, MapIteration};
use crate::target::Directory;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

/// Examples of `hold scan`.
pub const EXAMPLES: &str = "\
Examples:
  hold scan shop prices
  hold scan shop prices --prefix app --limit 10
  hold scan shop prices --format json | jq -r .value
  hold scan shop prices --cursor 0 --limit 1000 --format json   # a page, and the next cursor

Each line has a key, a tab and a value. The order of pairs is arbitrary. A pair that exists
throughout the scan is printed exactly once, even while other processes write. In text output,
backslash escapes stand for control characters and for bytes that are not UTF-8 (\\t \\n \\r \\0
\\\\ \\xHH).";

/// Options of `hold scan`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    iteration: MapIteration,
}

/// Prints the pairs.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    map_iteration::run(&args.iteration, false, directory, output)
}
