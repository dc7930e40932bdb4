//! `hold get`: prints values, byte for byte.
//!
//! One value is printed as it is, with a newline only on a terminal or on request, so that
//! `hold get ... > file` is exact. Several are printed one per line; absent ones are left out.

use super::list_values;
use crate::commands::shared::answer;
use crate::formats::Writing;
use crate::target::{Directory, Hex, MapName};
use commonhold::map::{Map, Uid};
use commonhold_terminal::bytes;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::{Format, Output, Sink, is_terminal};
use commonhold_terminal::sizes;
use commonhold_terminal::text::shown;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold get`.
pub const EXAMPLES: &str = "\
Examples:
  hold get shop prices apple
  hold get shop photos apple > apple.jpg        # byte for byte
  hold get shop prices apple pear plum          # one value per line
  hold get --format json shop prices apple      # {\"key\":\"apple\",\"uid\":17,\"value\":\"3\"}
  hold get --number shop counts visits          # a counter, in decimal
  hold get --list shop lists fruit              # a list, one value per line
  hold get --uid shop prices 17                 # by uid instead of key
  hold get --max-age 2s shop prices apple       # from a replica, if it is recent enough
  hold get shop prices plum || echo 'no plums'

Exit codes:
  0     all keys are present
  1     some are absent (no message)
  2, 3  error (see 'hold help')";

/// Options of `hold get`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// The keys
    #[arg(value_name = "KEY", required = true, allow_negative_numbers = true)]
    keys: Vec<OsString>,

    /// Treat the KEYs as uids, as shown by 'hold get --format json'
    #[arg(long)]
    uid: bool,

    /// Print a newline after a single value even if standard output is not a terminal
    #[arg(long, short = 'n')]
    newline: bool,

    /// Print counters in decimal
    #[arg(long, conflicts_with = "hex")]
    number: bool,

    /// Print the values of lists (see 'hold push'), one per line
    #[arg(long, conflicts_with_all = ["number", "uid"])]
    list: bool,

    /// Fail if the map is a replica whose contents are older than this
    #[arg(long, value_name = "TIME", value_parser = sizes::wait)]
    max_age: Option<Duration>,

    #[command(flatten)]
    hex: Hex,
}

/// One requested pair.
struct Found {
    key: Vec<u8>,
    uid: Option<Uid>,
    value: Option<Vec<u8>>,
}

/// Prints the values.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let map = directory.map_to_read(&args.name)?;
    if let Some(max_age) = args.max_age {
        map.ensure_fresh(max_age)?;
    }
    if args.list {
        return args.print_lists(&map, output);
    }
    let mut found = Vec::new();
    for key in &args.keys {
        found.push(args.find(&map, key)?);
    }
    match output.format() {
        None | Some(Format::Text) => args.print_text(&found)?,
        Some(Format::Json) => args.print_json(&found, output)?,
        Some(format) => args.print_pairs(&found, format)?,
    }
    Ok(answer(found.iter().all(|f| f.value.is_some())))
}

impl Args {
    fn find(&self, map: &Map, key: &OsStr) -> Result<Found> {
        if self.uid {
            let number = key.to_str().and_then(|t| t.parse().ok());
            let number = number.ok_or_else(|| {
                let key = shown(key.as_bytes());
                Failure::usage(format!("--uid: expected a number, got '{key}'"))
            })?;
            return Ok(match map.get_uid(Uid(number))? {
                Some((key, value)) => Found { key, uid: Some(Uid(number)), value: Some(value) },
                None => Found { key: Vec::new(), uid: None, value: None },
            });
        }
        let key = self.hex.bytes(key)?;
        let value = map.get(&key)?;
        let uid = if value.is_some() { map.uid(&key)? } else { None };
        Ok(Found { key, uid, value })
    }

    fn print_text(&self, found: &[Found]) -> Result<()> {
        let several = found.len() > 1;
        // Digits are for reading, bytes may be for a file.
        let line = several || self.newline || self.hex.hex || self.number || is_terminal();
        let mut sink = Sink::stdout();
        for Found { key, value, .. } in found {
            let Some(value) = value else { continue };
            let shown = self.shown(key, value)?;
            sink.put(|out| {
                out.write_all(&shown)?;
                if line { out.write_all(b"\n") } else { Ok(()) }
            })?;
        }
        sink.finish().map(drop)
    }

    fn shown(&self, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        if self.number {
            return Ok(number(key, value)?.to_string().into_bytes());
        }
        Ok(if self.hex.hex { bytes::hex(value).into_bytes() } else { value.to_vec() })
    }

    fn print_json(&self, found: &[Found], output: &Output) -> Result<()> {
        for Found { key, uid, value } in found {
            let value = match value {
                Some(value) if self.number => json!(number(key, value)?),
                Some(value) => bytes::json(value),
                None => json!(null),
            };
            let key = if self.uid && uid.is_none() { json!(null) } else { bytes::json(key) };
            let uid = uid.map(|uid| uid.0);
            output.json_line(&json!({ "key": key, "uid": uid, "value": value }))?;
        }
        Ok(())
    }

    fn print_lists(&self, map: &Map, output: &Output) -> Result<ExitCode> {
        let output = output.text_or_json("get --list")?;
        let (mut sink, mut all) = (Sink::stdout(), true);
        for key in &self.keys {
            let key = self.hex.bytes(key)?;
            let values = list_values::all(map, &key)?;
            all &= !values.is_empty();
            sink.put(|out| {
                if output.is_json() {
                    let values: Vec<_> = values.iter().map(|value| bytes::json(value)).collect();
                    return writeln!(
                        out,
                        "{}",
                        json!({ "key": bytes::json(&key), "values": values })
                    );
                }
                values.iter().try_for_each(|value| {
                    let digits = self.hex.hex.then(|| bytes::hex(value).into_bytes());
                    out.write_all(digits.as_deref().unwrap_or(value))?;
                    out.write_all(b"\n")
                })
            })?;
        }
        sink.finish()?;
        Ok(answer(all))
    }

    fn print_pairs(&self, found: &[Found], format: Format) -> Result<()> {
        let mut writer = Writing { hex: self.hex.hex, ..Writing::default() }.open(format)?;
        let mut sink = Sink::stdout();
        for Found { key, value, .. } in found {
            let Some(value) = value else { continue };
            let digits = if self.number { Some(self.shown(key, value)?) } else { None };
            let value = digits.as_ref().unwrap_or(value);
            sink.put(|out| writer.write(out, key, value))?;
        }
        sink.finish().map(drop)
    }
}

/// The number that a counter holds.
fn number(key: &[u8], value: &[u8]) -> Result<i64> {
    let bytes = value.try_into().map_err(|_| {
        let key = shown(key);
        let length = value.len();
        Failure::failed(format!(
            "the value of key '{key}' is not a counter: expected 8 bytes, got {length}; omit \
             --number to print it"
        ))
    })?;
    Ok(i64::from_le_bytes(bytes))
}
