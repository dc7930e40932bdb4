//! `hold-nats`: the bridge between holds and NATS JetStream. `hold nats` starts this program.
//!
//! - `cli`: the subcommands, from which the help is made
//! - `command/`: one file per subcommand; `connection` and `target` are shared
//!
//! Invariant: if anything fails, the exit code shows it.

#![forbid(unsafe_code)]

mod cli;
mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::Cli::of_process().run().unwrap_or_else(|failure| failure.report())
}
