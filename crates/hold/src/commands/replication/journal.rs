//! `hold journal`: records a map in a file, and rebuilds the map from it after a system crash;
//! `hold journal run` does so for all maps of a hold.

mod contents;
mod hold;
mod rebuild;
mod recording;

use self::recording::Recording;
use super::service::Service;
use crate::commands::shared::own_or_subcommand::OwnOrSubcommand;
use crate::making::NewHold;
use crate::target::{Directory, MapName};
use commonhold::Hold;
use commonhold::raw::{is_unready, open_unready_map};
use commonhold_replicate::journal::{
    Journal, JournalOptions, PastState, Rebuilt, inspect, shown_time,
};
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::help::flowing;
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
  hold journal shop prices prices.journal --keep 7d          # keeps earlier states for a week
  hold journal rebuild shop prices prices.journal            # rebuilds the map from the file
  hold journal verify prices.journal                         # reads the file and reports damage
  hold stat shop prices                                      # the journal's progress and errors
  hold journal run shop shop.journals                        # all maps of the hold

Programs write to the map as usual. To wait until its changes are durable, a program calls
'Map::sync' in the library, or runs 'hold sync'. If the map is missing and the file exists, as
after a system crash, the command first rebuilds the map from the file. The map is then exactly as
it was at one point in time, and includes every change that 'hold sync' or 'Map::sync' has
confirmed.

If the file belongs to another map, or to an earlier map with this name, the command fails. With
--rebuild it drops the map and loads the contents of the file instead; with --replace it keeps the
map and begins a new file. When the file has doubled in size, the journal compacts it into a new
file; the disk needs room for both.

With --keep, when a new file replaces the old one, the old one is kept as a segment in FILE.d, or in
the directory that --archive names. 'hold journal rebuild --at' restores the map as it was at any
time that the segments and the file cover. The names of the segments contain the times of their
first and last states, so the segments sort in chronological order. A new file also begins when the
time set by --segment-time has passed. The journal removes a segment when it is not needed to
restore any state within the time set by --keep. Other programs may copy, move and delete segments.

The map may be a replica: the journal records what the replica applies. Start the replica first.

If the map must be rebuilt and parts of the file are damaged, the command fails and lists the
damage. With --skip-damaged, it rebuilds the map without these parts. If the map exists, no
rebuild is needed: the damaged file is kept as FILE.damaged, and the journal begins a new file.

If the disk is full or fails, the journal reports this on standard error and in 'hold stat', and
retries. The map remains usable. After a signal, the command writes and syncs all changes, and
then exits.

Exit codes:
  0     a signal stopped the command after all changes were durable
  2, 3  error (see 'hold help')";

/// Options of `hold journal`: a subcommand, or those for keeping a journal.
pub type Args = OwnOrSubcommand<KeepArgs, Subcommand>;

/// The subcommands of `hold journal`.
#[derive(clap::Subcommand, Debug)]
pub enum Subcommand {
    /// Record all maps of a hold, each in a file of its own in one directory
    #[command(after_help = flowing(hold::EXAMPLES))]
    Run(Box<hold::Args>),
    /// Rebuild a map, or all maps of a hold, from the journal: the latest state, or an earlier one
    #[command(after_help = flowing(rebuild::EXAMPLES))]
    Rebuild(rebuild::Args),
    /// Read the files of a journal to the end, and report their contents, damage and holes
    #[command(after_help = flowing(contents::EXAMPLES))]
    Verify(contents::Args),
}

/// Options for keeping a journal.
#[derive(clap::Args, Debug)]
pub struct KeepArgs {
    #[command(flatten)]
    name: MapName,

    /// The journal file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    recording: Recording,

    /// Begin a new file. The existing file is discarded or, with --keep, becomes a segment
    #[arg(long)]
    replace: bool,

    // Last: its options are under a heading of their own.
    #[command(flatten)]
    #[command(next_help_heading = "If the hold does not exist yet")]
    hold: NewHold,
}

/// Verifies a journal, or keeps one.
pub fn run(args: &Args, directory: &Directory, output: &Output) -> Result<ExitCode> {
    match args {
        Args::Subcommand(Subcommand::Run(args)) => hold::run(args, directory, output),
        Args::Subcommand(Subcommand::Rebuild(args)) => rebuild::run(args, directory, output),
        Args::Subcommand(Subcommand::Verify(args)) => contents::run(args, output),
        Args::Own(args) => keep(args, directory, output),
    }
}

