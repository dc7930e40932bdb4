//! `hold verify`: compares a replica with its origin, pair by pair, while both keep running.

use super::secret::SecretFile;
use crate::commands::shared::answer;
use crate::target::{Directory, MapName};
use commonhold_replicate::{Address, ReplicaOptions, Verified, verify};
use commonhold_terminal::bytes;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use commonhold_terminal::text::shown;
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold verify`.
pub const EXAMPLES: &str = "\
Examples:
  hold verify tcp:7400 copy prices && echo 'the same'
  hold verify unix:/run/prices.sock copy prices --limit 1000 --format json

The command compares the two maps, pair by pair, at one position in the origin's stream, while
writers continue, and prints the keys that differ. It reads the whole map from the origin into
memory, and rechecks keys that change during the comparison. It also prints a digest of each map.
Equal maps have equal digests, even on different machines. If the replica has only the keys with a
certain prefix, the command compares only these, and the digests cover only these.

Exit codes:
  0     the maps are equal
  1     keys differ, or changed too often to compare
  2, 3  error (see 'hold help')";

/// Options of `hold verify`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The origin's address: unix:PATH, HOST:PORT, or :PORT (this machine)
    #[arg(value_name = "ADDRESS")]
    origin: Address,

    #[command(flatten)]
    name: MapName,

    #[command(flatten)]
    secret: SecretFile,

    /// Time limit for the comparison
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, default_value = "1m")]
    timeout: Duration,

    /// Maximum number of keys to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

/// Compares.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("verify")?;
    let options = ReplicaOptions { secret: args.secret.read()?, ..ReplicaOptions::default() };
    let hold = directory.open_to_read(&args.name.hold)?;
    let how = (args.timeout, args.limit);
    let found = verify(&hold, &args.name.map, &args.origin, options, how)?;
    if output.is_json() {
        output.json(&as_json(&found))?;
    } else {
        output.text(&as_text(&found, args))?;
    }
    Ok(answer(found.is_equal()))
}

fn as_json(found: &Verified) -> serde_json::Value {
    json!({
        "equal": found.is_equal(),
        "position": found.position.to_string(),
        "prefix": found.prefix,
        "pairs": found.pairs,
        "origin_digest": found.origin_digest,
        "replica_digest": found.replica_digest,
        "different": found.different,
        "undecided": found.undecided,
        "differing": found.differing.iter().map(|key| bytes::json(key)).collect::<Vec<_>>(),
    })
}

fn as_text(found: &Verified, args: &Args) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line}");
    };
    for key in &found.differing {
        line(format!("differs: {}", shown(key)));
    }
    let more = found.different - found.differing.len() as u64;
    if more > 0 {
        line(format!("and {} more", sizes::things(more, "key", "keys")));
    }
    if found.undecided > 0 {
        let keys = sizes::things(found.undecided, "key", "keys");
        line(format!("{keys} not compared, because of constant changes; raise --timeout"));
    }
    let of = found
        .prefix
        .as_ref()
        .map_or(String::new(), |prefix| format!(" for the keys that begin with '{prefix}'"));
    if found.is_equal() {
        line(format!(
            "map {} equals that of {}{of}: {}, digest {}, at {}",
            args.name.shown(),
            args.origin,
            sizes::things(found.pairs, "pair", "pairs"),
            found.replica_digest,
            found.position
        ));
    } else {
        line(format!(
            "digest{of}: {} at the origin, {} here",
            found.origin_digest, found.replica_digest
        ));
    }
    text.truncate(text.trim_end().len());
    text
}
