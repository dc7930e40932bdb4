//! `hold ttl` and `hold touch`: when pairs of a cache expire.

use crate::commands::shared::answer;
use crate::target::{Directory, Hex, MapName};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold ttl`.
pub const EXAMPLES: &str = "\
Examples:
  hold ttl shop sessions ann                    # prints 59m 58s 750ms
  hold ttl shop sessions ann --format json      # {\"ttl_ms\": 3598750}

Pairs without a time to live, such as all pairs of maps that are not caches, never expire. For them,
the command prints 'never', or {\"ttl_ms\": null} as JSON.

Exit codes:
  0     the key is present
  1     the key is absent
  2, 3  error (see 'hold help')";

/// Examples of `hold touch`.
pub const TOUCH_EXAMPLES: &str = "\
Examples:
  hold touch shop sessions ann --ttl 1h         # expires in an hour, and keeps its value

Exit codes:
  0     the key is present
  1     the key is absent
  2, 3  error (see 'hold help')";

/// Options of `hold ttl`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// The key
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    key: OsString,

    #[command(flatten)]
    hex: Hex,
}

/// Options of `hold touch`.
#[derive(clap::Args, Debug)]
pub struct TouchArgs {
    #[command(flatten)]
    of: Args,

    /// The new time to live, which begins now
    #[arg(long, value_name = "TIME", value_parser = sizes::duration)]
    ttl: Duration,
}

/// Prints the time that is left.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("ttl")?;
    let map = directory.map_to_read(&args.name)?;
    let Some(left) = map.remaining_ttl(args.hex.bytes(&args.key)?)? else {
        return Ok(answer(false));
    };
    let left = Some(left).filter(|left| *left < Duration::MAX);
    match (output.is_json(), left) {
        (true, left) => {
            output.json_line(&json!({ "ttl_ms": left.map(|left| left.as_millis()) }))?
        }
        (false, Some(left)) => output.text(&humantime::format_duration(left).to_string())?,
        (false, None) => output.text("never")?,
    }
    Ok(answer(true))
}

/// Sets the time.
pub fn touch(args: &TouchArgs, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("touch")?;
    let map = directory.map_to_write(&args.of.name)?;
    let done = map.touch(args.of.hex.bytes(&args.of.key)?, args.ttl)?;
    if output.is_json() {
        output.json_line(&json!({ "touched": done }))?;
    }
    Ok(answer(done))
}