/// Rebuilds the map if needed, then keeps the journal.
fn keep(args: &KeepArgs, directory: &Directory, output: &Output) -> Result<ExitCode> {
    let output = output.text_or_json("journal")?;
    let options =
        JournalOptions { replace: args.replace, ..args.recording.options("HOLD MAP FILE")? };
    let sync = options.sync;
    let hold = open(args, directory)?;
    let service = Service::begin(&hold)?;
    rebuild_if_missing(args, &hold, &options, &output)?;
    let journal = Journal::start(&hold, &args.name.map, &args.file, options)?;
    let begun = json!({ "event": "journal", "file": args.file, "sync": sync.to_string() });
    let shown = format!("{}, sync {sync}", args.file.display());
    tell(&output, &begun, &shown)?;
    if let Some(kept) = journal.status().damaged_file {
        let text = format!("the file is damaged; it is kept as {kept}, and a new file begins");
        tell(&output, &json!({ "event": "damaged", "kept": kept }), &text)?;
    }
    let said = RefCell::new(None);
    service.run(|| watch(&args.name, &journal, &said, &output))?;
    journal.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// The hold; created only if there is a file to rebuild the map from.
fn open(args: &KeepArgs, directory: &Directory) -> Result<Hold> {
    if args.file.exists() {
        return args.hold.open_or_create_for_map(directory, &args.name);
    }
    directory.open_to_write(&args.name.hold)
}

fn rebuild_if_missing(
    args: &KeepArgs,
    hold: &Hold,
    options: &JournalOptions,
    output: &Output,
) -> Result<()> {
    let name = &args.name.map;
    let is_there = match open_unready_map(hold, name) {
        // If it is not ready, it is half rebuilt by a process that was killed, or a replica.
        Ok(map) => !is_unready(&map),
        Err(error) if error.is_not_found() => false,
        Err(error) => return Err(error.into()),
    };
    let wanted = args.recording.rebuild || !is_there;
    if !wanted || args.replace || !(args.file.exists() || args.recording.rebuild) {
        return Ok(());
    }
    let contents = inspect(&args.file)?;
    if contents.of_replica && !args.recording.rebuild {
        let text = format!(
            "{}: this is the journal of a replica; start the replica, which gets the map from its \
             origin, and then the journal; or add --rebuild to rebuild it as an ordinary map",
            args.file.display()
        );
        return Err(Failure::failed(text));
    }
    if is_there && args.recording.rebuild {
        contents.ensure_usable(options)?;
        ensure_no_journal(hold, name)?;
        hold.maps().drop(name)?;
    }
    let rebuilt = commonhold_replicate::journal::rebuild(hold, name, &args.file, options)?;
    tell_rebuilt(output, &args.name, &rebuilt, None)
}

/// Checks that no journal of the map runs, before the map is dropped.
///
/// # Errors
/// `Busy`, which names its process.
fn ensure_no_journal(hold: &Hold, map: &str) -> Result<()> {
    drop(commonhold::raw::JournalSlot::take(hold, map)?);
    Ok(())
}

/// Reports what was rebuilt.
fn tell_rebuilt(
    output: &Output,
    name: &MapName,
    rebuilt: &Rebuilt,
    state: Option<&PastState>,
) -> Result<()> {
    let Rebuilt { position, pairs, changes, cut_off_bytes, damage } = rebuilt;
    let mut event = json!({ "event": "rebuilt", "map": name.map,
        "position": position.to_string(), "pairs": pairs, "changes": changes,
        "cut_off_bytes": cut_off_bytes, "damage": damage });
    let mut end = match cut_off_bytes {
        0 => String::new(),
        bytes => format!("; {} at the end were not durable", sizes::shown(*bytes)),
    };
    if let Some(PastState { file, time_ms, .. }) = state {
        (event["file"], event["time_ms"]) = (json!(file), json!(time_ms));
        end.push_str(&format!("; as of {}, from {}", shown_time(*time_ms), file.display()));
    }
    for part in damage {
        end.push_str(&format!("; skipped: {part}"));
    }
    let text = format!(
        "map {} rebuilt: {}, {}{end}",
        name.shown(),
        sizes::things(*pairs, "pair", "pairs"),
        sizes::things(*changes, "later change", "later changes")
    );
    tell(output, &event, &text)
}

/// Reports an error once, and its end.
fn watch(
    name: &MapName,
    journal: &Journal,
    said: &RefCell<Option<String>>,
    output: &Output,
) -> Result<()> {
    let error = journal.status().error;
    if journal.is_over() {
        let dropped = || {
            let name = name.shown();
            format!("map {name} was dropped; to record a new map of this name, add --replace")
        };
        let why = error.unwrap_or_else(dropped);
        return Err(Failure::failed(why));
    }
    if error == *said.borrow() {
        return Ok(());
    }
    let (event, text) = match &error {
        Some(why) => {
            let text = format!("changes are not becoming durable: {why}; retrying");
            (json!({ "event": "error", "why": why }), text)
        }
        None => (json!({ "event": "recovered" }), "changes are becoming durable again".to_owned()),
    };
    tell(output, &event, &text)?;
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
