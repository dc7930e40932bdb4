//! `hold push`: appends values to a list, which is the value of a key.

use super::ends::{self, End};
use crate::failure::Result;
use crate::output::Output;
use crate::target::Directory;
use std::process::ExitCode;

/// Examples of `hold push`.
pub const EXAMPLES: &str = "\
Examples:
  hold push shop lists fruit apple pear         # makes what is not there yet
  ls | hold push shop lists files               # each line is a value
  hold get --list shop lists fruit              # one value a line
  hold shift shop lists fruit                   # the first one, which is gone then

A list is written anew with every change: right for up to some kilobytes. 'hold queue' and
'hold channel' are for more. An empty list is an absent key.

Exit codes: 0 all is added; 2, 3 see 'hold help'";

/// Options of `hold push`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    of: ends::Adding,
}

/// Appends.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    ends::add(&args.of, End::Back, directory, output)
}
