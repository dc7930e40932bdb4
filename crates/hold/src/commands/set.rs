//! `hold set`: stores one value, conditionally if an option says so.

use crate::commands::shared::answer;
use crate::making::Making;
use crate::target::{Directory, Hex, MapName};
use commonhold::map::{Map, Uid};
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use commonhold_terminal::text::shown;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold set`.
pub const EXAMPLES: &str = "\
Examples:
  hold set shop prices apple 3
  hold set ./shop.hold prices apple 3           # a hold in a file
  hold set shop photos apple < apple.jpg        # the value from standard input
  hold set --add shop locks door me || echo taken
  hold set --if 3 shop prices apple 4           # only if the value is 3
  hold set --uid 17 shop prices apple 4         # only if 17 is still the uid of the key
  hold set --cache --cache-max-bytes 64M --cache-ttl 5m shop pages /index '<html>'
  hold set --hex --fixed 4,8 shop ids 01000000 0a00000000000000

Exit codes:
  0     stored
  1     not stored, because the condition is false
  2, 3  error (see 'hold help')";

/// Options of `hold set`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// The key
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    key: OsString,

    /// The value; if it is '-' or absent, it is read from standard input
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    value: Option<OsString>,

    /// Store only if the key is absent
    #[arg(long, conflicts_with_all = ["replace", "if_value", "uid", "ttl"])]
    add: bool,

    /// Store only if the key is present
    #[arg(long, conflicts_with_all = ["if_value", "uid", "ttl"])]
    replace: bool,

    /// Store only if the key's current value is VALUE
    #[arg(long = "if", value_name = "VALUE", allow_negative_numbers = true)]
    #[arg(conflicts_with = "ttl")]
    if_value: Option<OsString>,

    /// Store only if UID is still the uid of the key, as shown by 'hold get --format json'
    #[arg(long, value_name = "UID", conflicts_with = "ttl")]
    uid: Option<u32>,

    /// Time to live of the pair (only in a cache)
    #[arg(long, value_name = "TIME", value_parser = sizes::duration)]
    ttl: Option<Duration>,

    /// Store a decimal number as a counter: 8 bytes, little-endian
    #[arg(long, conflicts_with = "hex")]
    number: bool,

    #[command(flatten)]
    hex: Hex,

    #[command(flatten)]
    making: Making,
}

/// Stores the value.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("set")?;
    let key = args.hex.bytes(&args.key)?;
    let value = args.value()?;
    let uid = match args.map(directory, [key.len(), value.len()])? {
        Some(map) => args.store(&map, &key, &value)?,
        None => None,
    };
    if output.is_json() {
        let uid = uid.map(|uid| uid.0);
        output.json_line(&json!({ "stored": uid.is_some(), "uid": uid }))?;
    }
    Ok(answer(uid.is_some()))
}

impl Args {
    /// The map; `None` if it does not exist and the condition is false without it.
    fn map(&self, directory: &Directory, lengths: [usize; 2]) -> Result<Option<Map>> {
        let needs_pair = self.replace || self.if_value.is_some() || self.uid.is_some();
        if (needs_pair || self.ttl.is_some()) && self.making.find(directory, &self.name)?.is_none()
        {
            if needs_pair {
                self.if_value.as_deref().map(|value| self.decode(value)).transpose()?;
                return Ok(None);
            }
            self.making.ensure_cache()?;
        }
        self.making.open(directory, &self.name, lengths).map(Some)
    }

    fn store(&self, map: &Map, key: &[u8], value: &[u8]) -> Result<Option<Uid>> {
        let expected = self.if_value.as_deref().map(|value| self.decode(value)).transpose()?;
        if let Some(uid) = self.uid.map(Uid) {
            let stored = match expected {
                Some(expected) => map.compare_exchange_uid(uid, key, &expected, Some(value))?,
                None => map.set_uid(uid, key, value)?,
            };
            return Ok(stored.then_some(uid));
        }
        if let Some(expected) = expected {
            let stored = map.compare_exchange(key, Some(&expected), Some(value))?;
            return Ok(if stored { map.uid(key)?.or(Some(Uid(0))) } else { None });
        }
        Ok(match (self.add, self.replace, self.ttl) {
            (true, ..) => map.add(key, value)?,
            (_, true, _) => map.replace(key, value)?,
            (_, _, Some(ttl)) => Some(map.set_with_ttl(key, value, ttl)?),
            _ => Some(map.set(key, value)?),
        })
    }

    fn value(&self) -> Result<Vec<u8>> {
        match &self.value {
            Some(value) if value != "-" => self.decode(value),
            given => {
                let mut input = std::io::stdin().lock();
                if given.is_none() && input.is_terminal() {
                    return Err(Failure::usage(
                        "the value is missing; use '-' to read it from standard input",
                    ));
                }
                let mut value = Vec::new();
                input
                    .read_to_end(&mut value)
                    .map_err(|e| Failure::failed(format!("standard input: {e}")))?;
                Ok(value)
            }
        }
    }

    fn decode(&self, text: &OsStr) -> Result<Vec<u8>> {
        if !self.number {
            return self.hex.bytes(text);
        }
        let number = text.to_str().and_then(|t| t.parse::<i64>().ok());
        match number {
            Some(number) => Ok(number.to_le_bytes().to_vec()),
            None => Err(Failure::usage(format!(
                "--number: expected a 64-bit integer, got '{}'",
                shown(text.as_bytes())
            ))),
        }
    }
}
