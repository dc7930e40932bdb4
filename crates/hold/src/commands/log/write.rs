//! `hold log write`: writes lines, as a program would. The lines of a pipe are written as fast as
//! they are collected.
//!
//! Invariant: the report counts every line. The command waits for room before it writes a line; the
//! log counts a dropped line, so there is no second try.

use super::line::level_parser;
use crate::commands::shared::answer;
use crate::commands::shared::message_source::MessageSource;
use crate::commands::shared::wait_for_space::WaitForSpace;
use crate::formats::frames::Framing;
use crate::target::{Directory, StructureName};
use commonhold::log::{Log, LogLevel, LogStat, Overflow, RingStat, Written};
use commonhold_terminal::failure::{Result, complain};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{count, things};
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Examples of `hold log write`.
pub const EXAMPLES: &str = "\
Examples:
  hold log write shop events 'the shop is open'
  hold log write shop events --level error 'no apples left'
  my-program 2>&1 | hold log write shop events
  my-program 2>&1 | hold log write shop events --drop   # never makes my-program wait

If a ring is full, the command waits for room for each line from standard input, so no line is
lost. It does not wait if --drop is given, if no collector is running, or if the lines are given
as arguments. In these cases, it drops and counts each line for which there is no room. In a log
created with --overflow overwrite, it never waits: the oldest lines are overwritten.

Exit codes:
  0     all lines are in the log, or below its level ('hold log level')
  1     lines were dropped
  2, 3  error (see 'hold help')";

/// Options of `hold log write`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// The lines; if there are none, they are read from standard input
    #[arg(value_name = "LINE", allow_negative_numbers = true)]
    lines: Vec<OsString>,

    /// The level of the lines
    #[arg(long, short, value_name = "LEVEL", default_value = "info", value_parser = level_parser())]
    level: LogLevel,

    /// Drop lines from standard input when the ring is full, instead of waiting for the collector
    #[arg(long)]
    drop: bool,
}

/// Writes the lines.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("log write")?;
    let log = directory.log(&args.name, false)?;
    let stat = log.stat()?;
    let given = MessageSource {
        arguments: &args.lines,
        framing: Framing::default(),
        // No line is longer; the log knows the exact limit.
        most: usize::try_from(stat.ring_bytes / 4).unwrap_or(usize::MAX),
        what: "line",
        done: "written",
    };
    let waits = args.lines.is_empty() && !args.drop && stat.overflow == Overflow::Drop;
    let mut space = Space { log: &log, output: &output, left: 0 };
    let (mut accepted, mut filtered, mut dropped) = (0, 0, 0);
    given.each(&output, |line| {
        if waits && log.enabled(args.level) {
            space.await_for(line.len() as u64)?;
        }
        match log.write(args.level, line)? {
            Written::Accepted => accepted += 1,
            Written::Filtered => filtered += 1,
            Written::Dropped => dropped += 1,
        }
        Ok(true)
    })?;
    if output.is_json() {
        let json = json!({ "accepted": accepted, "filtered": filtered, "dropped": dropped });
        output.json_line(&json)?;
    } else if dropped > 0 {
        let (all, name) = (things(accepted + filtered + dropped, "line", "lines"), log.name());
        let were = if dropped == 1 { "was" } else { "were" };
        complain(&format!(
            "{} of {all} {were} dropped: log '{name}' is full; run 'hold log collect'",
            count(dropped)
        ));
    }
    Ok(answer(dropped == 0))
}

/// The pauses between looks at a full ring: the first, and the longest, to which they double.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(10)];
/// The most bytes of a ring that a line takes in addition to its text.
const MOST_OVERHEAD: u64 = 64;

/// The room in this process's ring: looked up again once the known room is used up.
struct Space<'a> {
    log: &'a Log,
    output: &'a Output,
    /// This number of bytes is certainly free: only this process takes from them.
    left: u64,
}

impl Space<'_> {
    /// Waits until there is room for a line with `text_bytes`, or until there is no collector.
    fn await_for(&mut self, text_bytes: u64) -> Result<()> {
        // A line that does not fit before the ring's end leaves the rest unused.
        let wanted = 2 * (text_bytes + MOST_OVERHEAD);
        if self.left < wanted {
            let room = WaitForSpace { timeout: None, output: self.output };
            let found = room.wait(|time| look(self.log, wanted, time), || in_the_way(self.log))?;
            self.left = found.unwrap_or_default();
        }
        self.left = self.left.saturating_sub(wanted);
        Ok(())
    }
}

/// The free bytes of this process's ring, once there are enough or there is nothing to wait for;
/// `None` if the time ran out first.
fn look(log: &Log, wanted: u64, time: Duration) -> Result<Option<u64>> {
    let begin = Instant::now();
    let [mut pause, longest] = PAUSES;
    loop {
        let free = if log.prepare()? { free_bytes(&log.stat()?) } else { None };
        match free {
            // Without a ring, or a collector, the line is dropped, which the log counts.
            None => return Ok(Some(0)),
            Some(bytes) if bytes >= wanted => return Ok(free),
            Some(_) if begin.elapsed() >= time => return Ok(None),
            Some(_) => std::thread::sleep(pause),
        }
        pause = longest.min(pause * 2);
    }
}

/// The free bytes of this process's ring, which grow while there is a collector; `None` if there is
/// none.
fn free_bytes(stat: &LogStat) -> Option<u64> {
    let own = |ring: &&RingStat| ring.alive && ring.who.pid == std::process::id();
    let waiting = stat.used.iter().filter(own).map(|ring| ring.waiting_bytes).max();
    stat.collector.and(waiting).map(|bytes| stat.ring_bytes.saturating_sub(bytes))
}

fn in_the_way(log: &Log) -> Result<String> {
    let name = log.name();
    Ok(match log.stat()?.collector {
        Some((slot, pid)) => {
            format!("log {name} is full; its collector is slot {slot} (process {pid})")
        }
        None => format!("log {name} is full"),
    })
}
