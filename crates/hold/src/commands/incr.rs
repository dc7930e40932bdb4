//! `hold incr`: adds to a counter in one atomic step.

use crate::making::Making;
use crate::target::{Directory, Hex, MapName};
use commonhold::ErrorKind;
use commonhold::map::Map;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::Output;
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;

/// Examples of `hold incr`.
pub const EXAMPLES: &str = "\
Examples:
  hold incr shop counts visits                  # prints 1, then 2, ...
  hold incr shop counts visits 10
  hold incr shop counts stock -3
  hold incr --text shop prices apple 1          # a number in decimal text
  hold get --number shop counts visits

A counter is an 8-byte little-endian integer and wraps around at 64 bits. An absent key counts as
0.";

/// Options of `hold incr`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// The key of the counter
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    key: OsString,

    /// The number to add
    #[arg(value_name = "BY", default_value_t = 1, allow_negative_numbers = true)]
    by: i64,

    /// Treat the value as a number in decimal text, as stored by 'hold set', not as a counter
    #[arg(long)]
    text: bool,

    #[command(flatten)]
    hex: Hex,

    #[command(flatten)]
    making: Making,
}

/// Adds and prints the sum.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("incr")?;
    let key = args.hex.bytes(&args.key)?;
    let value_bytes = if args.text { args.by.to_string().len() } else { size_of::<i64>() };
    let map = args.making.open(directory, &args.name, [key.len(), value_bytes])?;
    let sum = match args.text {
        true => add_to_text(&map, &key, args.by)?,
        false => map.increment(&key, args.by).map_err(|e| no_counter(&e, &map, &key))?,
    };
    match output.is_json() {
        true => output.json_line(&json!({ "value": sum }))?,
        false => output.text(&sum.to_string())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The values of `hold set` are text: the error names the way to count with them.
fn no_counter(error: &commonhold::Error, map: &Map, key: &[u8]) -> Failure {
    let number = |value: Vec<u8>| std::str::from_utf8(&value).ok()?.trim().parse::<i64>().ok();
    let text = map.get(key).ok().flatten().and_then(number);
    match (error.kind(), text) {
        (ErrorKind::Mismatch | ErrorKind::Invalid, Some(number)) => Failure::failed(format!(
            "{error}; the value is the text '{number}'; add --text to add to this number, or store \
             it as a counter with 'hold set --number'"
        )),
        _ => Failure::failed(error),
    }
}

/// Adds to a value that is decimal text.
fn add_to_text(map: &Map, key: &[u8], by: i64) -> Result<i64> {
    let mut sum = Ok(0);
    map.update(key, |old| {
        sum = add(old, by);
        match &sum {
            Ok(sum) => Some(sum.to_string().into_bytes()),
            // Not a number: the value stays unchanged.
            Err(_) => old.map(<[u8]>::to_vec),
        }
    })?;
    sum.map_err(|what| {
        let key = commonhold_terminal::text::shown(key);
        Failure::failed(format!("the value of key '{key}' {what}"))
    })
}

fn add(old: Option<&[u8]>, by: i64) -> std::result::Result<i64, String> {
    let Some(old) = old else { return Ok(by) };
    let number = std::str::from_utf8(old).ok().and_then(|text| text.trim().parse::<i64>().ok());
    let number = number.ok_or_else(|| {
        format!(
            "is not a number: '{}'; set it to a number first",
            commonhold_terminal::text::shown(old)
        )
    })?;
    number.checked_add(by).ok_or_else(|| format!("is {number}: adding {by} exceeds 64 bits"))
}
