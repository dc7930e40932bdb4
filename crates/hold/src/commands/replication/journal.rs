//! `hold journal`: records a map in a file, and rebuilds the map from it after a system crash.

use super::service::Service;
use crate::making::NewHold;
use crate::target::{Directory, MapName};
use commonhold::Hold;
use commonhold_replicate::journal::{
    Journal, JournalOptions, Rebuilt, SyncPolicy, ensure_whole, rebuild,
};
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::output::Output;
use commonhold_terminal::sizes;
use serde_json::json;
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples of `hold journal`.
pub const EXAMPLES: &str = "\
Examples:
  hold journal shop prices prices.journal                    # syncs every change immediately
  hold journal shop prices prices.journal --sync every-ms 5  # syncs every 5 milliseconds
  hold journal shop prices prices.journal --rebuild-only     # rebuilds the map from the file
  hold stat shop prices                                      # the journal's progress and errors

Programs write to the map as usual. To wait until its changes are durable, a program calls
'Map::sync' in the library, or runs 'hold sync'. If the map is missing and the file exists, as
after a system crash, the command first rebuilds the map from the file. The map is then exactly as
it was at one point in time, and includes every confirmed change.

If the file belongs to another map, or to an earlier map with this name, the command fails. With
--rebuild it drops the map and loads the contents of the file instead; with --replace it keeps the
map and begins a new file. When the file has doubled in size, the journal compacts it into a new
file; the disk needs room for both.

If the disk is full or fails, the journal reports this on standard error and in 'hold stat', and
retries. The map remains usable. After a signal, the command writes and syncs all changes, and
then exits.

Exit codes: 0 = the map has been rebuilt, or a signal stopped the command after all changes were
durable; 2, 3 see 'hold help'";

/// Options of `hold journal`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    name: MapName,

    /// The journal's file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Milliseconds, after '--sync every-ms'
    #[arg(value_name = "N", hide = true)]
    milliseconds: Option<u64>,

    /// How often to sync changes to disk: always (after each change), 'every-ms N' (every N
    /// milliseconds), or never
    #[arg(long, value_name = "WHEN", default_value = "always")]
    sync: String,

    /// Size of the map's stream, if the map does not have one yet; it limits how far the journal
    /// may fall behind
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, default_value = "64MiB")]
    stream_size: u64,

    /// Compact the file whenever it has doubled in size, unless it is smaller than this
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, default_value = "16MiB")]
    compact_size: u64,

    /// Drop the map if it exists, and rebuild it from the file
    #[arg(long, conflicts_with = "replace")]
    rebuild: bool,

    /// Rebuild the map from the file if the map is missing, then exit
    #[arg(long, conflicts_with = "replace")]
    rebuild_only: bool,

    /// Discard the existing file and begin a new one
    #[arg(long)]
    replace: bool,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    #[command(next_help_heading = "If the hold does not exist yet")]
    hold: NewHold,
}

impl Args {
    fn policy(&self) -> Result<SyncPolicy> {
        let text = match (&*self.sync, self.milliseconds) {
            ("every-ms", Some(number)) => format!("every-ms={number}"),
            (_, Some(number)) => {
                let text =
                    format!("expected the arguments HOLD MAP FILE, got one more: '{number}'");
                return Err(Failure::usage(text));
            }
            (text, None) => text.to_owned(),
        };
        text.parse().map_err(|error| Failure::usage(format!("--sync: {error}")))
    }
}

/// Rebuilds the map if needed, then keeps the journal.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("journal")?;
    let sync = args.policy()?;
    let hold = open(args, directory)?;
    let service = Service::begin(&hold)?;
    let options = JournalOptions {
        sync,
        stream_bytes: args.stream_size,
        compact_bytes: args.compact_size,
        replace: args.replace,
    };
    rebuild_if_missing(args, &hold, &options, &output)?;
    if args.rebuild_only {
        return Ok(ExitCode::SUCCESS);
    }
    let journal = Journal::start(&hold, &args.name.map, &args.file, options)?;
    let begun = json!({ "event": "journal", "file": args.file, "sync": sync.to_string() });
    let shown = format!("{}, {sync}", args.file.display());
    tell(&output, &begun, &shown)?;
    let said = RefCell::new(None);
    service.run(|| watch(&journal, &said, &output))?;
    journal.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// The hold; created only if there is a file to rebuild the map from.
fn open(args: &Args, directory: &Directory) -> Result<Hold> {
    if args.file.exists() {
        return args.hold.open_or_create_for_map(directory, &args.name);
    }
    directory.open_to_write(&args.name.hold)
}

fn rebuild_if_missing(
    args: &Args,
    hold: &Hold,
    options: &JournalOptions,
    output: &Output,
) -> Result<()> {
    let name = &args.name.map;
    let is_there = match hold.maps().open(name) {
        // Half rebuilt by a process that was killed.
        Ok(map) => !map.is_replica(),
        Err(error) if error.is_not_found() => false,
        Err(error) => return Err(error.into()),
    };
    let wanted = args.rebuild || args.rebuild_only || !is_there;
    if !wanted || args.replace || !(args.file.exists() || args.rebuild || args.rebuild_only) {
        return Ok(());
    }
    if is_there && args.rebuild {
        ensure_whole(&args.file)?;
        hold.maps().drop(name)?;
    }
    let rebuilt = rebuild(hold, name, &args.file, options)?;
    let Rebuilt { position, pairs, changes, cut_off_bytes } = &rebuilt;
    let event = json!({ "event": "rebuilt", "position": position.to_string(), "pairs": pairs,
        "changes": changes, "cut_off_bytes": cut_off_bytes });
    let end = match cut_off_bytes {
        0 => String::new(),
        bytes => format!("; {} at the end were not durable", sizes::shown(*bytes)),
    };
    let text = format!(
        "map {} rebuilt: {}, {}{end}",
        args.name.shown(),
        sizes::things(*pairs, "pair", "pairs"),
        sizes::things(*changes, "change since", "changes since")
    );
    tell(output, &event, &text)
}

/// Reports an error once, and its end.
fn watch(journal: &Journal, said: &RefCell<Option<String>>, output: &Output) -> Result<()> {
    let error = journal.status().error;
    if journal.is_over() {
        let why = error.unwrap_or_else(|| "the map was dropped".to_owned());
        return Err(Failure::failed(why));
    }
    if error == *said.borrow() {
        return Ok(());
    }
    let text = match &error {
        Some(why) => format!("changes are not becoming durable: {why}; retrying"),
        None => "changes are becoming durable again".to_owned(),
    };
    tell(output, &json!({ "event": "trouble", "why": error }), &text)?;
    said.replace(error);
    Ok(())
}

fn tell(output: &Output, event: &serde_json::Value, text: &str) -> Result<()> {
    if output.is_json() {
        return output.json_line(event);
    }
    if !output.is_quiet() {
        note(&format!("hold journal: {text}"));
    }
    Ok(())
}
