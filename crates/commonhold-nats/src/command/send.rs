//! `hold nats send`: brings the messages of a channel into a stream.

use crate::command::bridge_loop::{BridgeLoop, Life};
use crate::command::connection::{Connection, runtime};
use crate::command::target::{ChannelName, Directory};
use commonhold_nats::send::{Sender, SenderOptions};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use std::process::ExitCode;

/// Examples of `hold nats send`.
pub const EXAMPLES: &str = "\
Examples:
  hold nats send shop ticks market.ticks                 # until Ctrl-C
  hold nats send shop ticks market.ticks --lossy         # the channel's producer never waits
  hold stat shop ticks                                   # the sender's lag

The channel and a stream that has the subject must exist. The messages go into the stream in order,
one at a time, each exactly once, even if the sender, the server or the connection is
killed. To make this possible, each message has an ID. If other programs write to the subject,
the stream's duplicate window must be longer than any interruption.

While the servers are unavailable, the messages wait in the channel, and its producer waits when
the channel is full. With --lossy, the producer does not wait: it overwrites old messages, which are
never sent, and 'hold stat' counts them. The same happens while no sender is running.

A message is skipped, and reported, if it is too long for the server or the stream.

Exit codes:
  0     stopped by a signal
  2, 3  error (see 'hold nats --help')";

/// Options of `hold nats send`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: ChannelName,

    /// The subject
    #[arg(value_name = "SUBJECT")]
    subject: String,

    /// The stream [default: the one that has the subject]
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,

    /// Do not make the channel's producer wait; count the messages that it overwrites
    #[arg(long)]
    lossy: bool,

    /// Exit if a message is too long, instead of skipping it
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    life: Life,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    connection: Connection,
}

/// Sends.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("send")?;
    runtime()?.block_on(async {
        let link = args.connection.connect(true).await?;
        let hold = directory.open(&args.name.hold)?;
        let name = format!("sender of channel {}", args.name.channel);
        let bridge = BridgeLoop::begin(&hold, &output, args.life, name)?;
        let mut options = SenderOptions::default();
        options.stream = args.stream.clone();
        options.lossy = args.lossy;
        options.strict = args.strict;
        let mut sender = Sender::open(&hold, &args.name.channel, &link, &args.subject, options)?;
        sender.run(&|| bridge.is_over(), &|event| bridge.show(&event)).await?;
        bridge.end()
    })?;
    Ok(ExitCode::SUCCESS)
}
