//! `hold journal rebuild`: rebuilds a map, or all maps of a hold, from the journal, also as they
//! were at an earlier time.

use super::{ensure_no_journal, tell, tell_rebuilt};
use crate::making::NewHold;
use crate::target::{Directory, MapName};
use commonhold::Hold;
use commonhold::raw::open_unready_map;
use commonhold_replicate::journal::{
    JournalOptions, PastState, find_state, inspect, read_time, rebuild, rebuild_state,
};
use commonhold_replicate::{
    HoldJournalOptions, RebuildOutcome, RebuiltMap, ensure_rebuildable, rebuild_hold,
};
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use commonhold_terminal::text::printable;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Examples of `hold journal rebuild`.
pub const EXAMPLES: &str = "\
Examples:
  hold journal rebuild shop prices prices.journal    # the latest state
  hold journal rebuild shop prices-earlier prices.journal --at '2026-11-23 10:15'
  hold journal rebuild shop prices prices.journal --at 2026-11-23T10:15:00+02:00 --drop
  hold journal rebuild shop shop.journals            # all maps of 'hold journal run'
  hold journal rebuild shop-earlier shop.journals --at '2026-11-23 10:15'

The command creates the map from the journal's file, and exits. The hold is created if it does not
exist. The map is complete before any process can read it. If the map exists, the command fails. Add
--drop to drop the map first, or rebuild it under another name, as in the second example.

With --at, the map becomes what it was at that time: the last recorded state at or before it.
A journal records the time about every second while changes arrive, and before and after each
pause. A time is in UTC unless it has a zone. The states come from the file, and from the segments
that 'hold journal --keep' has left in FILE.d, or in the directory that --archive names. If the map
cannot be restored to that time, the error names the earliest and the latest possible time.

After a rebuild with --at, 'hold journal' does not continue the file, which has later changes. Use
--replace to begin a new one; with --keep, the old file then becomes a segment.

With a directory in place of MAP and FILE, the command rebuilds all maps that 'hold journal run'
has recorded there. With --at, each map becomes what it was at that time. Maps that were dropped, or
that did not exist at that time, are left out. Other maps of the hold do not change. If a map
cannot be rebuilt, the command still rebuilds the others, and then fails.

Exit codes:
  0     the map, or every map, has been rebuilt
  2, 3  error (see 'hold help')";

/// Options of `hold journal rebuild`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The hold: a bare name (a hold in memory), or a path that contains a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    hold: PathBuf,

    /// The map; or, without FILE, the directory with the journals of all maps
    #[arg(value_name = "MAP|DIR")]
    map: String,

    /// The journal file of the map
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Without FILE: only the maps whose names match the pattern, in which * stands for any
    /// characters and ? for one. You can give this option several times
    #[arg(long = "maps", value_name = "PATTERN", conflicts_with = "file")]
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    patterns: Vec<String>,

    /// Rebuild the map, or each map, as it was at this time, such as '2026-11-23 10:15' (UTC) or
    /// 2026-11-23T10:15:00+02:00
    #[arg(long, value_name = "TIME", value_parser = read_time)]
    at: Option<u64>,

    /// The directory with the segments [default: FILE.d]
    #[arg(long, value_name = "DIR", requires = "at")]
    archive: Option<PathBuf>,

    /// Drop the map first if it exists
    #[arg(long)]
    drop: bool,

    /// If a part of the file is damaged, rebuild the map without that part
    #[arg(long)]
    skip_damaged: bool,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    #[command(next_help_heading = "If the hold does not exist yet")]
    making: NewHold,
}

/// Rebuilds the map, or all maps.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("journal rebuild")?;
    let options = JournalOptions {
        skip_damaged: args.skip_damaged,
        archive: args.archive.clone(),
        ..JournalOptions::default()
    };
    match &args.file {
        Some(file) => one(args, file, &options, directory, &output)?,
        None => all(args, options, directory, &output)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Rebuilds one map from its file.
fn one(
    args: &Args,
    file: &Path,
    options: &JournalOptions,
    directory: &Directory,
    output: &Output,
) -> Result<()> {
    // Before anything is created or dropped.
    let state = find(args, file, options)?;
    let name = MapName { hold: args.hold.clone(), map: args.map.clone() };
    let hold = args.making.open_or_create_for_map(directory, &name)?;
    if args.drop {
        ensure_no_journal(&hold, &name.map)?;
        drop_map(&hold, &name.map)?;
    }
    let rebuilt = match &state {
        Some(state) => rebuild_state(&hold, &name.map, state, options)?,
        None => rebuild(&hold, &name.map, file, options)?,
    };
    tell_rebuilt(output, &name, &rebuilt, state.as_ref())
}

/// Rebuilds all maps that have journals in the directory.
fn all(args: &Args, options: JournalOptions, directory: &Directory, output: &Output) -> Result<()> {
    let place = Path::new(&args.map);
    if !place.is_dir() {
        let text = format!(
            "expected a directory with the journals of a hold, got '{}', which is not one; to \
             rebuild one map, name its journal file, too",
            printable(&args.map)
        );
        return Err(Failure::usage(text));
    }
    let (maps, rebuild) = (args.patterns.clone(), args.drop);
    let options = HoldJournalOptions { journal: options, maps, rebuild };
    // Before anything is created or dropped.
    ensure_rebuildable(place, args.at, &options)?;
    let hold = args.making.open_or_create(directory, &args.hold)?;
    let maps = rebuild_hold(&hold, place, args.at, &options)?;
    maps.iter().try_for_each(|map| tell_map(args, map, output))?;
    let failed = maps.iter().filter(|map| matches!(map.outcome, RebuildOutcome::Failed(_))).count();
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!(
            "{} could not be rebuilt",
            sizes::things(failed as u64, "map", "maps")
        ))),
    }
}

fn tell_map(args: &Args, map: &RebuiltMap, output: &Output) -> Result<()> {
    let (event, why) = match &map.outcome {
        RebuildOutcome::Rebuilt(rebuilt, state) => {
            let name = MapName { hold: args.hold.clone(), map: map.name.clone() };
            return tell_rebuilt(output, &name, rebuilt, state.as_ref());
        }
        RebuildOutcome::LeftOut(why) => ("left_out", why),
        RebuildOutcome::Failed(why) => ("failed", why),
    };
    let shown = match event {
        "failed" => "cannot be rebuilt",
        _ => "is left out",
    };
    tell(
        output,
        &json!({ "event": event, "map": map.name, "file": map.file, "why": why }),
        &format!("map {}: {shown}: {why}", printable(&map.name)),
    )
}

/// The wanted state, if it is not the latest.
fn find(args: &Args, file: &Path, options: &JournalOptions) -> Result<Option<PastState>> {
    match args.at {
        Some(at) => Ok(Some(find_state(file, at, options)?)),
        None => {
            inspect(file)?.ensure_usable(options)?;
            Ok(None)
        }
    }
}

/// Drops the map, unless it is half rebuilt or a replica.
fn drop_map(hold: &Hold, name: &str) -> Result<()> {
    match open_unready_map(hold, name) {
        Ok(map) if !map.is_replica() => {
            hold.maps().drop(name)?;
        }
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    Ok(())
}
