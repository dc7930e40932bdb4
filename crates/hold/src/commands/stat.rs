//! `hold stat`: size, memory, maps and participants of a hold; the statistics of one map or another
//! structure.

use super::{channel, log, queue};
use crate::commands::shared::structure_kind::{kind_of, nothing_called};
use crate::report::replication::Replication;
use crate::report::servers::Servers;
use crate::report::{self, map, others};
use crate::target::{Directory, StructureName, is_own};
use commonhold::Hold;
use commonhold::hold::StructureKind;
use commonhold::raw::open_unready_map;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::Output;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold stat`.
pub const EXAMPLES: &str = "\
Examples:
  hold stat shop
  hold stat shop prices                         # a map, queue, channel or log
  hold stat shop --format json | jq .hold.memory_bytes
  hold stat shop --all                          # also Commonhold's own structures
  hold list shop                                # only the contents of the hold

For a map with an origin, the command also shows the replicas, the slowest first. For a replica,
it shows the origin and the lag. Origins and replicas report once a second, so a killed one still
appears for a few seconds. 'bytes behind' is the size of the changes that the replica has not
applied yet.

The command also shows the workers of 'hold serve', with statistics since they started. 'hold
monitor' shows live statistics of the workers.

Structures whose names begin with a dot are Commonhold's own; they are shown only with --all, or
when they are named explicitly.";

/// Options of `hold stat`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The hold: a bare name (a hold in memory), or a path that contains a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    hold: PathBuf,

    /// Show only this map, queue, channel or log
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Include Commonhold's own structures, whose names begin with a dot
    #[arg(long, short, conflicts_with = "name")]
    all: bool,
}

/// Shows the statistics.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("stat")?;
    let hold = directory.open_to_read(&args.hold)?;
    match &args.name {
        Some(name) => show_one(&hold, name, args, directory, &output)?,
        None => show_hold(&hold, args.all, &output)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show_one(
    hold: &Hold,
    name: &str,
    args: &Args,
    directory: &Directory,
    output: &Output,
) -> Result<()> {
    let named = StructureName { hold: args.hold.clone(), name: name.to_owned() };
    match kind_of(hold, name)? {
        None => Err(Failure::failed(nothing_called(name, hold.path(), &args.hold))),
        Some(StructureKind::Queue) => queue::stat::show(&named, directory, output),
        Some(StructureKind::Channel) => channel::stat::show(&named, directory, output),
        Some(StructureKind::Log) => log::stat::show(&named, directory, output),
        Some(_) => {
            let opened = open_unready_map(hold, name)?;
            let (stat, lag) = (opened.stat()?, opened.lag()?);
            let replication = Replication::of_map(hold, name)?;
            if output.is_json() {
                let mut json = map::json(&stat);
                if let Some(lag) = lag {
                    json["lag_ms"] = lag.as_millis().try_into().unwrap_or(u64::MAX).into();
                }
                replication.put(&mut json);
                return output.json(&json);
            }
            output.text(&map::text(&stat))?;
            replication.show(output)
        }
    }
}

fn show_hold(hold: &Hold, all: bool, output: &Output) -> Result<()> {
    let shown = |name: &str| all || !is_own(name);
    let stat = hold.stat()?;
    let participants = hold.participants()?;
    let mut maps = Vec::new();
    for map in hold.maps().list_all()?.into_iter().filter(|map| shown(&map.name)) {
        match open_unready_map(hold, &map.name).and_then(|map| map.stat()) {
            // It was dropped after the list was made.
            Err(e) if e.is_not_found() => {}
            stat => maps.push(stat?),
        }
    }
    let others: Vec<_> =
        hold.structures()?.into_iter().filter(|other| shown(&other.name)).collect();
    let replication = Replication::of_hold(hold)?;
    let servers = Servers::of_hold(hold)?;
    if output.is_json() {
        let mut json = json!({
            "hold": report::hold::json(&stat),
            "maps": maps.iter().map(map::json).collect::<Vec<_>>(),
            "others": others.iter().map(others::json).collect::<Vec<_>>(),
            "participants": participants.iter().map(report::hold::participant_json).collect::<Vec<_>>(),
        });
        replication.put(&mut json);
        servers.put(&mut json);
        return output.json(&json);
    }
    output.text(&report::hold::text(&stat))?;
    if !maps.is_empty() {
        output.text(&format!("\n{}", map::table(&maps).text()))?;
    }
    if !others.is_empty() {
        output.text(&format!("\n{}", others::table(&others).text()))?;
    }
    servers.show(output)?;
    replication.show(output)?;
    if !participants.is_empty() {
        output.text(&format!("\n{}", report::hold::participants_table(&participants).text()))?;
    }
    Ok(())
}
