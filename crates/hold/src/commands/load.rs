//! `hold load`: stores the pairs of a file, thousands at a time.
//!
//! Invariant: the report and the exit code count every record of the file: stored or skipped.
//! The pairs before an invalid record are stored, even if that record ends the loading.

use crate::commands::shared::answer;
use crate::formats::columns::{Column, Columns};
use crate::formats::{self, Flaw, Pair, ReadPairs, Reading};
use crate::making::Making;
use crate::target::{Directory, MapName};
use clap::ValueEnum;
use commonhold::ErrorKind;
use commonhold::map::Map;
use commonhold_terminal::failure::{Failure, Result, complain};
use commonhold_terminal::output::{Format, Output};
use commonhold_terminal::progress;
use commonhold_terminal::sizes::{self, things};
use indicatif::ProgressBar;
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::{Path, PathBuf};
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

Exit codes:
  0  all pairs are stored
  1  records were skipped
  2  the command line is invalid
  3  the command failed (the records before an invalid record are stored)";

/// Pairs stored in one step.
const BATCH_PAIRS: usize = 4096;
/// Bytes after which a batch is stored even if it has few pairs.
const BATCH_BYTES: usize = 1 << 20;
/// The number of invalid records that are reported one by one.
const MOST_TOLD: u64 = 20;

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
    let input = args.input()?;
    let reading = args.reading(&input, output)?;
    let bar = progress::of_bytes(output, input.bytes);
    // Opened first: a file that does not fit the options must not leave a new hold behind.
    let reader: Box<dyn BufRead> = Box::new(BufReader::with_capacity(1 << 18, input.reader));
    let mut reader = reading.open(Box::new(bar.wrap_read(reader).buffered()))?;
    let map = args.making.find(directory, &args.name)?;
    if map.is_none() && args.ttl.is_some() {
        args.making.ensure_cache()?;
    }
    let begin = Instant::now();
    let mut loading = Loading {
        args,
        directory,
        map,
        source: &input.name,
        bar: &bar,
        batch: Vec::new(),
        batch_bytes: 0,
        stored: 0,
        skipped: 0,
    };
    let result = loading.load(reader.as_mut());
    bar.finish_and_clear();
    result?;
    let Loading { stored, skipped, .. } = loading;
    report(args, output, stored, skipped, begin.elapsed().as_secs_f64())?;
    Ok(answer(skipped == 0))
}

/// The source of the pairs.
struct Input {
    reader: Box<dyn std::io::Read>,
    name: String,
    bytes: Option<u64>,
    path: Option<PathBuf>,
}

/// A second buffer behind the progress bar, which counts what the first one reads.
trait Buffered: std::io::Read + Sized {
    fn buffered(self) -> BufReader<Self> {
        BufReader::with_capacity(1 << 16, self)
    }
}

impl<R: std::io::Read> Buffered for R {}

impl Args {
    fn input(&self) -> Result<Input> {
        let Some(path) = self.file.as_ref().filter(|path| *path != Path::new("-")) else {
            let name = "standard input".to_owned();
            return Ok(Input { reader: Box::new(stdin()), name, bytes: None, path: None });
        };
        let name = path.display().to_string();
        let named = |e: std::io::Error| Failure::failed(format!("{name}: {e}"));
        let file = File::open(path).map_err(named)?;
        let metadata = file.metadata().map_err(named)?;
        if metadata.is_dir() {
            return Err(Failure::failed(format!("{name}: is a directory, not a file of pairs")));
        }
        let bytes = metadata.is_file().then_some(metadata.len());
        Ok(Input { reader: Box::new(file), name, bytes, path: Some(path.clone()) })
    }

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
        Ok(Reading { format, columns, escapes: !self.no_escapes })
    }
}

/// A running load.
struct Loading<'a> {
    args: &'a Args,
    directory: &'a Directory,
    /// `None` while it does not exist: the first pair that fits creates it.
    map: Option<Map>,
    source: &'a str,
    bar: &'a ProgressBar,
    batch: Vec<(u64, Pair)>,
    batch_bytes: usize,
    stored: u64,
    skipped: u64,
}

