//! `hold log collect`: moves the lines of a log to standard output or to files.
//!
//! Invariant: lines that could not be written out stay in the hold, for the next collector.

use super::line::{Lines, level_parser};
use crate::target::{Directory, StructureName};
use commonhold::log::{Collector, LogLevel, RotatedFile, Round};
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::interrupt::Interrupt;
use commonhold_terminal::output::{Output, reader_is_gone};
use commonhold_terminal::sizes::{self, things};
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold log collect`.
pub const EXAMPLES: &str = "\
Examples:
  hold log collect shop events                           # until Ctrl-C
  hold log collect shop events --once                    # the lines already in the log
  hold log collect shop events --file shop.log           # appends
  hold log collect shop events --file shop.log --max-bytes 10M --keep 9
  hold log collect shop events --format json | jq -r 'select(.level == \"error\").text'

A log has one collector at a time; a second collector gets an error that names the first. If a
collector is killed, the next one continues where it stopped. In a file, each line appears once.
On standard output, up to 256K of the last lines may appear twice. On Ctrl-C or SIGTERM, the
command collects all lines that are in the log, and then exits.

With --file shop.log, shop.log contains the latest lines. When it is full, it becomes shop.log.1,
the previous shop.log.1 becomes shop.log.2, and so on.";

/// Options of `hold log collect`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: StructureName,

    /// Append to this file, instead of writing to standard output
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Rotate the file before it exceeds this size
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, requires = "file")]
    max_bytes: Option<u64>,

    /// Number of older files to keep
    #[arg(long, value_name = "N", default_value_t = 5, requires = "max_bytes")]
    keep: u32,

    /// Leave out lines below this level; they count as collected
    #[arg(long, short, value_name = "LEVEL", default_value = "trace", value_parser = level_parser())]
    level: LogLevel,

    /// Collect the lines that are already in the log, then exit
    #[arg(long)]
    once: bool,
}

/// Collects.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("log collect")?;
    let log = directory.log(&args.name, false)?;
    let collector = log.collector()?.level(args.level);
    let lines = Lines { json: output.is_json(), level: args.level };
    let mut collector = collector.format(move |line, out| lines.append(line, out));
    let Some(path) = &args.file else {
        let mut out = Pipe::default();
        let collected = args.collect(&mut collector, &mut out);
        return match collected {
            Err(_) if out.reader_gone => Err(Failure::ReaderGone),
            collected => collected.map(|_| ExitCode::SUCCESS),
        };
    };
    let mut file = RotatedFile::open(path, args.max_bytes.unwrap_or(u64::MAX), args.keep)?;
    let round = match args.once {
        true => collector.finish_to_file(&mut file)?,
        false => {
            let interrupt = Interrupt::watch().map_err(Failure::failed)?;
            collector.run_to_file(&mut file, || interrupt.came())?
        }
    };
    if !output.is_quiet() {
        let (lines, path) = (things(round.lines, "line", "lines"), path.display());
        note(&format!("{lines} written to {path}"));
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn collect(&self, collector: &mut Collector, out: &mut Pipe) -> Result<Round> {
        if self.once {
            return Ok(collector.finish(out)?);
        }
        let interrupt = Interrupt::watch().map_err(Failure::failed)?;
        Ok(collector.run(out, || interrupt.came() || reader_is_gone())?)
    }
}

/// Standard output, which remembers that its reader has gone.
#[derive(Default)]
struct Pipe {
    reader_gone: bool,
}

impl Pipe {
    fn note(&mut self, error: &io::Error) {
        self.reader_gone |= error.kind() == ErrorKind::BrokenPipe;
    }
}

impl Write for Pipe {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        io::stdout().write(text).inspect_err(|error| self.note(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().inspect_err(|error| self.note(error))
    }
}
