//! `hold nats receive`: brings the messages of a stream into a channel or a queue.

use crate::command::bridge_loop::{BridgeLoop, Life};
use crate::command::connection::{Connection, runtime};
use crate::command::target::{Directory, TargetName};
use commonhold_nats::receive::{Destination, Receiver, ReceiverOptions};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold nats receive`.
pub const EXAMPLES: &str = "\
Examples:
  hold nats receive market.ticks shop ticks              # into channel ticks, until Ctrl-C
  hold nats receive 'jobs.>' shop jobs --to full         # into the named queue full of queue jobs
  hold stat shop ticks                                   # the receiver's lag

A stream that has the subject must exist, and so must the channel or the queue. The messages arrive
in order, each exactly once, even if the receiver, the server or the connection is killed. The
receiver acknowledges a message after putting it into the channel or the queue. If there is no room,
the receiver waits. If a server that has the only copy of the stream is killed, it may lose the last
messages; all other messages are delivered.

The receiver creates a durable consumer of its own, which begins with the first message of the
stream. The receiver must be the only producer of the channel, or the only program that pushes to
the named queue. If another program also sends or pushes there and the receiver is killed, the next
receiver may end with an error, because it cannot find out whether the last message is there.

A message is skipped, and reported, if it is too long for the channel or the queue.

Exit codes:
  0     stopped by a signal
  2, 3  error (see 'hold nats --help')";

/// Options of `hold nats receive`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The subject, which may contain wildcards
    #[arg(value_name = "SUBJECT")]
    subject: String,

    #[command(flatten)]
    name: TargetName,

    /// Push the messages to this named queue; required if NAME is a queue
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,

    /// Take free elements from this named queue [default: the first]
    #[arg(long, value_name = "QUEUE", requires = "to")]
    from: Option<String>,

    /// Begin each element with the length of the message (4 bytes, little-endian); this option is
    /// required if messages may end with zero bytes
    #[arg(long, requires = "to")]
    sized: bool,

    /// The stream [default: the one that has the subject]
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,

    /// The durable consumer [default: a name made from the hold and the channel or queue]
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,

    /// Time after which the server redelivers a message that was not acknowledged
    #[arg(long, value_name = "TIME", value_parser = sizes::duration, default_value = "5s")]
    ack_wait: Duration,

    /// The maximum number of messages that wait for their acknowledgement
    #[arg(long, value_name = "N", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    in_flight: u32,

    /// Exit if a message is too long, instead of skipping it
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    life: Life,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    connection: Connection,
}

impl Args {
    fn destination(&self) -> Destination {
        let queue = |to: &String| {
            let (to, from) = (to.clone(), self.from.clone());
            Destination::Queue { to, from, sized: self.sized }
        };
        self.to.as_ref().map_or(Destination::Channel, queue)
    }

    fn options(&self) -> ReceiverOptions {
        let mut options = ReceiverOptions::default();
        options.stream = self.stream.clone();
        options.consumer = self.consumer.clone();
        options.ack_wait = self.ack_wait;
        options.in_flight = self.in_flight;
        options.strict = self.strict;
        options
    }
}

/// Receives.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("receive")?;
    runtime()?.block_on(async {
        let link = args.connection.connect(true).await?;
        let hold = directory.open(&args.name.hold)?;
        let bridge =
            BridgeLoop::begin(&hold, &output, args.life, format!("receiver of {}", args.subject))?;
        let (name, options) = (&args.name.name, args.options());
        let mut receiver =
            Receiver::open(&hold, &link, &args.subject, name, args.destination(), options)?;
        receiver.run(&|| bridge.is_over(), &|event| bridge.show(&event)).await?;
        bridge.end()
    })?;
    Ok(ExitCode::SUCCESS)
}
