//! `hold channel send`: sends messages, and waits for consumers that lag.

use crate::commands::shared::answer;
use crate::commands::shared::message_source::MessageSource;
use crate::commands::shared::wait_for_space::WaitForSpace;
use crate::formats::frames::Framing;
use crate::target::{Directory, StructureName};
use commonhold::channel::{Channel, ChannelStat, Peer};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{self, things};
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold channel send`.
pub const EXAMPLES: &str = "\
Examples:
  hold channel send shop ticks 'apple 12.50' 'pear 3.20'
  tail -f access.log | hold channel send shop ticks           # each line is a message
  encoder | hold channel send shop video --frames             # any bytes
  hold channel send shop ticks --timeout 5s 'plum 4.00' || echo 'the ring is full'

While the ring is full, the command waits for slow consumers, but not for lossy or dead ones. It
reports which process it is waiting for. A channel has one producer at a time; a second producer
gets an error.

Exit codes:
  0     all messages have been sent
  1     timed out
  2, 3  error (see 'hold help')";

/// Options of `hold channel send`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// The messages; if there are none, they are read from standard input, one per line
    #[arg(value_name = "MESSAGE", allow_negative_numbers = true, conflicts_with = "frames")]
    messages: Vec<OsString>,

    /// Maximum time to wait for room for a message; 0 means do not wait [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = sizes::wait)]
    timeout: Option<Duration>,

    #[command(flatten)]
    framing: Framing,
}

/// Sends the messages.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("channel send")?;
    let channel = directory.channel(&args.name, false)?;
    let mut producer = channel.producer()?;
    let given = MessageSource {
        arguments: &args.messages,
        framing: args.framing,
        most: producer.max_message(),
        what: "message",
        done: "sent",
    };
    let room = WaitForSpace { timeout: args.timeout, output: &output };
    let first = producer.sequence();
    let done = given.each(&output, |message| {
        let send = |time: Duration| {
            Ok(match time.is_zero() {
                true => producer.try_send(message)?,
                false => producer.send_timeout(message, time)?,
            })
        };
        Ok(room.wait(send, || in_the_way(&channel))?.is_some())
    })?;
    if output.is_json() {
        let first = (done.count > 0).then_some(first);
        output.json_line(&json!({ "sent": done.count, "all": done.all, "first": first }))?;
    }
    Ok(answer(done.all))
}

/// The consumer that the producer waits for.
fn in_the_way(channel: &Channel) -> Result<String> {
    let (name, stat) = (channel.name(), channel.stat()?);
    Ok(match stat.slowest {
        Some(peer) => format!("channel {name} is full; {}", behind(&stat, peer)),
        None => format!("channel {name} is full"),
    })
}

fn behind(stat: &ChannelStat, peer: Peer) -> String {
    let lag = stat.consumers.iter().find(|c| c.peer == peer).map_or(0, |c| c.lag_messages);
    let Peer { slot, pid } = peer;
    format!("slot {slot} (process {pid}) still has {} to read", things(lag, "message", "messages"))
}
