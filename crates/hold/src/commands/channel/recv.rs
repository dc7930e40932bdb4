//! `hold channel recv`: receives messages and prints them.

use crate::commands::shared::receive_loop::ReceiveLoop;
use crate::formats::frames::Framing;
use crate::target::{Directory, StructureName};
use clap::ValueEnum;
use commonhold::ErrorKind;
use commonhold::channel::{Consumer, Join, Received};
use commonhold_terminal::bytes;
use commonhold_terminal::failure::{Failure, Result, complain};
use commonhold_terminal::output::{Output, Sink};
use commonhold_terminal::sizes::{self, things};
use serde_json::json;
use std::io::Stdout;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold channel recv`.
pub const EXAMPLES: &str = "\
Examples:
  hold channel recv shop ticks                      # from now on, until Ctrl-C
  hold channel recv shop ticks --oldest --timeout 0 # only the messages in the ring
  hold channel recv shop ticks --count 1 --timeout 10s || echo 'nothing arrived'
  hold channel recv shop ticks --policy lossy       # the producer does not wait for this consumer
  hold channel recv shop video --frames | decoder   # any bytes
  hold channel recv shop ticks --format json        # {\"message\":...,\"missed\":0,\"sequence\":17}

A message that contains line feeds spans several lines of output. To separate such messages, use
--frames or --format json. A lossy consumer reports the number of missed messages together with
the next message, on standard error and in JSON. A consumer with read-only access to the hold must
be lossy. The ring keeps the most recent messages, which usually fill at least three quarters of
it; --oldest prints them.

Exit codes:
  0     the requested number of messages arrived (without --count, at least one)
  1     timed out before that
  2, 3  error (see 'hold help')
  130   stopped by a signal before the requested number arrived

Without --count, a signal stops the command with exit code 0.";

/// The effect of a slow consumer on the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// The producer waits indefinitely; no message is lost
    Lossless,
    /// The producer does not wait; this consumer may miss messages, and reports how many
    Lossy,
    /// The producer waits for the time set by --patience, then drops this consumer
    Patient,
}

/// Options of `hold channel recv`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// Begin with the oldest message in the ring, instead of the next message
    #[arg(long)]
    oldest: bool,

    /// How the producer treats this consumer if it is too slow
    #[arg(long, value_enum, default_value_t = Policy::Lossless)]
    policy: Policy,

    /// Maximum time that the producer waits for a patient consumer [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = sizes::wait)]
    patience: Option<Duration>,

    /// Exit after N messages
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,

    /// Exit when no message has arrived for this long (0: when no unread message is left)
    #[arg(long, value_name = "TIME", value_parser = sizes::wait)]
    timeout: Option<Duration>,

    #[command(flatten)]
    framing: Framing,
}

/// Receives and prints.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("channel recv")?;
    args.framing.ensure_text(&output)?;
    let policy = args.policy()?;
    let join = if args.oldest { Join::Oldest } else { Join::Now };
    let lossy = args.policy == Policy::Lossy;
    let channel = directory.channel_to_receive(&args.name, lossy)?;
    let mut consumer = channel.consumer(join, policy)?;
    let mut sink = Sink::stdout();
    let flow = ReceiveLoop { count: args.count, patience: args.timeout };
    let show = |sink: &mut Sink<Stdout>, message: (Received, Vec<u8>)| {
        args.show(sink, message.0, &message.1, &output)
    };
    flow.run(&mut sink, |time| next(&mut consumer, time), show)
}

/// The next message, with a wait of at most `time`.
fn next(consumer: &mut Consumer, time: Duration) -> Result<Option<(Received, Vec<u8>)>> {
    let mut message = Vec::new();
    let received = match time.is_zero() {
        true => consumer.try_recv(&mut message),
        false => consumer.recv_timeout(&mut message, time),
    };
    let received = received.map_err(|error| match error.kind() {
        ErrorKind::Closed => Failure::failed(format!(
            "{error}: start 'hold channel recv' again, with a longer --patience or --policy lossy"
        )),
        _ => Failure::failed(error),
    })?;
    Ok(received.map(|received| (received, message)))
}

impl Args {
    fn policy(&self) -> Result<commonhold::channel::Policy> {
        if self.patience.is_some() && self.policy != Policy::Patient {
            return Err(Failure::usage("--patience applies only to --policy patient"));
        }
        Ok(match self.policy {
            Policy::Lossless => commonhold::channel::Policy::Lossless,
            Policy::Lossy => commonhold::channel::Policy::Lossy,
            Policy::Patient => commonhold::channel::Policy::Patient(
                self.patience.unwrap_or(Duration::from_secs(1)),
            ),
        })
    }

    fn show(
        &self,
        sink: &mut Sink<Stdout>,
        received: Received,
        message: &[u8],
        output: &Output,
    ) -> Result<()> {
        let Received { sequence, missed } = received;
        if missed > 0 {
            let missed = things(missed, "message", "messages");
            complain(&format!("missed {missed} before message {sequence}"));
        }
        sink.put(|out| match output.is_json() {
            true => {
                let message = bytes::json(message);
                let json = json!({ "sequence": sequence, "missed": missed, "message": message });
                writeln!(out, "{json}")
            }
            false => self.framing.write(out, message),
        })
    }
}
