//! `hold wait`: waits until replicas have applied every change to a map.

use crate::commands::replication::timed_wait;
use crate::target::{Directory, MapName};
use commonhold::map::Map;
use commonhold_io::thread_patience::with_patience;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Examples of `hold wait`.
pub const EXAMPLES: &str = "\
Examples:
  hold set shop prices apple 4 && hold wait shop prices && echo 'a replica has it'
  hold wait shop prices --replicas 2 --timeout 100ms || echo 'not known to be on 2 replicas'
  hold wait shop prices --replica backup    # a replica with --name backup

The command waits until replicas of the map ('hold replica', 'hold relay') have applied every
earlier change, so that their readers see it. If the origin's machine then fails, and such a replica
is promoted ('hold promote'), the changes are there. They are not necessarily on a disk: to wait for
that, use 'hold sync'.

Replicas of a relay do not count. A replica that has reported the changes also counts while it is
disconnected.

Exit codes:
  0     the replicas have applied all changes
  1     timed out
  2, 3  error (see 'hold help')";

/// Options of `hold wait`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// Number of replicas to wait for
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "replica")]
    replicas: usize,

    /// Wait for the replica with this name instead; if several have it, one of them is enough
    #[arg(long, value_name = "NAME")]
    replica: Option<String>,

    /// Maximum time to wait
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, default_value = "10s")]
    timeout: Duration,
}

/// Waits.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("wait")?;
    let map = directory.map_to_write(&args.name)?;
    timed_wait::show(&output, wait(args, &map))
}

/// The position that the replicas have reached, and how many of them, or which one.
fn wait(args: &Args, map: &Map) -> commonhold::Result<Value> {
    let begun = Instant::now();
    let end = with_patience(args.timeout, || map.follow()?.end())?;
    let left = args.timeout.saturating_sub(begun.elapsed());
    let position = end.to_string();
    if let Some(name) = &args.replica {
        map.wait_for_replica_to(end, name, left)?;
        return Ok(json!({ "position": position, "replica": name }));
    }
    let replicas = map.wait_for_replicas_to(end, args.replicas, left)?;
    Ok(json!({ "position": position, "replicas": replicas }))
}
