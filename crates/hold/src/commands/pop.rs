//! `hold pop`: takes the last value of a list and prints it.

use super::ends::{self, End};
use crate::failure::Result;
use crate::output::Output;
use crate::target::Directory;
use std::process::ExitCode;

/// Examples of `hold pop`.
pub const EXAMPLES: &str = "\
Examples:
  hold pop shop lists fruit || echo 'it is empty'
  hold pop shop lists fruit --count 3           # the last one first, one a line
  hold pop shop lists fruit --format json       # {\"value\": \"pear\"}

Exit codes: 0 as many as were asked for; 1 there were fewer (no message); 2, 3 see 'hold help'";

/// Options of `hold pop`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    of: ends::Taking,
}

/// Takes the last.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    ends::take(&args.of, End::Back, directory, output)
}
