//! `hold queue pull`: takes messages from a queue, prints them, and returns the elements.
//!
//! Invariant: an element is returned only after its message was written out. Before that it is in
//! flight: if the process is killed, it goes to the orphan queue; if the reader of the output has
//! gone, it goes to the end of the queue that it came from.

use super::packing::Packing;
use super::push::pull;
use super::{ensure_other, named_or_first};
use crate::commands::shared::receive_loop::ReceiveLoop;
use crate::formats::frames::Framing;
use crate::target::{Directory, StructureName};
use commonhold::queue::{Element, Queue};
use commonhold_terminal::bytes;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::{Output, Sink};
use commonhold_terminal::sizes;
use serde_json::json;
use std::io::Stdout;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold queue pull`.
pub const EXAMPLES: &str = "\
Examples:
  hold queue pull shop jobs full || echo 'nothing to do'
  hold queue pull shop jobs full --timeout 10s
  hold queue pull shop jobs full --count 100 --timeout 0      # up to 100, without waiting
  while job=$(hold queue pull shop jobs full --timeout 1h); do work \"$job\"; done
  hold queue pull shop jobs full --follow >> jobs.txt         # until Ctrl-C
  hold queue pull shop frames raw --to done --whole > frame   # all bytes of the element
  hold queue pull shop jobs full --format json                # {\"id\": 3, \"message\": \"first job\"}

The output omits zero bytes at the end of an element, unless --sized or --whole is given. A
message that contains line feeds spans several lines of output. To separate such messages, use
--frames or --format json.

A message counts as done once it is printed. Do not pipe the output of --follow to a worker: the
command prints all messages as soon as they arrive, and those in the pipe are lost if the worker
dies.

Exit codes:
  0     the requested number of messages arrived
  1     fewer arrived
  2, 3  error (see 'hold help')
  130   stopped by a signal before all of them arrived

With --follow, a signal stops the command with exit code 0.";

/// Options of `hold queue pull`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// The named queue to pull from
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// Number of messages to pull
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, conflicts_with = "follow")]
    count: u64,

    /// Maximum time to wait for each message [default: 0; with --follow, no limit]
    #[arg(long, value_name = "TIME", value_parser = sizes::wait)]
    timeout: Option<Duration>,

    /// Print messages as they arrive, until a signal arrives
    #[arg(long, short)]
    follow: bool,

    /// Put the elements into this named queue afterwards [default: the first]
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,

    /// Print all bytes of the element
    #[arg(long, conflicts_with = "sized")]
    whole: bool,

    #[command(flatten)]
    framing: Framing,

    #[command(flatten)]
    packing: Packing,
}

/// Pulls and prints.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("queue pull")?;
    args.framing.ensure_text(&output)?;
    let queue = directory.queue(&args.name)?;
    let (from, to) = (queue.named(&args.queue)?, named_or_first(&queue, args.to.as_deref())?);
    ensure_other(from, to, "--to")?;
    let mut sink = Sink::stdout();
    let show = |sink: &mut Sink<Stdout>, element: Element<'_>| {
        let shown = args.show(&queue, &element, sink, &output);
        match shown {
            Ok(()) => Ok(to.push(element)?),
            Err(failure) => from.push(element).map_err(Failure::from).and(Err(failure)),
        }
    };
    args.flow().run(&mut sink, |time| pull(from, time), show)
}

impl Args {
    fn flow(&self) -> ReceiveLoop {
        match self.follow {
            true => ReceiveLoop { count: None, patience: self.timeout },
            false => {
                let patience = Some(self.timeout.unwrap_or_default());
                ReceiveLoop { count: Some(self.count), patience }
            }
        }
    }

    fn show(
        &self,
        queue: &Queue,
        element: &Element<'_>,
        sink: &mut Sink<Stdout>,
        output: &Output,
    ) -> Result<()> {
        let all = element.to_vec()?;
        let message = if self.whole { &all } else { self.packing.unpack(&all, queue)? };
        sink.put(|out| match output.is_json() {
            true => {
                let json = json!({ "id": element.id(), "message": bytes::json(message) });
                writeln!(out, "{json}")
            }
            false => self.framing.write(out, message),
        })?;
        sink.flush()
    }
}
