//! Iterating over a map for people and scripts: a prefix, a limit, pages by cursor.
//!
//! A page extends to the end of the segment in which its limit is reached, because a cursor points
//! between segments. So a page has at least the requested number of pairs (unless the map ends),
//! and up to a segment more. A pair that exists throughout is seen exactly once.

use crate::formats::{Pair, WritePairs, Writing};
use crate::target::{Directory, Hex, MapName};
use commonhold::map::{Cursor, Iter};
use commonhold_terminal::bytes;
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::{Format, Output, Sink};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::process::ExitCode;

/// The pairs to iterate over.
#[derive(clap::Args, Debug)]
pub struct MapIteration {
    #[command(flatten)]
    pub name: MapName,

    /// Leave out keys that do not begin with PREFIX; the command still reads all keys
    #[arg(long, short, value_name = "PREFIX", allow_negative_numbers = true)]
    prefix: Option<OsString>,

    /// Maximum number of keys or pairs to print; with --cursor, the approximate size of a page,
    /// which may contain a few hundred more
    #[arg(long, short = 'l', value_name = "N")]
    limit: Option<u64>,

    /// Print the page that begins at CURSOR (0 for the first page), and the cursor of the next page
    #[arg(long, value_name = "CURSOR", requires = "limit")]
    cursor: Option<u64>,

    #[command(flatten)]
    hex: Hex,
}

/// Prints pairs, or keys only.
pub fn run(
    iteration: &MapIteration,
    keys_only: bool,
    directory: &Directory,
    output: &Output,
) -> Result<ExitCode> {
    let prefix =
        iteration.prefix.as_ref().map(|p| iteration.hex.bytes(p)).transpose()?.unwrap_or_default();
    let map = directory.map_to_read(&iteration.name)?;
    let iter = map.iter_from(iteration.cursor.map_or(Cursor::START, Cursor));
    let paged = iteration.cursor.is_some();
    let mut steps = Steps { iter, prefix, left: iteration.limit, paged, ended: false };
    if paged && output.is_json() {
        return print_page(&mut steps, keys_only, output);
    }
    let format = output.format().unwrap_or(Format::Text);
    let mut writer = Writing { hex: iteration.hex.hex, ..Writing::default() }.open(format)?;
    print_lines(&mut steps, keys_only, writer.as_mut())?;
    if paged {
        match steps.next_cursor() {
            Some(cursor) => note(&format!("next page: --cursor {cursor}")),
            None => note("end of the map"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_lines(steps: &mut Steps, keys_only: bool, writer: &mut dyn WritePairs) -> Result<()> {
    let mut sink = Sink::stdout();
    while let Some(pair) = steps.next()? {
        sink.put(|out| match keys_only {
            true => writer.write_key(out, &pair.key),
            false => writer.write(out, &pair.key, &pair.value),
        })?;
    }
    sink.finish().map(drop)
}

fn print_page(steps: &mut Steps, keys_only: bool, output: &Output) -> Result<ExitCode> {
    let mut pairs = Vec::new();
    while let Some(pair) = steps.next()? {
        let key = bytes::json(&pair.key);
        pairs.push(match keys_only {
            true => json!({ "key": key }),
            false => json!({ "key": key, "value": bytes::json(&pair.value) }),
        });
    }
    // As a string: a cursor has all 64 bits, and many readers of JSON keep only 53.
    let next: Value = steps.next_cursor().map(|c| c.to_string()).into();
    output.json(&json!({ "pairs": pairs, "next_cursor": next }))?;
    Ok(ExitCode::SUCCESS)
}

/// The requested pairs, one after the other.
struct Steps {
    iter: Iter,
    prefix: Vec<u8>,
    left: Option<u64>,
    paged: bool,
    ended: bool,
}

impl Steps {
    fn next(&mut self) -> Result<Option<Pair>> {
        while !self.is_full() {
            let Some(pair) = self.iter.next() else {
                self.ended = true;
                return Ok(None);
            };
            let (key, value) = pair.map_err(Failure::from)?;
            if key.starts_with(&self.prefix) {
                self.left = self.left.map(|left| left.saturating_sub(1));
                return Ok(Some(Pair { key, value }));
            }
        }
        Ok(None)
    }

    /// Whether the requested number is reached; a page ends only where a cursor can point.
    fn is_full(&self) -> bool {
        self.left == Some(0) && (!self.paged || self.iter.at_cursor())
    }

    /// The start of the next page; `None` at the end of the map.
    fn next_cursor(&self) -> Option<u64> {
        (self.paged && !self.ended).then(|| self.iter.cursor().0)
    }
}
