//! `hold nats`: starts the program `hold-nats`, which is the bridge to NATS JetStream. It is a
//! program of its own, so that `hold` does not contain its client.

use crate::target::Directory;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::Output;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The program.
const PROGRAM: &str = "hold-nats";

/// Examples of `hold nats`.
pub const EXAMPLES: &str = "\
Examples:
  hold nats create-bucket flags --replicas 3
  hold nats mirror flags shop flags              # bucket flags -> map flags of hold shop
  hold nats put flags shop flags dark-mode on    # returns when the local map shows it
  hold nats publish shop prices prices           # map prices of hold shop -> bucket prices
  hold nats send shop ticks market.ticks         # channel ticks of hold shop -> subject
  hold nats receive market.ticks shop ticks      # subject -> channel ticks of hold shop
  hold nats help                                 # all subcommands of the bridge

The bridge is a separate program, hold-nats. It must be in the same directory as the 'hold' program,
or in PATH. To install it, run this command in the source directory:
  cargo install --path crates/commonhold-nats";

/// Options of `hold nats`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The subcommand of the bridge, and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process by the program; returns only if that fails.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let mut command = Command::new(next_to_this_program().unwrap_or_else(|| PROGRAM.into()));
    if let Some(path) = directory.path() {
        command.arg("--directory").arg(path);
    }
    if let Some(time) = directory.lock_timeout {
        command.arg("--lock-timeout").arg(humantime::format_duration(time).to_string());
    }
    if let Some(format) = output.format() {
        command.args(["--format", format.name()]);
    }
    if output.is_quiet() {
        command.arg("--quiet");
    }
    let error = command.args(&args.arguments).exec();
    Err(match error.kind() {
        ErrorKind::NotFound => Failure::failed(format!(
            "the program {PROGRAM} is not installed: expected it next to the program 'hold' or in \
             PATH; install it from the source directory with 'cargo install --path \
             crates/commonhold-nats'"
        )),
        _ => Failure::failed(format!("cannot start {PROGRAM}: {error}")),
    })
}

/// The program in the directory of this one, if it is there.
fn next_to_this_program() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    path.is_file().then_some(path)
}
