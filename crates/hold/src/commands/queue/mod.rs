//! `hold queue`: the subcommands for queues, one file each.
//!
//! - [`create`], [`push`], [`pull`], [`list`], [`stat`]
//! - [`packing`]: the layout of a message in an element

mod create;
mod list;
mod packing;
mod pull;
mod push;
pub mod stat;

use crate::target::Directory;
use commonhold::queue::{NamedQueue, Queue};
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::help::flowing;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

/// Examples of `hold queue`.
pub const EXAMPLES: &str = "\
Examples:
  hold queue create shop jobs                   # 1024 elements of 1K; queues 'free', 'full'
  hold queue push shop jobs full 'first job'
  hold queue pull shop jobs full                # exit code 1 if the queue is empty
  while job=$(hold queue pull shop jobs full --timeout 1h); do work \"$job\"; done
  hold queue stat shop jobs                     # statistics, and elements in flight

A queue has elements of one size, which move between its named queues. 'push' takes an element
from the first named queue, stores a message in it, and puts the element into another named queue.
'pull' takes the element from there, prints the message, and returns the element to the first
named queue.";

/// Options of `hold queue`.
#[derive(clap::Args, Debug)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    subcommand: Subcommand,
}

/// The subcommands of `hold queue`.
#[derive(clap::Subcommand, Debug)]
enum Subcommand {
    /// Create a queue with its elements and named queues
    #[command(after_help = flowing(create::EXAMPLES))]
    Create(create::Args),
    /// Put messages into a named queue
    #[command(after_help = flowing(push::EXAMPLES))]
    Push(push::Args),
    /// Take messages from a named queue and print them
    #[command(after_help = flowing(pull::EXAMPLES))]
    Pull(pull::Args),
    /// List the named queues and the number of elements in each
    #[command(after_help = flowing(list::EXAMPLES))]
    List(list::Args),
    /// Show the statistics of a queue, and the processes that have elements in flight
    #[command(after_help = flowing(stat::EXAMPLES))]
    Stat(stat::Args),
}

/// Runs the subcommand.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    match &args.subcommand {
        Subcommand::Create(args) => create::run(args, directory, output),
        Subcommand::Push(args) => push::run(args, directory, output),
        Subcommand::Pull(args) => pull::run(args, directory, output),
        Subcommand::List(args) => list::run(args, directory, output),
        Subcommand::Stat(args) => stat::run(args, directory, output),
    }
}

/// The named queue `name`, or the first one if no name was given.
fn named_or_first<'q>(queue: &'q Queue, name: Option<&str>) -> Result<NamedQueue<'q>> {
    if let Some(name) = name {
        return Ok(queue.named(name)?);
    }
    let first = queue.all().next();
    first.ok_or_else(|| Failure::failed(format!("queue '{}' has no named queues", queue.name())))
}

/// Fails if elements would go from a named queue to itself; the error names `option`.
fn ensure_other(from: NamedQueue<'_>, to: NamedQueue<'_>, option: &str) -> Result<()> {
    if from.name() != to.name() {
        return Ok(());
    }
    let name = from.name();
    Err(Failure::usage(format!(
        "elements would come from queue '{name}' and return to it; choose another one with \
         {option} ('hold queue list' shows them)"
    )))
}
