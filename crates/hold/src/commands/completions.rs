//! `hold completions`: the completions of a shell, from the same definitions as the help.

use clap::Command;
use clap_complete::Shell;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

/// Examples of `hold completions`.
pub const EXAMPLES: &str = "\
Examples:
  hold completions bash > ~/.local/share/bash-completion/completions/hold
  hold completions zsh > ~/.zfunc/_hold
  hold completions fish > ~/.config/fish/completions/hold.fish";

/// Options of `hold completions`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The shell to print completions for
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Prints the completions of `command`.
pub fn run(args: &Args, mut command: Command, output: &Output) -> Result<ExitCode> {
    // Made in memory: the generator cannot handle a reader that closes the pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "hold", &mut script);
    output.bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}
