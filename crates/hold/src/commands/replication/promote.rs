//! `hold promote`: makes a replica's map writable, because its origin will not come back.

use crate::target::{Directory, MapName};
use commonhold_replicate::promote;
use commonhold_terminal::failure::{NO, Result, complain, note};
use commonhold_terminal::output::Output;
use serde_json::json;
use std::process::ExitCode;

/// Examples of `hold promote`.
pub const EXAMPLES: &str = "\
Examples:
  hold promote copy prices
  hold promote copy prices && hold origin copy prices --listen tcp:7400

The map becomes an ordinary map: every process may write to it. It lacks the changes that the old
origin had not sent yet. Stop the map's replica first: while 'hold replica' or 'hold relay' runs,
the command fails and names the process. A map that has only the keys with a certain prefix ('hold
replica --prefix') cannot be promoted: its replicas would lose the other keys.

Each promotion increases the map's epoch (a counter that both sides compare) by 1. Replicas that
have followed the new origin refuse the old one, and the old one refuses them, so its changes
cannot overwrite newer ones. To make the old origin a replica, drop its map, and start 'hold
replica' there.

Exit codes:
  0     the map was promoted
  1     the map is not a replica, so every process may already write to it
  2, 3  error (see 'hold help')";

/// Options of `hold promote`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,
}

/// Promotes.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("promote")?;
    let hold = directory.open_to_write(&args.name.hold)?;
    let Some(promotion) = promote(&hold, &args.name.map)? else {
        match output.is_json() {
            true => output.json_line(&json!({ "promoted": false }))?,
            false if output.is_quiet() => {}
            false => complain(&format!("map {} is not a replica", args.name.shown())),
        }
        return Ok(NO.into());
    };
    let position = promotion.position.map(|position| position.to_string());
    if output.is_json() {
        let epoch = promotion.epoch;
        output.json_line(&json!({ "promoted": true, "epoch": epoch, "position": position }))?;
    } else if !output.is_quiet() {
        let at = position
            .map_or(String::new(), |at| format!(", with the old origin's changes up to {at}"));
        note(&format!(
            "map {} is writable{at}; its epoch is {}",
            args.name.shown(),
            promotion.epoch
        ));
    }
    Ok(ExitCode::SUCCESS)
}
