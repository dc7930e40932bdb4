//! `hold journal run`: records all maps of a hold in one directory.

use super::recording::Recording;
use super::{tell, tell_rebuilt};
use crate::commands::replication::service::Service;
use crate::making::NewHold;
use crate::target::{Directory, MapName};
use commonhold::Hold;
use commonhold_replicate::journal::JournalOptions;
use commonhold_replicate::{
    HoldJournal, HoldJournalOptions, HoldJournalStatus, JournalState, JournaledMap,
    ensure_rebuildable,
};
use commonhold_terminal::descriptors;
use commonhold_terminal::failure::Result;
use commonhold_terminal::output::Output;
use commonhold_terminal::text::printable;
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold journal run`.
pub const EXAMPLES: &str = "\
Examples:
  hold journal run shop shop.journals
  hold journal run shop shop.journals --maps 'session:*' --sync every-ms 5
  hold journal run shop shop.journals --keep 7d    # keeps earlier states of all maps for a week
  hold journal rebuild shop-earlier shop.journals --at '2026-11-23 10:15'
  hold journal verify shop.journals                # reads all files and reports damage and holes
  hold stat shop                                   # the progress and the errors of each journal

One process records all maps of the hold: those that exist, and those that are created later. Each
map has a file of its own in DIR, which is created if it does not exist. Queues, channels and logs
are not recorded, and neither are caches. A map that cannot be recorded does not affect
the others: the command and 'hold stat' name the map and the reason, and the command retries.

If the hold was lost, as after a system crash, the command first rebuilds all maps from their files.
No process can read a map before it is complete. A map that was dropped stays dropped. A replica's
map is not rebuilt: it comes from its origin once the replica is running.

When a map is dropped, its file stays in DIR. 'hold journal rebuild --at' can restore the map as it
was before that. A later map of the same name gets a new file. With --keep, the files of a dropped
map are removed when the time set by --keep has passed.

If a file belongs to an earlier map of the same name in another hold, the map is not recorded. With
--rebuild, the command drops the maps that exist, and loads the contents of the files instead. With
--replace, it keeps the maps and begins new files; the old files stay.

The options apply to each map. Each map needs a stream, a thread and an open file. After a signal,
the command writes and syncs all changes, and then exits.

Exit codes:
  0     a signal stopped the command after all changes were durable
  2, 3  error (see 'hold help')";

/// Options of `hold journal run`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The hold: a bare name (a hold in memory), or a path that contains a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    hold: PathBuf,

    /// The directory for the journals of all maps
    #[arg(value_name = "DIR")]
    place: PathBuf,

    /// Only the maps whose names match the pattern, in which * stands for any characters and ? for
    /// one. You can give this option several times
    #[arg(long = "maps", value_name = "PATTERN")]
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    patterns: Vec<String>,

    #[command(flatten)]
    recording: Recording,

    /// Begin a new file for each map whose file belongs to an earlier map of the same name
    #[arg(long)]
    replace: bool,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    #[command(next_help_heading = "If the hold does not exist yet")]
    making: NewHold,
}

/// Records the maps until a signal comes.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("journal run")?;
    let options = JournalOptions { replace: args.replace, ..args.recording.options("HOLD DIR")? };
    let sync = options.sync;
    let hold = open(args, directory)?;
    let service = Service::begin(&hold)?;
    // Each map needs some.
    descriptors::allow(u64::MAX);
    let (maps, rebuild) = (args.patterns.clone(), args.recording.rebuild);
    let options = HoldJournalOptions { journal: options, maps, rebuild };
    let journal = HoldJournal::start(&hold, &args.place, options)?;
    let begun = json!({ "event": "journal", "directory": args.place, "sync": sync.to_string() });
    tell(&output, &begun, &format!("{}, sync {sync}", args.place.display()))?;
    for (map, rebuilt) in journal.rebuilt() {
        let name = MapName { hold: args.hold.clone(), map: map.clone() };
        tell_rebuilt(&output, &name, rebuilt, None)?;
    }
    let voice = Voice { output, said: RefCell::default() };
    voice.report(&journal.status())?;
    service.run(|| voice.report(&journal.status()))?;
    journal.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// The hold; created only if the directory has journals to rebuild maps from.
fn open(args: &Args, directory: &Directory) -> Result<Hold> {
    match ensure_rebuildable(&args.place, None, &HoldJournalOptions::default()) {
        Err(error) if error.is_not_found() => directory.open_to_write(&args.hold),
        Err(error) => Err(error.into()),
        Ok(()) => args.making.open_or_create(directory, &args.hold),
    }
}

/// Reports the changes of the maps' states.
struct Voice {
    output: Output,
    /// The last state of each map, and why it is not better.
    said: RefCell<BTreeMap<String, (JournalState, Option<String>)>>,
}

impl Voice {
    fn report(&self, status: &HoldJournalStatus) -> Result<()> {
        let mut said = self.said.borrow_mut();
        for map in &status.maps {
            let durable_error = map.journal.as_ref().and_then(|journal| journal.error.clone());
            let now = (map.state, map.reason.clone().or(durable_error));
            let before = said.insert(map.name.clone(), now.clone());
            if before.as_ref() != Some(&now) {
                self.say(map, now.1.as_deref(), before.is_none())?;
            }
        }
        let is_here = |name: &String| status.maps.iter().any(|map| map.name == *name);
        let gone: Vec<_> = said.extract_if(.., |name, _| !is_here(name)).collect();
        for (name, _) in gone {
            let event = json!({ "event": "dropped", "map": name });
            tell(&self.output, &event, &format!("map {}: was dropped", printable(&name)))?;
        }
        Ok(())
    }

    fn say(&self, map: &JournaledMap, why: Option<&str>, is_first: bool) -> Result<()> {
        let (name, reason) = (printable(&map.name), printable(why.unwrap_or_default()));
        let (event, text) = match (map.state, why) {
            (JournalState::Recorded, None) if is_first => ("recorded", "is recorded".to_owned()),
            (JournalState::Recorded, None) => {
                ("recorded", "changes are becoming durable again".to_owned())
            }
            (JournalState::Recorded, Some(_)) => {
                ("error", format!("changes are not becoming durable: {reason}; retrying"))
            }
            (JournalState::Failed, _) => {
                ("error", format!("cannot be recorded: {reason}; retrying"))
            }
            (JournalState::Skipped, _) => ("skipped", format!("is not recorded: {reason}")),
        };
        let event = json!({ "event": event, "map": map.name, "why": why });
        tell(&self.output, &event, &format!("map {name}: {text}"))
    }
}
