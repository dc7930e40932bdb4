//! `hold man`: the man pages, from the same definitions as the help.

mod page;

use clap::Command;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::Output;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Examples of `hold man`.
pub const EXAMPLES: &str = "\
Examples:
  hold man | man -l -                           # read it
  hold man ~/.local/share/man/man1              # write hold.1, hold-set.1, ...";

/// Options of `hold man`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory for the man pages of all subcommands; it is created if it does not exist
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints or writes the pages of `command`.
pub fn run(args: &Args, command: Command, output: &Output) -> Result<ExitCode> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let Some(directory) = &args.directory else {
        let rendered = page::render(&command);
        let page = rendered.map_err(|e| Failure::failed(format!("the man page: {e}")))?;
        output.bytes(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    let named = |e: std::io::Error| Failure::failed(format!("{}: {e}", directory.display()));
    std::fs::create_dir_all(directory).map_err(named)?;
    write_all(&command, directory).map_err(named)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of the command and those of its subcommands.
fn write_all(command: &Command, directory: &Path) -> std::io::Result<()> {
    let name = format!("{}.1", page::name(command));
    std::fs::write(directory.join(name), page::render(command)?)?;
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    subcommands.into_iter().try_for_each(|subcommand| write_all(subcommand, directory))
}
