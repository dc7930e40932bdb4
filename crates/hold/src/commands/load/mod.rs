//! `hold load`: stores the pairs of a file, thousands at a time.
//!
//! - [`input`]: the file, a pipe or a terminal; [`loading`]: storing and counting
//!
//! Invariant: the report and the exit code cover every record that was read, stored or skipped. The
//! pairs before an invalid record are stored, even if that record ends the load. When a signal
//! arrives, or a pipe has no more bytes for the moment, all pairs read so far are stored.

mod input;
mod loading;

use crate::commands::shared::answer;
use crate::formats::columns::{Column, Columns};
use crate::formats::delimiter::Delimiter;
use crate::formats::{self, Flaw, Pair, ReadPairs, Reading};
use crate::making::Making;
use crate::target::{Directory, MapName};
use clap::ValueEnum;
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::interrupt::{EXIT_CODE, Interrupt};
use commonhold_terminal::output::{Format, Output};
use commonhold_terminal::progress;
use commonhold_terminal::sizes;
use commonhold_terminal::sizes::things;
use input::Input;
use loading::{Counts, Loading};
use serde_json::json;
use std::cell::RefCell;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Examples of `hold load`.
pub const EXAMPLES: &str = "\
Examples:
  hold load shop prices data.csv
  hold load shop prices data.csv --header
  hold load shop prices items.csv --key-column sku --value-column price
  hold load shop prices items.jsonl --key-column sku --value-column price
  hold dump a prices | hold load b prices        # TSV by default
  find . -type f -printf '%p\\0%s\\0' | hold load shop files --format nul
  hold load shop prices german.csv --delimiter semicolon
  tail -f prices.tsv | hold load shop prices     # each pair is stored as it arrives
  hold load shop prices big.csv --on-error skip
  hold load shop prices data.csv --format json   # the file is CSV, the report is JSON

The extension of the file name selects the format (.csv .tsv .tab .json .jsonl .ndjson .nul). For
other names, and for standard input, --format selects it; the default is tsv. --format json also
selects JSON for the report.
  csv   RFC 4180; quoted fields may contain commas, quotes and newlines
  tsv   key, tab, value, with backslash escapes \\t \\n \\r \\0 \\\\ \\xHH
  json  one object per line, {\"key\": ..., \"value\": ...}; {\"base64\": ...} stands for bytes;
        any other value that is not a string (a number, an array, another object) is stored as
        its JSON text; null is an error
  nul   key NUL value NUL ...

The command stores pairs in batches. When a pipe has no more bytes for the moment, the command
stores all pairs read so far, so other processes see each pair as soon as it has arrived. After
Ctrl-C, SIGTERM or SIGHUP, it stores all pairs that it has read completely, and prints its report.

Exit codes:
  0    all pairs are stored
  1    records were skipped
  2    the command line is invalid
  3    the command failed (the records before an invalid record are stored)
  130  stopped by a signal before the end of the input";

/// What to do with an invalid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Stop loading
    Stop,
    /// Report it and continue
    Skip,
}

/// Options of `hold load`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// The file; if it is '-' or absent, pairs are read from standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Read column names from the first line of the file
    #[arg(long)]
    header: bool,

    /// The column of the keys: a number (from 1), a name in the header line, or a JSON field
    #[arg(long, value_name = "COLUMN")]
    key_column: Option<Column>,

    /// The column of the values: a number (from 1), a name in the header line, or a JSON field
    #[arg(long, value_name = "COLUMN")]
    value_column: Option<Column>,

    /// The character that separates the fields of csv or tsv, or its name: tab (or \t), comma,
    /// semicolon
    #[arg(long, value_name = "CHAR")]
    delimiter: Option<Delimiter>,

    /// Read backslashes in TSV as plain backslashes, not as escapes
    #[arg(long)]
    no_escapes: bool,

    /// What to do with an invalid record
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = OnError::Stop)]
    on_error: OnError,

    /// Time to live of the pairs (only in a cache)
    #[arg(long, value_name = "TIME", value_parser = sizes::duration)]
    ttl: Option<Duration>,

    #[command(flatten)]
    making: Making,
}

