//! `hold queue push`: takes free elements, fills them with messages, and puts them into a queue.

use super::packing::Packing;
use super::{ensure_other, named_or_first};
use crate::commands::shared::answer;
use crate::commands::shared::message_source::MessageSource;
use crate::commands::shared::wait_for_space::WaitForSpace;
use crate::formats::frames::Framing;
use crate::target::{Directory, StructureName};
use commonhold::queue::{NamedQueue, Queue};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold queue push`.
pub const EXAMPLES: &str = "\
Examples:
  hold queue push shop jobs full 'first job' 'second job'
  find . -name '*.jpg' | hold queue push shop jobs full       # each line is a message
  hold queue push shop jobs full --timeout 5s 'urgent' || echo 'no element was free'
  encoder | hold queue push shop frames raw --frames --sized  # any bytes

The rest of an element is filled with zero bytes. If messages may end with zero bytes, use --sized
with both 'hold queue push' and 'hold queue pull'.

Exit codes:
  0     all messages were pushed
  1     timed out
  2, 3  error (see 'hold help')";

/// Options of `hold queue push`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// The named queue to push to
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// The messages; if there are none, they are read from standard input, one per line
    #[arg(value_name = "MESSAGE", allow_negative_numbers = true, conflicts_with = "frames")]
    messages: Vec<OsString>,

    /// Take free elements from this named queue [default: the first]
    #[arg(long, value_name = "QUEUE")]
    from: Option<String>,

    /// Maximum time to wait for a free element; 0 means do not wait [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = sizes::wait)]
    timeout: Option<Duration>,

    #[command(flatten)]
    framing: Framing,

    #[command(flatten)]
    packing: Packing,
}

/// Pushes the messages.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("queue push")?;
    let queue = directory.queue(&args.name)?;
    let (from, to) = (named_or_first(&queue, args.from.as_deref())?, queue.named(&args.queue)?);
    ensure_other(from, to, "--from")?;
    let mut bytes = vec![0; queue.stat()?.element_bytes as usize];
    let given = MessageSource {
        arguments: &args.messages,
        framing: args.framing,
        most: args.packing.most(bytes.len()),
        what: "message",
        done: "pushed",
    };
    let room = WaitForSpace { timeout: args.timeout, output: &output };
    let done = given.each(&output, |message| {
        let free = room.wait(|time| pull(from, time), || where_all_are(&queue, from.name()))?;
        let Some(element) = free else { return Ok(false) };
        args.packing.pack(message, &mut bytes)?;
        element.write(0, &bytes)?;
        to.push(element)?;
        Ok(true)
    })?;
    if output.is_json() {
        output.json_line(&json!({ "pushed": done.count, "all": done.all }))?;
    }
    Ok(answer(done.all))
}

/// An element of a queue, with a wait of at most `time`.
pub fn pull<'q>(
    from: NamedQueue<'q>,
    time: Duration,
) -> Result<Option<commonhold::queue::Element<'q>>> {
    Ok(if time.is_zero() { from.pull()? } else { from.pull_timeout(time)? })
}

/// The places of the elements that are not in queue `from`.
fn where_all_are(queue: &Queue, from: &str) -> Result<String> {
    let stat = queue.stat()?;
    let others = stat.queues.iter().filter(|q| q.name != from && q.len > 0);
    let others = others.map(|q| format!("{} in queue {}", sizes::count(q.len), q.name));
    let hands = stat.holders.iter().map(|holder| {
        let count = sizes::count(holder.elements);
        format!("{count} in flight in slot {} (process {})", holder.slot, holder.pid)
    });
    let all: Vec<_> = others.chain(hands).collect();
    Ok(format!("queue {from} is empty; elements elsewhere: {}", all.join(", ")))
}
