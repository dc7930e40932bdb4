//! `hold unshift`: puts values in front of a list, which is the value of a key.

use super::ends::{self, End};
use crate::failure::Result;
use crate::output::Output;
use crate::target::Directory;
use std::process::ExitCode;

/// Examples of `hold unshift`.
pub const EXAMPLES: &str = "\
Examples:
  hold unshift shop lists fruit plum            # plum comes first now
  hold unshift shop lists fruit a b             # now a, then b
  hold get --list shop lists fruit

Exit codes: 0 all is added; 2, 3 see 'hold help'";

/// Options of `hold unshift`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    of: ends::Adding,
}

/// Puts them in front.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    ends::add(&args.of, End::Front, directory, output)
}
