//! `hold sync`: waits until a map's journal has made every change durable.

use crate::commands::replication::timed_wait;
use crate::target::{Directory, MapName};
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// Examples of `hold sync`.
pub const EXAMPLES: &str = "\
Examples:
  hold set shop prices apple 4 && hold sync shop prices && echo 'safe'
  hold sync shop prices --timeout 100ms || echo 'not known to be safe'

The command waits until every earlier change to the map is in the map's journal ('hold journal')
and on disk.

Exit codes:
  0  all changes are durable
  1  timed out
  3  no journal is running, or the journal cannot write (a message gives the reason)";

/// Options of `hold sync`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// Maximum time to wait
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, default_value = "10s")]
    timeout: Duration,
}

/// Waits.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("sync")?;
    let map = directory.map_to_write(&args.name)?;
    let synced = map.sync(args.timeout);
    timed_wait::show(&output, synced.map(|position| json!({ "durable": position.to_string() })))
}