/// Loads the file.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let input = Input::open(args.file.as_deref())?;
    let reading = args.reading(&input, output)?;
    reading.ensure_sound()?;
    let map = args.making.find(directory, &args.name)?;
    if map.is_none() && args.ttl.is_some() {
        args.making.ensure_cache()?;
    }
    if input.is_terminal() && !output.is_quiet() {
        note("reading pairs from the terminal; Ctrl-D at the beginning of a line ends the input");
    }
    let interrupt = Interrupt::watch().map_err(Failure::failed)?;
    let begin = Instant::now();
    let bar = progress::of_bytes(output, input.bytes);
    let loading = RefCell::new(Loading::new(args, directory, map, &input.name, &bar));
    let source = input.reader(&interrupt, || loading.borrow_mut().store_before_wait());
    let reader = BufReader::with_capacity(1 << 18, source);
    // A second buffer, behind the progress bar: the bar counts the bytes that pass between the two.
    let reader = BufReader::with_capacity(1 << 16, bar.wrap_read(reader));
    let loaded = load(&loading, reading.open(Box::new(reader))?.as_mut(), &interrupt);
    bar.finish_and_clear();
    let (is_whole, counts) = (loaded?, loading.borrow().counts());
    report(args, output, counts, is_whole, begin.elapsed().as_secs_f64())?;
    match is_whole {
        true => Ok(answer(counts.skipped == 0)),
        false => Ok(EXIT_CODE.into()),
    }
}

/// Loads until the end of the input, or until a signal; returns true if the input has ended.
fn load(
    loading: &RefCell<Loading>,
    reader: &mut dyn ReadPairs,
    interrupt: &Interrupt,
) -> Result<bool> {
    loop {
        let mut pair = Pair::default();
        // The reader also borrows `loading`, to store pairs before it waits.
        let read = reader.read(&mut pair).map(|more| more.then_some(pair));
        let mut loading = loading.borrow_mut();
        if interrupt.came() && matches!(read, Err(Flaw::Stream(_))) {
            loading.stop()?;
            return Ok(false);
        }
        if !loading.advance(reader.line(), read)? {
            return Ok(true);
        }
        if interrupt.came() {
            loading.stop()?;
            return Ok(false);
        }
    }
}

impl Args {
    fn reading(&self, input: &Input, output: &Output) -> Result<Reading> {
        let format = match (formats::of_pairs(input.path.as_deref(), output)?, &input.path) {
            (Some(format), _) => format,
            (None, None) => Format::Tsv,
            (None, Some(_)) => {
                let name = &input.name;
                return Err(Failure::usage(format!(
                    "{name} has no known extension; add --format csv, tsv, json or nul"
                )));
            }
        };
        if self.no_escapes && format != Format::Tsv {
            return Err(Failure::usage("--no-escapes applies only to tsv"));
        }
        let columns = Columns {
            key: self.key_column.clone(),
            value: self.value_column.clone(),
            header: self.header,
        };
        Ok(Reading { format, columns, delimiter: self.delimiter, escapes: !self.no_escapes })
    }
}

fn report(
    args: &Args,
    output: &Output,
    counts: Counts,
    is_whole: bool,
    seconds: f64,
) -> Result<()> {
    let Counts { stored, skipped } = counts;
    let json = json!({
        "stored": stored, "skipped": skipped, "interrupted": !is_whole, "seconds": seconds,
    });
    let mut text = format!("{} stored in map {}", things(stored, "pair", "pairs"), args.name.map);
    if skipped > 0 {
        text.push_str(&format!(", {} skipped", things(skipped, "record", "records")));
    }
    if !is_whole {
        text.push_str("; a signal ended the load before the end of the input");
    }
    match (output.is_json(), output.is_quiet()) {
        (true, _) => output.json_line(&json),
        (false, true) => Ok(()),
        (false, false) => output.text(&text),
    }
}
