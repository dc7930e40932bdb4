//! `hold alter`: changes what can be changed of a map that exists: the size of its stream. Other
//! properties are fixed, because every process that has the map open keeps a copy of them; the
//! error says how to get a map with other ones.

use crate::target::{Directory, MapName};
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use serde_json::json;
use std::process::ExitCode;

/// Examples of `hold alter`.
pub const EXAMPLES: &str = "\
Examples:
  hold alter shop prices --stream-size 1M       # recent changes that followers can still read
  hold alter shop prices --stream-size 256M --format json

The stream keeps the last changes of the map for its followers: replicas, a journal, 'hold watch'.
The size is rounded up to a power of two, and is 64K to 4G. If the map has no stream, one of this
size begins, and 'hold origin', 'hold journal' and 'hold watch' use it.

A stream of another size is a new stream. Replicas and the journal of the map then receive the whole
map once, and 'hold watch' ends with an error. Writers of the hold wait for a moment.

The kind of a map (--fixed, --cache) and the limits of a cache cannot be changed. Dump the map, drop
it, and load the pairs into a new map of the same name. A dump contains no times to live.
  hold dump shop pages -o pages.jsonl
  hold drop shop pages
  hold load shop pages pages.jsonl --cache --cache-max-bytes 128M

Exit codes:
  0     the map has this property now
  2, 3  error (see 'hold help')";

/// The sizes of a stream.
const SIZES: std::ops::RangeInclusive<u64> = 64 << 10..=4 << 30;

/// Options of `hold alter`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// Size of the map's stream
    #[arg(long, value_name = "SIZE", value_parser = stream_size)]
    stream_size: Option<u64>,

    #[command(flatten)]
    fixed: Fixed,
}

/// Options that create maps, for an error that says that they cannot be changed.
#[derive(clap::Args, Debug)]
struct Fixed {
    #[arg(long, hide = true)]
    cache: bool,

    #[arg(long = "fixed", hide = true)]
    lengths: Option<String>,

    #[arg(long, hide = true)]
    cache_max_bytes: Option<String>,

    #[arg(long, hide = true)]
    cache_max_entries: Option<String>,

    #[arg(long, hide = true)]
    cache_ttl: Option<String>,
}

impl Fixed {
    /// The first option that was given, and what it would change.
    fn given(&self) -> Option<(&'static str, &'static str)> {
        [
            (self.cache, "--cache", "the kind of a map"),
            (self.lengths.is_some(), "--fixed", "the kind of a map"),
            (self.cache_max_bytes.is_some(), "--cache-max-bytes", "a limit of a cache"),
            (self.cache_max_entries.is_some(), "--cache-max-entries", "a limit of a cache"),
            (self.cache_ttl.is_some(), "--cache-ttl", "the default time to live of a cache"),
        ]
        .into_iter()
        .find_map(|(is_given, option, what)| is_given.then_some((option, what)))
    }
}

fn stream_size(text: &str) -> std::result::Result<u64, String> {
    let bytes = sizes::bytes(text)?;
    match SIZES.contains(&bytes) {
        true => Ok(bytes),
        false => Err("expected 64K to 4G".to_owned()),
    }
}

/// Changes the map.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("alter")?;
    if let Some((option, what)) = args.fixed.given() {
        let (hold, map) = (args.name.hold.display(), args.name.shown());
        return Err(Failure::usage(format!(
            "{option}: {what} is fixed when the map is created; dump the map ('hold dump {hold} \
             {map} -o FILE'), drop it, and load FILE into a new map with {option} ('hold load')"
        )));
    }
    let Some(size) = args.stream_size else {
        return Err(Failure::usage("expected the property to change: --stream-size SIZE"));
    };
    let hold = directory.open_to_write(&args.name.hold)?;
    let name = &args.name.map;
    let stream_bytes = || -> Result<Option<u64>> {
        Ok(hold.maps().open(name)?.stat()?.stream.map(|stream| stream.bytes))
    };
    let before = stream_bytes()?;
    let changed = hold.maps().begin_stream(name, size)?;
    // Another process may have changed it since.
    let now = stream_bytes()?.unwrap_or_else(|| size.next_power_of_two());
    if output.is_json() {
        output.json_line(&json!({
            "map": name,
            "changed": changed,
            "stream_bytes": now,
            "stream_bytes_before": before,
        }))?;
    } else if !output.is_quiet() {
        let (map, now) = (args.name.shown(), sizes::shown(now));
        let before = before.map_or_else(
            || "no stream before".to_owned(),
            |bytes| format!("before: {}", sizes::shown(bytes)),
        );
        note(&match changed {
            true => format!("map {map}: a stream of {now} begins ({before})"),
            false => format!("map {map}: the stream has {now} already"),
        });
    }
    Ok(ExitCode::SUCCESS)
}
