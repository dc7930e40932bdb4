//! `hold keys`: prints the keys of a map.

use crate::commands::shared::map_iteration::{self, MapIteration};
use crate::target::Directory;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

/// Examples of `hold keys`.
pub const EXAMPLES: &str = "\
Examples:
  hold keys shop prices
  hold keys shop prices --prefix app
  hold keys shop prices --format nul | xargs -0 -n 1 echo
  hold keys shop prices --cursor 0 --limit 1000 --format json   # a page, and the next cursor

The order of keys is arbitrary. A key that exists throughout the scan is printed exactly once,
even while other processes write. In text output, backslash escapes stand for control characters
and for bytes that are not UTF-8 (\\t \\n \\r \\0 \\\\ \\xHH).";

/// Options of `hold keys`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    iteration: MapIteration,
}

/// Prints the keys.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    map_iteration::run(&args.iteration, true, directory, output)
}
