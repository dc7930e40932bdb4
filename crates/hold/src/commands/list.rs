//! `hold list`: the holds with bare names, or the contents of one hold.

use crate::report::table::Table;
use crate::report::{mode, others};
use crate::target::{Directory, is_own};
use commonhold::hold::Listed;
use commonhold::map::MapInfo;
use commonhold::raw::open_unready_map;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes::{count, shown};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Examples of `hold list`.
pub const EXAMPLES: &str = "\
Examples:
  hold list                                     # all holds with bare names
  hold list shop                                # the contents of one hold
  hold list shop --all                          # also Commonhold's own structures
  hold list --directory ./holds
  hold list --format json | jq -r '.[].name'

Structures whose names begin with a dot are Commonhold's own, such as the reports of origins and
replicas ('.reports') and the positions of replicas. This command lists them only with --all.
'hold stat' hides them as well. All other subcommands treat these names like any other name.";

/// Options of `hold list`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The hold to list: a bare name, or a path [default: all holds with bare names]
    #[arg(value_name = "HOLD")]
    hold: Option<PathBuf>,

    /// Include Commonhold's own structures, whose names begin with a dot
    #[arg(long, short, requires = "hold")]
    all: bool,
}

/// Lists holds, or the contents of one.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("list")?;
    match &args.hold {
        Some(hold) => list_maps(hold, args.all, directory, &output)?,
        None => list_holds(directory, &output)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list_holds(directory: &Directory, output: &Output) -> Result<()> {
    let holds = commonhold::hold::list(directory.path())?;
    if output.is_json() {
        return output.json(&holds.iter().map(hold_json).collect());
    }
    if holds.is_empty() {
        return if output.is_quiet() { Ok(()) } else { output.text("no holds") };
    }
    let mut table = Table::new(&["hold", "memory>", "length>", "state"]);
    for hold in &holds {
        let state = match (&hold.problem, hold.in_use) {
            (Some(problem), _) => problem.clone(),
            (None, true) => "in use".to_owned(),
            (None, false) => "-".to_owned(),
        };
        let sizes = [shown(hold.memory_bytes), shown(hold.file_bytes)];
        let [memory, length] = sizes;
        table.row([hold.name.clone(), memory, length, state]);
    }
    output.text(&table.text())
}

fn hold_json(hold: &Listed) -> Value {
    json!({
        "name": hold.name,
        "path": hold.path.to_string_lossy(),
        "memory_bytes": hold.memory_bytes,
        "file_bytes": hold.file_bytes,
        "in_use": hold.in_use,
        "problem": hold.problem,
    })
}

fn list_maps(hold: &Path, all: bool, directory: &Directory, output: &Output) -> Result<()> {
    let hold = directory.open_to_read(hold)?;
    let shown = |name: &str| all || !is_own(name);
    let maps: Vec<_> = hold.maps().list_all()?.into_iter().filter(|map| shown(&map.name)).collect();
    let others: Vec<_> =
        hold.structures()?.into_iter().filter(|other| shown(&other.name)).collect();
    // It was dropped after the list was made: treated as if it had not been a replica.
    let is_replica =
        |map: &MapInfo| open_unready_map(&hold, &map.name).is_ok_and(|map| map.is_replica());
    if output.is_json() {
        return output.json(
            &maps
                .iter()
                .map(|map| map_json(map, is_replica(map)))
                .chain(others.iter().map(others::json))
                .collect(),
        );
    }
    if maps.is_empty() && others.is_empty() {
        return if output.is_quiet() { Ok(()) } else { output.text("no maps") };
    }
    if !maps.is_empty() {
        let mut table = Table::new(&["map", "mode", "pairs>"]);
        for map in &maps {
            table.row([
                map.name.clone(),
                mode::text_of(&map.mode, is_replica(map)),
                count(map.len),
            ]);
        }
        output.text(&table.text())?;
    }
    if !others.is_empty() {
        let between = if maps.is_empty() { "" } else { "\n" };
        output.text(&format!("{between}{}", others::table(&others).text()))?;
    }
    Ok(())
}

fn map_json(map: &MapInfo, is_replica: bool) -> Value {
    json!({
        "name": map.name,
        "kind": "map",
        "mode": mode::json(&map.mode),
        "pairs": map.len,
        "replica": is_replica,
    })
}
