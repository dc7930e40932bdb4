//! `hold dump`: writes all pairs of a map to a file or to standard output.
//!
//! Invariant: a file named with `--output` is the whole dump or is not touched: the dump goes to a
//! file without a name, which gets the name at the end ([`Draft`]). A killed dump leaves nothing
//! behind.

use crate::formats::{self, WritePairs, Writing};
use crate::target::{Directory, MapName};
use commonhold::map::Map;
use commonhold::raw::Draft;
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::{Format, Output, Sink};
use commonhold_terminal::progress;
use commonhold_terminal::sizes::things;
use indicatif::ProgressBar;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Examples of `hold dump`.
pub const EXAMPLES: &str = "\
Examples:
  hold dump shop prices                          # TSV, as 'hold load' reads it
  hold dump shop prices -o prices.csv --header
  hold dump shop prices --format json | jq -r .key
  hold dump shop prices --format nul | xargs -0 -n 2 printf '%s costs %s\\n'
  hold dump shop prices --frozen -o prices.jsonl # the state at one instant; writers wait

The extension of the output file selects the format (.csv .tsv .tab .json .jsonl .ndjson .nul).
For other names, and for standard output, --format selects it; the default is tsv. With -o,
--format json also selects JSON for the report.
  csv   RFC 4180; bytes that are not UTF-8 are an error without --raw
  tsv   key, tab, value, with backslash escapes \\t \\n \\r \\0 \\\\ \\xHH; any bytes
  json  one object per line, {\"key\": ..., \"value\": ...}; any bytes ({\"base64\": ...} if not UTF-8)
  nul   key NUL value NUL ...; NUL bytes in a key or value are an error

Without --frozen, other processes may write during the dump. A pair that exists throughout the
dump is written exactly once, and any other pair at most once. 'hold backup' writes a consistent
copy of all maps, and writers do not wait while it writes the file.";

/// Options of `hold dump`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// The file to write; an existing file is replaced only when the dump is complete
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Begin with a line of column names (csv, tsv)
    #[arg(long)]
    header: bool,

    /// In CSV, write non-UTF-8 bytes unchanged
    #[arg(long)]
    raw: bool,

    /// Make writers wait during the dump, which then shows the map at one instant
    #[arg(long)]
    frozen: bool,
}

/// Writes the pairs.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let format = args.format(output)?;
    let writing = Writing { header: args.header, raw: args.raw, hex: false };
    let mut writer = writing.open(format)?;
    let hold = match args.frozen {
        true => directory.open_to_write(&args.name.hold)?,
        false => directory.open_to_read(&args.name.hold)?,
    };
    let map = hold.maps().open(&args.name.map)?;
    let frozen = if args.frozen { Some(hold.freeze()?) } else { None };
    let Some(path) = args.file() else {
        let sink = Sink::stdout();
        write_pairs(&map, writer.as_mut(), sink, &ProgressBar::hidden())?;
        return Ok(ExitCode::SUCCESS);
    };
    let bar = progress::of_pairs(output, map.len()?);
    let pairs = write_file(path, &map, writer.as_mut(), &bar);
    bar.finish_and_clear();
    let pairs = pairs?;
    drop(frozen);
    if output.is_json() {
        output.json_line(&json!({ "pairs": pairs, "file": path.to_string_lossy() }))?;
    } else if !output.is_quiet() {
        let (pairs, path) = (things(pairs, "pair", "pairs"), path.display());
        note(&format!("{pairs} written to {path}"));
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }

    fn format(&self, output: &Output) -> Result<Format> {
        Ok(match formats::of_pairs(self.file(), output)? {
            None | Some(Format::Text) => Format::Tsv,
            Some(format) => format,
        })
    }
}

/// Writes every pair to `sink`; returns their number and the sink.
fn write_pairs<W: Write>(
    map: &Map,
    writer: &mut dyn WritePairs,
    mut sink: Sink<W>,
    bar: &ProgressBar,
) -> Result<(u64, W)> {
    sink.put(|out| writer.begin(out))?;
    let mut pairs = 0;
    for pair in map.iter() {
        let (key, value) = pair?;
        sink.put(|out| writer.write(out, &key, &value))?;
        pairs += 1;
        if pairs % 1024 == 0 {
            bar.set_position(pairs);
        }
    }
    Ok((pairs, sink.finish()?))
}

/// Writes `path`: first to a file without a name, which gets this name in the end.
fn write_file(
    path: &Path,
    map: &Map,
    writer: &mut dyn WritePairs,
    bar: &ProgressBar,
) -> Result<u64> {
    let name = path.display().to_string();
    let named = |e: std::io::Error| Failure::failed(format!("{name}: {e}"));
    // A symbolic link stays one: its target is replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path.metadata().is_ok_and(|m| !m.is_file()) {
        // A device or a pipe cannot be replaced, only written to.
        let file = File::options().write(true).open(&path).map_err(named)?;
        return Ok(write_pairs(map, writer, Sink::new(file, &*name), bar)?.0);
    }
    let draft = Draft::as_usual(&path).map_err(named)?;
    let (pairs, _) = write_pairs(map, writer, Sink::new(draft.file(), &*name), bar)?;
    draft.file().sync_all().map_err(named)?;
    draft.replace().and_then(|placed| placed.sync()).map_err(named)?;
    Ok(pairs)
}
