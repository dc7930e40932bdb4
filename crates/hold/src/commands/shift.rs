//! `hold shift`: takes the first value of a list and prints it.

use super::ends::{self, End};
use crate::failure::Result;
use crate::output::Output;
use crate::target::Directory;
use std::process::ExitCode;

/// Examples of `hold shift`.
pub const EXAMPLES: &str = "\
Examples:
  hold shift shop lists fruit || echo 'it is empty'
  hold shift shop lists fruit --count 3         # the first three, one a line
  hold shift shop lists fruit --format json     # {\"value\": \"apple\"}

Exit codes: 0 as many as were asked for; 1 there were fewer (no message); 2, 3 see 'hold help'";

/// Options of `hold shift`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    of: ends::Taking,
}

/// Takes the first.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    ends::take(&args.of, End::Front, directory, output)
}
