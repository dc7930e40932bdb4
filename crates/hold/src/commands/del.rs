//! `hold del`: deletes keys.

use crate::commands::shared::answer;
use crate::target::{Directory, Hex, MapName};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;

/// Examples of `hold del`.
pub const EXAMPLES: &str = "\
Examples:
  hold del shop prices apple
  hold del shop prices apple pear plum
  hold del --if 3 shop prices apple             # only if the value is 3
  hold drop shop prices                         # the whole map

Exit codes: 0 = all keys are deleted; 1 = some were absent, or --if was false; 2, 3 see 'hold
help'";

/// Options of `hold del`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// The keys
    #[arg(value_name = "KEY", required = true, allow_negative_numbers = true)]
    keys: Vec<OsString>,

    /// Delete only if the key's current value is VALUE
    #[arg(long = "if", value_name = "VALUE", allow_negative_numbers = true)]
    if_value: Option<OsString>,

    #[command(flatten)]
    hex: Hex,
}

/// Deletes the keys.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("del")?;
    let expected = args.if_value.as_ref().map(|value| args.hex.bytes(value)).transpose()?;
    let keys = args.keys.iter().map(|key| args.hex.bytes(key)).collect::<Result<Vec<_>>>()?;
    let map = directory.map_to_write(&args.name)?;
    let (mut deleted, mut kept) = (0, 0);
    for key in &keys {
        let gone = match &expected {
            Some(expected) => map.compare_exchange(key, Some(expected), None)?,
            None => map.delete(key)?,
        };
        deleted += usize::from(gone);
        kept += usize::from(!gone && expected.is_some() && map.contains(key)?);
    }
    if output.is_json() {
        let absent = keys.len() - deleted - kept;
        output.json_line(&json!({ "deleted": deleted, "kept": kept, "absent": absent }))?;
    }
    Ok(answer(deleted == keys.len()))
}
