//! `hold push`, `hold unshift`, `hold pop`, `hold shift`: add values to either end of a list, and
//! take them from there.
//!
//! Invariant: each value added or taken is one atomic step; a value that could not be printed is
//! put back.

use crate::commands::shared::answer;
use crate::commands::shared::message_source::MessageSource;
use crate::formats::frames::Framing;
use crate::making::Making;
use crate::target::{Directory, Hex, MapName};
use commonhold::ErrorKind;
use commonhold::map::{Bytes, List, Map, TypedMap};
use commonhold_terminal::bytes;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::{Output, Sink, is_terminal};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::io::Stdout;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// A map whose values are lists.
type Lists = TypedMap<Bytes, List>;

/// Examples of `hold push`.
pub const PUSH_EXAMPLES: &str = "\
Examples:
  hold push shop lists fruit apple pear         # creates the hold, map and list if necessary
  ls | hold push shop lists files               # each line is a value
  hold get --list shop lists fruit              # one value per line
  hold shift shop lists fruit                   # removes and prints the first value

Every change rewrites the whole list, so a list should be no larger than a few kilobytes. For more
data, use 'hold queue' or 'hold channel'. When a list becomes empty, its key is deleted.

Exit codes:
  0     all values were added
  2, 3  error (see 'hold help')";

/// Examples of `hold unshift`.
pub const UNSHIFT_EXAMPLES: &str = "\
Examples:
  hold unshift shop lists fruit plum            # plum comes first now
  hold unshift shop lists fruit a b             # a comes first now, then b
  hold get --list shop lists fruit

Exit codes:
  0     all values were added
  2, 3  error (see 'hold help')";

/// Examples of `hold pop`.
pub const POP_EXAMPLES: &str = "\
Examples:
  hold pop shop lists fruit || echo 'it is empty'
  hold pop shop lists fruit --count 3           # the last value first, one per line
  hold pop shop lists fruit --format json       # {\"value\": \"pear\"}

Exit codes:
  0     the list had the requested number of values
  1     it had fewer (no message)
  2, 3  error (see 'hold help')";

/// Examples of `hold shift`.
pub const SHIFT_EXAMPLES: &str = "\
Examples:
  hold shift shop lists fruit || echo 'it is empty'
  hold shift shop lists fruit --count 3         # the first three, one per line
  hold shift shop lists fruit --format json     # {\"value\": \"apple\"}

Exit codes:
  0     the list had the requested number of values
  1     it had fewer (no message)
  2, 3  error (see 'hold help')";

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end with the first value.
    Front,
    /// The end with the last value.
    Back,
}

/// Options of `push` and `unshift`.
#[derive(clap::Args, Debug)]
pub struct AddArgs {
    #[command(flatten)]
    name: MapName,

    /// The key of the list
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    key: OsString,

    /// The values; if there are none, they are read from standard input, one per line
    #[arg(value_name = "VALUE", allow_negative_numbers = true, conflicts_with = "frames")]
    values: Vec<OsString>,

    #[command(flatten)]
    framing: Framing,

    #[command(flatten)]
    hex: Hex,

    #[command(flatten)]
    making: Making,
}

/// Options of `pop` and `shift`.
#[derive(clap::Args, Debug)]
pub struct TakeArgs {
    #[command(flatten)]
    name: MapName,

    /// The key of the list
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    key: OsString,

    /// Number of values to remove, one at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u64,

    /// Print a newline after a single value even if standard output is not a terminal
    #[arg(long, short = 'n')]
    newline: bool,

    #[command(flatten)]
    framing: Framing,

    #[command(flatten)]
    hex: Hex,
}

/// Adds values at an end. Several values in front keep the order of the arguments.
pub fn add(args: &AddArgs, end: End, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("push and unshift")?;
    args.making.ensure_not_fixed()?;
    let key = args.hex.bytes(&args.key)?;
    let mut values = args.values(&output)?;
    if end == End::Front {
        values.reverse();
    }
    let longest = values.iter().map(Vec::len).max().unwrap_or_default();
    let map = args.making.open(directory, &args.name, [key.len(), longest])?;
    let lists: Lists = map.typed();
    let mut length = lists.list_len(&key).map_err(|e| no_list(&e, &key))?;
    for value in &values {
        length = insert(&lists, &key, value, end)?;
    }
    if output.is_json() {
        output.json_line(&json!({ "added": values.len(), "length": length }))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl AddArgs {
    fn values(&self, output: &Output) -> Result<Vec<Vec<u8>>> {
        let given = MessageSource {
            arguments: &self.values,
            framing: self.framing,
            // The map reports how long a value may be.
            most: u32::MAX as usize,
            what: "value",
            done: "read",
        };
        let mut values = Vec::new();
        given.each(output, |value| {
            values.push(self.hex.bytes(OsStr::from_bytes(value))?);
            Ok(true)
        })?;
        Ok(values)
    }
}

/// Takes values from an end and prints them.
pub fn take(args: &TakeArgs, end: End, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("pop and shift")?;
    args.framing.ensure_text(&output)?;
    let key = args.hex.bytes(&args.key)?;
    let lists: Lists = directory.map_to_write(&args.name)?.typed();
    let mut sink = Sink::stdout();
    for _ in 0..args.count {
        let value = match end {
            End::Front => lists.shift(&key),
            End::Back => lists.pop(&key),
        };
        let Some(value) = value.map_err(|e| no_list(&e, &key))? else { return Ok(answer(false)) };
        let shown = args.show(&value, &mut sink, &output);
        if shown.is_err() {
            insert(&lists, &key, &value, end)?;
        }
        shown?;
    }
    Ok(answer(true))
}

impl TakeArgs {
    fn show(&self, value: &[u8], sink: &mut Sink<Stdout>, output: &Output) -> Result<()> {
        let digits = self.hex.hex.then(|| bytes::hex(value).into_bytes());
        let shown = digits.as_deref().unwrap_or(value);
        // A single value may be for a file.
        let line = self.count != 1 || self.newline || self.hex.hex || is_terminal();
        sink.put(|out| match (output.is_json(), line || self.framing.frames) {
            (true, _) => writeln!(out, "{}", json!({ "value": bytes::json(value) })),
            (false, true) => self.framing.write(out, shown),
            (false, false) => out.write_all(shown),
        })?;
        sink.flush()
    }
}

fn insert(lists: &Lists, key: &[u8], value: &[u8], end: End) -> Result<u32> {
    let length = match end {
        End::Front => lists.unshift(key, value),
        End::Back => lists.push(key, value),
    };
    length.map_err(|e| no_list(&e, key))
}

/// All values of a list; none if the key is absent.
pub fn all(map: &Map, key: &[u8]) -> Result<Vec<Vec<u8>>> {
    let lists: Lists = map.typed();
    Ok(lists.get(key).map_err(|e| no_list(&e, key))?.unwrap_or_default())
}

/// A value of `hold set` is not a list: the error names the key and the way out.
fn no_list(error: &commonhold::Error, key: &[u8]) -> Failure {
    match error.kind() {
        ErrorKind::Mismatch => {
            let key = commonhold_terminal::text::shown(key);
            Failure::failed(format!(
                "{error} (key '{key}'); 'hold get' prints it, 'hold del' deletes it"
            ))
        }
        _ => Failure::failed(error),
    }
}
