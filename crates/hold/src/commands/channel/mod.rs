//! `hold channel`: the subcommands for channels, one file each: [`create`], [`send`], [`recv`],
//! [`stat`].

mod create;
mod recv;
mod send;
pub mod stat;

use crate::target::Directory;
use commonhold_terminal::failure::Result;
use commonhold_terminal::help::flowing;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

/// Examples of `hold channel`.
pub const EXAMPLES: &str = "\
Examples:
  hold channel create shop ticks
  hold channel recv shop ticks                    # in one terminal, or in several
  hold channel send shop ticks 'apple 12.50'      # in another
  tail -f access.log | hold channel send shop ticks
  hold channel stat shop ticks                    # producer, consumers, lag

A channel has one producer at a time and up to 64 consumers. Each consumer receives every message.
The channel keeps its messages in a ring buffer of a fixed size.";

/// Options of `hold channel`.
#[derive(clap::Args, Debug)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    subcommand: Subcommand,
}

/// The subcommands of `hold channel`.
#[derive(clap::Subcommand, Debug)]
enum Subcommand {
    /// Create a channel
    #[command(after_help = flowing(create::EXAMPLES))]
    Create(create::Args),
    /// Send messages to all consumers
    #[command(after_help = flowing(send::EXAMPLES))]
    Send(send::Args),
    /// Receive messages and print them
    #[command(after_help = flowing(recv::EXAMPLES))]
    Recv(recv::Args),
    /// Show the producer, the consumers and their lag
    #[command(after_help = flowing(stat::EXAMPLES))]
    Stat(stat::Args),
}

/// Runs the subcommand.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    match &args.subcommand {
        Subcommand::Create(args) => create::run(args, directory, output),
        Subcommand::Send(args) => send::run(args, directory, output),
        Subcommand::Recv(args) => recv::run(args, directory, output),
        Subcommand::Stat(args) => stat::run(args, directory, output),
    }
}
