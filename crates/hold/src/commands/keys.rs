//! `hold keys`: prints the keys of a map.

use super::walk::{self, Walk};
use crate::failure::Result;
use crate::output::Output;
use crate::target::Directory;
use std::process::ExitCode;

/// Examples of `hold keys`.
pub const EXAMPLES: &str = "\
Examples:
  hold keys shop prices
  hold keys shop prices --prefix app
  hold keys shop prices --format nul | xargs -0 -n 1 echo
  hold keys shop prices --cursor 0 --limit 1000 --format json   # a page, and the next cursor

Keys come in no order; those that are there all the time are printed exactly once, also while
others write. In text, backslash escapes stand for control characters and for bytes that are not
UTF-8 (\\t \\n \\r \\0 \\\\ \\xHH).";

/// Options of `hold keys`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    walk: Walk,
}

/// Prints the keys.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    walk::run(&args.walk, true, directory, output)
}
