//! `hold stat`: size, memory, maps and participants of a hold; the figures of one map or another
//! structure.

use super::drop::{kind_of, nothing_called};
use super::list::{other_json, others_table};
use super::replication::reports::Parties;
use super::serve::reports::Servers;
use super::table::Table;
use super::{channel, log, mode, queue};
use crate::failure::{Failure, Result};
use crate::formats::sizes::{count, shown};
use crate::output::Output;
use crate::target::{Directory, StructureName, is_own};
use commonhold::{
    Hold, HoldKind, HoldStat, MapMode, MapStat, ParticipantInfo, SizeStat, StructureKind,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold stat`.
pub const EXAMPLES: &str = "\
Examples:
  hold stat shop
  hold stat shop prices                         # a map, queue, channel or log
  hold stat shop --format json | jq .hold.memory_bytes
  hold stat shop --all                          # Commonhold's own maps and channels, too
  hold list shop                                # only what is in it

A map that an origin serves is shown with its replicas, the one that is farthest behind first; a replica with its
origin and how far behind it is. They say so themselves, once a second: what was killed is shown for some seconds more.
'bytes behind' are those of changes that were not applied yet.

Workers of 'hold serve' are shown likewise, with counts and times since they began; 'hold monitor' shows them live.

Names that begin with a dot are Commonhold's own, and shown with --all or by name only.";

/// Options of `hold stat`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The hold: a bare name (in memory), or a path if it has a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    hold: PathBuf,

    /// Only this map, queue, channel or log
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Also names that begin with a dot, which are Commonhold's own
    #[arg(long, short, conflicts_with = "name")]
    all: bool,
}

/// Shows the figures.
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
            let stat = hold.open_map(name)?.stat()?;
            let parties = Parties::of_map(hold, name)?;
            if output.is_json() {
                let mut json = map_json(&stat);
                parties.put(&mut json);
                return output.json(&json);
            }
            output.text(&map_text(&stat))?;
            parties.show(output)
        }
    }
}

fn show_hold(hold: &Hold, all: bool, output: &Output) -> Result<()> {
    let shown = |name: &str| all || !is_own(name);
    let stat = hold.stat()?;
    let participants = hold.participants()?;
    let mut maps = Vec::new();
    for map in hold.maps()?.into_iter().filter(|map| shown(&map.name)) {
        match hold.open_map(&map.name).and_then(|map| map.stat()) {
            // It was dropped since the list was made.
            Err(e) if e.is_not_found() => {}
            stat => maps.push(stat?),
        }
    }
    let others: Vec<_> = hold.others()?.into_iter().filter(|other| shown(&other.name)).collect();
    let parties = Parties::of_hold(hold)?;
    let servers = Servers::of_hold(hold)?;
    if output.is_json() {
        let mut json = json!({
            "hold": hold_json(&stat),
            "maps": maps.iter().map(map_json).collect::<Vec<_>>(),
            "others": others.iter().map(other_json).collect::<Vec<_>>(),
            "participants": participants.iter().map(participant_json).collect::<Vec<_>>(),
        });
        parties.put(&mut json);
        servers.put(&mut json);
        return output.json(&json);
    }
    output.text(&hold_text(&stat))?;
    if !maps.is_empty() {
        output.text(&format!("\n{}", maps_table(&maps).text()))?;
    }
    if !others.is_empty() {
        output.text(&format!("\n{}", others_table(&others).text()))?;
    }
    servers.show(output)?;
    parties.show(output)?;
    if !participants.is_empty() {
        output.text(&format!("\n{}", participants_table(&participants).text()))?;
    }
    Ok(())
}

fn hold_text(stat: &HoldStat) -> String {
    let mut table = Table::of_facts();
    table.fact("hold", stat.path.display().to_string());
    table.fact("uuid", &*stat.uuid);
    table.fact("kind", kind(stat.kind));
    table.fact(
        "memory",
        format!("{} (the file is {} long)", shown(stat.memory_bytes), shown(stat.file_bytes)),
    );
    table.fact("used", shown(stat.used_bytes));
    table.fact(
        "free",
        format!("{} within, up to {} in all", shown(stat.free_bytes), shown(stat.max_bytes)),
    );
    table.fact("format", stat.format.to_string());
    table.text()
}

fn kind(kind: HoldKind) -> &'static str {
    match kind {
        HoldKind::Memory => "memory",
        HoldKind::File => "file",
    }
}

/// The figures of a hold.
pub fn hold_json(stat: &HoldStat) -> Value {
    json!({
        "path": stat.path.to_string_lossy(),
        "uuid": stat.uuid,
        "kind": kind(stat.kind),
        "file_bytes": stat.file_bytes,
        "memory_bytes": stat.memory_bytes,
        "used_bytes": stat.used_bytes,
        "free_bytes": stat.free_bytes,
        "max_bytes": stat.max_bytes,
        "participants": stat.participants,
        "maps": stat.maps,
        "others": stat.others,
        "format": stat.format,
    })
}

fn maps_table(maps: &[MapStat]) -> Table {
    let mut table = Table::new(&["map", "mode", "pairs>", "index>", "records>", "bytes/pair>"]);
    for map in maps {
        table.row([
            map.name.clone(),
            mode::text_of(&map.mode, map.replica),
            count(map.len),
            shown(map.index_bytes),
            shown(map.record_bytes),
            bytes_per_pair(map),
        ]);
    }
    table
}

fn bytes_per_pair(map: &MapStat) -> String {
    match map.len {
        // A new map's first segment would make a strange figure.
        len if len < 100 => "-".to_owned(),
        len => format!("{:.1}", (map.index_bytes + map.record_bytes) as f64 / len as f64),
    }
}

fn map_text(stat: &MapStat) -> String {
    let mut table = Table::of_facts();
    table.fact("map", &*stat.name);
    table.fact("mode", mode::text_of(&stat.mode, stat.replica));
    table.fact("pairs", count(stat.len));
    table.fact("segments", format!("{}, {:.0}% full", count(stat.segments), stat.load * 100.0));
    table.fact("depth", stat.depth.to_string());
    table.fact("index", shown(stat.index_bytes));
    table.fact("records", shown(stat.record_bytes));
    table.fact("bytes/pair", bytes_per_pair(stat));
    if matches!(stat.mode, MapMode::Cache { .. }) {
        table.fact("hits", count(stat.hits));
        table.fact("misses", count(stat.misses));
        table.fact("expired", count(stat.expired));
        table.fact("evicted", count(stat.evicted));
    }
    if let Some(stream) = &stat.stream {
        let told = shown(stream.end.offset);
        table.fact(
            "stream",
            format!("keeps {}, {told} told, to {}", shown(stream.bytes), stream.end),
        );
    }
    table.text()
}

/// The figures of a map.
pub fn map_json(stat: &MapStat) -> Value {
    let mut json = json!({
        "name": stat.name,
        "mode": mode::json(&stat.mode),
        "pairs": stat.len,
        "segments": stat.segments,
        "depth": stat.depth,
        "index_bytes": stat.index_bytes,
        "record_bytes": stat.record_bytes,
        "sizes": stat.sizes.iter().map(size_json).collect::<Vec<_>>(),
        "load": stat.load,
        "replica": stat.replica,
    });
    if matches!(stat.mode, MapMode::Cache { .. }) {
        json["cache"] = json!({
            "hits": stat.hits,
            "misses": stat.misses,
            "expired": stat.expired,
            "evicted": stat.evicted,
        });
    }
    if let Some(stream) = &stat.stream {
        json["stream"] = json!({ "bytes": stream.bytes, "end": stream.end.to_string() });
    }
    json
}

fn size_json(size: &SizeStat) -> Value {
    json!({ "up_to_bytes": size.up_to_bytes, "pairs": size.pairs, "bytes": size.bytes })
}

fn participants_table(participants: &[ParticipantInfo]) -> Table {
    let mut table = Table::new(&["slot>", "generation>", "pid>", "program", "state"]);
    for p in participants {
        let state = if p.alive { "alive" } else { "dead: 'hold repair' cleans up after it" };
        table.row([
            p.slot.to_string(),
            p.generation.to_string(),
            p.pid.to_string(),
            p.program.clone(),
            state.to_owned(),
        ]);
    }
    table
}

fn participant_json(p: &ParticipantInfo) -> Value {
    json!({
        "slot": p.slot,
        "generation": p.generation,
        "pid": p.pid,
        "program": p.program,
        "alive": p.alive,
    })
}
