//! `hold man`: the man pages, from the same definitions as the help.

use crate::cli::Cli;
use crate::failure::{Failure, Result};
use crate::output::Output;
use clap::CommandFactory;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold man`.
pub const EXAMPLES: &str = "\
Examples:
  hold man | man -l -                           # read it
  hold man ~/.local/share/man/man1              # write hold.1, hold-set.1, ...";

/// Options of `hold man`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory to write the pages of all verbs to; it is made if it is not there
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints or writes the pages.
pub fn run(args: &Args, output: &Output) -> Result<ExitCode> {
    let command = Cli::command();
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        rendered.map_err(|e| Failure::failed(format!("the man page: {e}")))?;
        output.bytes(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    let named = |e: std::io::Error| Failure::failed(format!("{}: {e}", directory.display()));
    std::fs::create_dir_all(directory).map_err(named)?;
    clap_mangen::generate_to(command, directory).map_err(named)?;
    Ok(ExitCode::SUCCESS)
}
