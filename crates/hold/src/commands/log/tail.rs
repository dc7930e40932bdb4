//! `hold log tail`: prints the last lines and new ones, with or without a collector.

use super::line::{Lines, level_parser};
use crate::commands::shared::receive_loop::ReceiveLoop;
use crate::target::{Directory, StructureName};
use commonhold::log::{LogLevel, LogLine, LogReader};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::{Output, Sink};
use std::collections::VecDeque;
use std::io::Stdout;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold log tail`.
pub const EXAMPLES: &str = "\
Examples:
  hold log tail shop events                       # the last 10 lines
  hold log tail -n 100 -f shop events             # the last 100, then new ones
  hold log tail -f shop events --level error --format json

The command opens the hold read-only and changes nothing. Any number of readers may follow
a log; they do not count as collectors.";

/// Options of `hold log tail`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// Print the last N lines
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    lines: usize,

    /// Continue with new lines until a signal arrives
    #[arg(long, short)]
    follow: bool,

    /// Leave out lines below this level
    #[arg(long, short, value_name = "LEVEL", default_value = "trace", value_parser = level_parser())]
    level: LogLevel,
}

/// How often to check a log whose writers notify no reader.
const PAUSE: Duration = Duration::from_millis(50);

/// Prints the lines.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("log tail")?;
    let lines = Lines { json: output.is_json(), level: args.level };
    let mut reader = directory.log(&args.name, true)?.reader()?;
    let mut ready: VecDeque<_> = wanted(reader.finish()?, lines).collect();
    ready.drain(..ready.len().saturating_sub(args.lines));
    let mut sink = Sink::stdout();
    let mut text = Vec::new();
    let mut show = |sink: &mut Sink<Stdout>, line: LogLine| {
        text.clear();
        lines.append(&line, &mut text);
        sink.put(|out| out.write_all(&text))
    };
    if args.follow {
        let flow = ReceiveLoop { count: None, patience: None };
        return flow.run(&mut sink, |time| next(&mut reader, lines, &mut ready, time), show);
    }
    ready.into_iter().try_for_each(|line| show(&mut sink, line))?;
    sink.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn wanted(all: Vec<LogLine>, lines: Lines) -> impl Iterator<Item = LogLine> {
    all.into_iter().filter(move |line| lines.want(line))
}

/// The next line, after a pause if waiting is allowed.
fn next(
    reader: &mut LogReader,
    lines: Lines,
    ready: &mut VecDeque<LogLine>,
    time: Duration,
) -> Result<Option<LogLine>> {
    if ready.is_empty() {
        std::thread::sleep(time.min(PAUSE));
        ready.extend(wanted(reader.poll()?, lines));
    }
    Ok(ready.pop_front())
}
