//! `hold del`: deletes keys, which the arguments or standard input name, or which have a prefix.

use crate::commands::shared::answer;
use crate::commands::shared::confirmation::is_confirmed;
use crate::commands::shared::message_source::MessageSource;
use crate::formats::frames::Framing;
use crate::target::{Directory, Hex, MapName};
use commonhold::map::{Map, Uid};
use commonhold_terminal::failure::{Failure, Result, complain};
use commonhold_terminal::output::Output;
use commonhold_terminal::text::shown;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// Examples of `hold del`.
pub const EXAMPLES: &str = "\
Examples:
  hold del shop prices apple
  hold del shop prices apple pear plum
  hold del shop prices < keys.txt               # one key per line
  hold del --if 3 shop prices apple             # only if the value is 3
  hold del --uid 17 shop prices apple           # only if 17 is still the uid of the key
  hold del --prefix app shop prices             # all keys that begin with 'app'; asks first
  hold clear shop prices                        # all pairs
  hold drop shop prices                         # the map itself

Exit codes:
  0     all keys were deleted
  1     some were absent, the condition (--if, --uid) was false, or the answer was no
  2, 3  error (see 'hold help')";

/// The most bytes of a key from standard input; no map takes longer ones.
const MOST: usize = 1 << 30;

/// Options of `hold del`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// The keys; if there are none, they are read from standard input, one per line
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    keys: Vec<OsString>,

    /// Delete all keys that begin with PREFIX; to find them, the command reads all keys of the map
    #[arg(long, short, value_name = "PREFIX", allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["keys", "frames"])]
    prefix: Option<OsString>,

    /// Delete only if the key's current value is VALUE
    #[arg(long = "if", value_name = "VALUE", allow_negative_numbers = true)]
    if_value: Option<OsString>,

    /// Delete only if UID is still the uid of the key, as shown by 'hold get --format json'
    #[arg(long, value_name = "UID", conflicts_with_all = ["prefix", "frames"])]
    uid: Option<u32>,

    /// With --prefix: do not ask for confirmation
    #[arg(long, short, requires = "prefix")]
    yes: bool,

    #[command(flatten)]
    framing: Framing,

    #[command(flatten)]
    hex: Hex,
}

/// Deletes keys, and counts what became of them.
struct Deletion<'a> {
    map: &'a Map,
    expected: Option<Vec<u8>>,
    uid: Option<Uid>,
    deleted: u64,
    kept: u64,
    absent: u64,
}

impl Deletion<'_> {
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let gone = match (self.uid, &self.expected) {
            (Some(uid), Some(expected)) => {
                self.map.compare_exchange_uid(uid, key, expected, None)?
            }
            (Some(uid), None) => self.map.delete_uid(uid, key)?,
            (None, Some(expected)) => self.map.compare_exchange(key, Some(expected), None)?,
            (None, None) => self.map.delete(key)?,
        };
        let is_conditional = self.expected.is_some() || self.uid.is_some();
        let count = match gone {
            true => &mut self.deleted,
            false if is_conditional && self.map.contains(key)? => &mut self.kept,
            false => &mut self.absent,
        };
        *count += 1;
        Ok(())
    }

    fn delete_prefix(&mut self, prefix: &[u8]) -> Result<()> {
        for pair in self.map.iter() {
            let (key, _) = pair?;
            if key.starts_with(prefix) {
                self.delete(&key)?;
            }
        }
        // A key that another process deletes meanwhile was not asked for by name.
        self.absent = 0;
        Ok(())
    }
}

/// Deletes the keys.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("del")?;
    let expected = args.if_value.as_ref().map(|value| args.hex.bytes(value)).transpose()?;
    let prefix = args.prefix.as_ref().map(|prefix| args.hex.bytes(prefix)).transpose()?;
    // All of them are checked before the first one is deleted.
    args.keys.iter().try_for_each(|key| args.hex.bytes(key).map(drop))?;
    if args.uid.is_some() && args.keys.len() != 1 {
        // Standard input may have any number of keys, and a uid names one.
        let got = args.keys.len();
        return Err(Failure::usage(format!("--uid: expected one KEY argument, got {got}")));
    }
    let map = directory.map_to_write(&args.name)?;
    let uid = args.uid.map(Uid);
    let mut deletion = Deletion { map: &map, expected, uid, deleted: 0, kept: 0, absent: 0 };
    match prefix {
        Some(prefix) => {
            let what = format!(
                "all keys of map {} that begin with '{}'",
                args.name.shown(),
                shown(&prefix)
            );
            if !(args.yes || is_confirmed(&what)?) {
                complain("no key was deleted");
                return Ok(answer(false));
            }
            deletion.delete_prefix(&prefix)?;
        }
        None => {
            let source = MessageSource {
                arguments: &args.keys,
                framing: args.framing,
                most: MOST,
                what: "key",
                done: "deleted",
            };
            source.each(&output, |key| {
                deletion.delete(&args.hex.bytes(OsStr::from_bytes(key))?).map(|()| true)
            })?;
        }
    }
    let Deletion { deleted, kept, absent, .. } = deletion;
    if output.is_json() {
        output.json_line(&json!({ "deleted": deleted, "kept": kept, "absent": absent }))?;
    }
    Ok(answer(kept + absent == 0))
}
