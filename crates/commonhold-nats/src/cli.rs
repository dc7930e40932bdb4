//! The subcommands of `hold nats` and their options.

use crate::command::target::Directory;
use crate::command::{bucket, mirror, publish, receive, send, single_key};
use clap::Parser;
use commonhold_terminal::failure::Result;
use commonhold_terminal::help::flowing;
use commonhold_terminal::output::{Format, Output};
use commonhold_terminal::version;
use std::process::ExitCode;

const LONG_ABOUT: &str = "\
Connects the maps of holds to the key-value buckets of NATS JetStream, and channels and queues to
its streams. Data kept on several servers survives the loss of a machine. On every machine,
processes read and write their local hold at memory speed.";

const AFTER_HELP: &str = "\
Examples:
  hold nats create-bucket flags --replicas 3
  hold nats mirror flags shop flags              # bucket flags -> map flags of hold shop
  hold nats put flags shop flags dark-mode on    # returns when the local map shows it
  hold nats publish shop prices prices           # map prices of hold shop -> bucket prices
  hold nats send shop ticks market.ticks         # channel ticks of hold shop -> subject
  hold nats receive market.ticks shop ticks      # subject -> channel ticks of hold shop

Exit codes:
  0     success, or stopped by a signal
  1     a negative result: a key is absent, or a condition is false
  2     the command line is invalid
  3     the command failed; a message on standard error gives the reason

If neither --server nor --context is given, the environment variable NATS_URL names the servers. If
it is not set, the selected context of the 'nats' tool applies. If no context is selected, the
command connects to a server on this machine.";

/// The bridge between holds and NATS JetStream
#[derive(Parser, Debug)]
#[command(name = "hold-nats", bin_name = "hold nats", version = version::text(), long_about = LONG_ABOUT)]
#[command(after_help = flowing(AFTER_HELP), arg_required_else_help = true)]
#[command(propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    subcommand: Subcommand,

    #[command(flatten)]
    directory: Directory,

    /// Output format
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    #[arg(help_heading = "Global options")]
    format: Option<Format>,

    /// Print only results and errors, not reports
    #[arg(long, short, global = true, help_heading = "Global options")]
    quiet: bool,
}

#[derive(clap::Subcommand, Debug)]
enum Subcommand {
    /// Keep a local map in sync with a bucket
    #[command(after_help = flowing(mirror::EXAMPLES))]
    Mirror(mirror::Args),
    /// Keep a bucket in sync with a local map
    #[command(after_help = flowing(publish::EXAMPLES))]
    Publish(publish::Args),
    /// Publish the messages of a channel to a stream
    #[command(after_help = flowing(send::EXAMPLES))]
    Send(send::Args),
    /// Deliver the messages of a stream to a channel or a queue
    #[command(after_help = flowing(receive::EXAMPLES))]
    Receive(receive::Args),
    /// Store a value in a bucket, and wait until the local map shows it
    #[command(after_help = flowing(single_key::PUT_EXAMPLES))]
    Put(single_key::PutArgs),
    /// Print the value of a key in a bucket
    #[command(after_help = flowing(single_key::GET_EXAMPLES))]
    Get(single_key::GetArgs),
    /// Delete a key from a bucket, and wait until the local map no longer has it
    #[command(after_help = flowing(single_key::DELETE_EXAMPLES))]
    Delete(single_key::DeleteArgs),
    /// Create a bucket
    #[command(after_help = flowing(bucket::EXAMPLES))]
    CreateBucket(bucket::Args),
}

impl Cli {
    /// The command line of this process. Ends the process if the line is invalid or asks for help.
    pub fn of_process() -> Cli {
        Cli::parse()
    }

    /// Runs the subcommand that the command line names.
    ///
    /// # Errors
    /// Those of the subcommand.
    pub fn run(&self) -> Result<ExitCode> {
        let (directory, output) = (&self.directory, &Output::new(self.format, self.quiet));
        match &self.subcommand {
            Subcommand::Mirror(args) => mirror::run(args, directory, output),
            Subcommand::Publish(args) => publish::run(args, directory, output),
            Subcommand::Send(args) => send::run(args, directory, output),
            Subcommand::Receive(args) => receive::run(args, directory, output),
            Subcommand::Put(args) => single_key::put(args, directory, output),
            Subcommand::Get(args) => single_key::get(args, output),
            Subcommand::Delete(args) => single_key::delete(args, directory, output),
            Subcommand::CreateBucket(args) => bucket::run(args, output),
        }
    }
}