impl Loading<'_> {
    fn load(&mut self, reader: &mut dyn ReadPairs) -> Result<()> {
        let mut pair = Pair::default();
        loop {
            match reader.read(&mut pair) {
                Ok(true) => self.take(reader.line(), std::mem::take(&mut pair))?,
                Ok(false) => return self.end(),
                Err(Flaw::Record(what)) => {
                    self.store()?;
                    self.flaw(reader.line(), &what)?;
                }
                Err(Flaw::Stream(error)) => {
                    self.store()?;
                    return Err(self.stopped(format!("{}: {error}", self.source)));
                }
            }
        }
    }

    fn take(&mut self, line: u64, pair: Pair) -> Result<()> {
        self.batch_bytes += pair.key.len() + pair.value.len();
        self.batch.push((line, pair));
        if self.batch.len() >= BATCH_PAIRS || self.batch_bytes >= BATCH_BYTES {
            self.store()?;
        }
        Ok(())
    }

    /// The end of the file. A file without pairs creates an empty map.
    fn end(&mut self) -> Result<()> {
        self.store()?;
        if self.map.is_none() && self.skipped == 0 {
            self.map = Some(self.args.making.make(self.directory, &self.args.name)?);
        }
        Ok(())
    }

    /// Stores the batch.
    fn store(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let mut rest = &batch[..];
        while self.map.is_none()
            && let [(line, pair), later @ ..] = rest
        {
            match self.args.making.fault(pair.key.len(), pair.value.len()) {
                Some(what) => {
                    self.flaw(*line, &what)?;
                    rest = later;
                }
                None => self.map = Some(self.args.making.make(self.directory, &self.args.name)?),
            }
        }
        if let Some(map) = self.map.clone() {
            self.store_all(&map, rest)?;
        }
        self.bar.set_message(things(self.stored, "pair", "pairs"));
        Ok(())
    }

    /// Stores pairs, all in one step; if one of them does not fit the map, the others one by one.
    fn store_all(&mut self, map: &Map, batch: &[(u64, Pair)]) -> Result<()> {
        let mut rest = batch;
        if self.args.ttl.is_none() {
            let pairs: Vec<_> = batch.iter().map(|(_, p)| (&p.key, &p.value)).collect();
            if map.set_many(&pairs).is_ok() {
                self.stored += pairs.len() as u64;
                return Ok(());
            }
            // The map stores them in order: all before the first absent pair are stored, and
            // storing them one by one finds the pair that failed.
            while first_is_stored(map, rest) {
                self.stored += 1;
                rest = &rest[1..];
            }
        }
        rest.iter().try_for_each(|(line, pair)| self.store_one(map, *line, pair))
    }

    fn store_one(&mut self, map: &Map, line: u64, pair: &Pair) -> Result<()> {
        let stored = match self.args.ttl {
            Some(ttl) => map.set_with_ttl(&pair.key, &pair.value, ttl),
            None => map.set(&pair.key, &pair.value),
        };
        match stored {
            Ok(_) => self.stored += 1,
            Err(e) if is_the_pairs_own(e.kind()) => self.flaw(line, &e.to_string())?,
            Err(e) => return Err(self.stopped(format!("{}:{line}: {e}", self.source))),
        }
        Ok(())
    }

    /// Reports an invalid record, and fails unless such records are skipped.
    fn flaw(&mut self, line: u64, what: &str) -> Result<()> {
        let message = format!("{}:{line}: {what}", self.source);
        if self.args.on_error == OnError::Stop {
            let skip = "add --on-error skip to continue after invalid records";
            return Err(self.stopped(format!("{message}\n{skip}")));
        }
        self.skipped += 1;
        self.bar.suspend(|| match self.skipped.cmp(&MOST_TOLD) {
            std::cmp::Ordering::Less => complain(&message),
            std::cmp::Ordering::Equal => {
                complain(&format!("{message}\nfurther errors are counted, but not shown"))
            }
            std::cmp::Ordering::Greater => {}
        });
        Ok(())
    }

    /// The error that ends the loading early; the pairs stored so far remain.
    fn stopped(&self, message: String) -> Failure {
        self.bar.finish_and_clear();
        let stored = things(self.stored, "pair", "pairs");
        Failure::failed(format!("{message}\nstored before the error: {stored}"))
    }
}

/// Whether the first of `pairs` is in the map: its value, or that of a later one of the same key.
fn first_is_stored(map: &Map, pairs: &[(u64, Pair)]) -> bool {
    let Some((_, first)) = pairs.first() else { return false };
    let Ok(Some(value)) = map.get(&first.key) else { return false };
    pairs.iter().any(|(_, pair)| pair.key == first.key && pair.value == value)
}

/// Whether an error concerns only this pair, so that the next one may be stored.
fn is_the_pairs_own(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TooLarge | ErrorKind::Invalid | ErrorKind::Mismatch)
}

fn report(args: &Args, output: &Output, stored: u64, skipped: u64, seconds: f64) -> Result<()> {
    let json = json!({ "stored": stored, "skipped": skipped, "seconds": seconds });
    let mut text = format!("{} stored in map {}", things(stored, "pair", "pairs"), args.name.map);
    if skipped > 0 {
        text.push_str(&format!(", {} skipped", things(skipped, "record", "records")));
    }
    match (output.is_json(), output.is_quiet()) {
        (true, _) => output.json_line(&json),
        (false, true) => Ok(()),
        (false, false) => output.text(&text),
    }
}
