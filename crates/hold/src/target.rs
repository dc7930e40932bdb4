//! The target of a subcommand: the hold, the map or another structure, the keys in the arguments.
//!
//! Invariant: subcommands that only read open the hold read-only, so they take no slot in it and
//! write nothing.

use commonhold::channel::Channel;
use commonhold::hold::StructureKind;
use commonhold::log::Log;
use commonhold::map::Map;
use commonhold::queue::{Queue, QueueStat};
use commonhold::{ErrorKind, Hold, HoldOptions};
use commonhold_terminal::bytes;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::sizes;
use commonhold_terminal::text::printable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The hold of a subcommand.
#[derive(clap::Args, Debug, Clone)]
pub struct HoldName {
    /// The hold: a bare name (a hold in memory), or a path that contains a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    pub hold: PathBuf,
}

/// The map of a subcommand.
#[derive(clap::Args, Debug, Clone)]
pub struct MapName {
    /// The hold: a bare name (a hold in memory), or a path that contains a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    pub hold: PathBuf,

    /// The map in the hold
    #[arg(value_name = "MAP")]
    pub map: String,
}

impl MapName {
    /// The map's name for people.
    pub fn shown(&self) -> String {
        printable(&self.map)
    }
}

/// One map of a hold, or all of them.
#[derive(clap::Args, Debug, Clone)]
pub struct MapOrHold {
    /// The hold: a bare name (a hold in memory), or a path that contains a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    pub hold: PathBuf,

    /// The map in the hold; without this argument, all maps
    #[arg(value_name = "MAP")]
    map: Option<String>,

    /// Without MAP: only the maps whose names match the pattern, in which * stands for any
    /// characters and ? for one. You can give this option several times
    #[arg(long = "maps", value_name = "PATTERN", conflicts_with = "map")]
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub patterns: Vec<String>,
}

impl MapOrHold {
    /// The map, if the command line names one.
    pub fn one(&self) -> Option<MapName> {
        let map = self.map.clone()?;
        Some(MapName { hold: self.hold.clone(), map })
    }

    /// The map or the hold, for people.
    pub fn shown(&self) -> String {
        match &self.map {
            Some(map) => format!("map {}", printable(map)),
            None => "the maps".to_owned(),
        }
    }
}

/// Whether this is one of Commonhold's own names (`.reports`, `.applied/prices`), which lists omit.
pub fn is_own(name: &str) -> bool {
    name.starts_with('.')
}

/// The queue, channel or log of a subcommand.
#[derive(clap::Args, Debug, Clone)]
pub struct StructureName {
    /// The hold: a bare name (a hold in memory), or a path that contains a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    pub hold: PathBuf,

    /// The name in the hold; `named` replaces this text
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// The directory of bare names.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct Directory {
    /// Directory for holds with bare names [default: $COMMONHOLD_DIR or /dev/shm]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub directory: Option<PathBuf>,

    /// Maximum time to wait for a lock whose holder is suspended [default: no limit]
    #[arg(long, global = true, value_name = "TIME", help_heading = "Global options")]
    #[arg(value_parser = sizes::wait)]
    pub lock_timeout: Option<Duration>,
}

impl Directory {
    /// The options for opening holds.
    pub fn options(&self) -> HoldOptions {
        let options = Hold::options();
        self.lock_timeout.into_iter().fold(options, HoldOptions::lock_timeout)
    }

    /// The directory, if an option names one.
    pub fn path(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The path of the hold `name`.
    pub fn resolve(&self, name: &Path) -> Result<PathBuf> {
        let path = commonhold::hold::resolve(name, self.path())?;
        // A path without a slash would be read as a bare name again.
        Ok(if path.components().count() == 1 { Path::new(".").join(path) } else { path })
    }

    /// Opens the hold `name` to read it.
    pub fn open_to_read(&self, name: &Path) -> Result<Hold> {
        Ok(self.options().read_only(true).open(self.resolve(name)?)?)
    }

    /// Opens the hold `name` to change it.
    pub fn open_to_write(&self, name: &Path) -> Result<Hold> {
        Ok(self.options().open(self.resolve(name)?)?)
    }

    /// Opens a map to read it.
    pub fn map_to_read(&self, name: &MapName) -> Result<Map> {
        Ok(self.open_to_read(&name.hold)?.maps().open(&name.map)?)
    }

    /// Opens a map to change it.
    pub fn map_to_write(&self, name: &MapName) -> Result<Map> {
        Ok(self.open_to_write(&name.hold)?.maps().open(&name.map)?)
    }

    /// Opens a queue.
    pub fn queue(&self, name: &StructureName) -> Result<Queue> {
        let hold = self.options().open(self.resolve(&name.hold)?);
        hold.and_then(|hold| hold.queues().open(&name.name))
            .map_err(|e| or_make(e, StructureKind::Queue, name))
    }

    /// The statistics of a queue.
    pub fn queue_stat(&self, name: &StructureName) -> Result<QueueStat> {
        let hold = self.options().read_only(true).open(self.resolve(&name.hold)?);
        hold.and_then(|hold| hold.queues().stat(&name.name))
            .map_err(|e| or_make(e, StructureKind::Queue, name))
    }

    /// Opens a channel, to read it only or as a participant.
    pub fn channel(&self, name: &StructureName, read_only: bool) -> Result<Channel> {
        let hold = self.options().read_only(read_only).open(self.resolve(&name.hold)?);
        hold.and_then(|hold| hold.channels().open(&name.name))
            .map_err(|e| or_make(e, StructureKind::Channel, name))
    }

    /// Opens a channel to receive from it: read-only if there is no permission to write to the hold
    /// and `lossy` allows it.
    pub fn channel_to_receive(&self, name: &StructureName, lossy: bool) -> Result<Channel> {
        let refused = |kind| matches!(kind, ErrorKind::Permission | ErrorKind::ReadOnly);
        match self.options().open(self.resolve(&name.hold)?) {
            Err(error) if refused(error.kind()) && lossy => self.channel(name, true),
            Err(error) if refused(error.kind()) => Err(Failure::failed(format!(
                "{error}; with read permission only, use '--policy lossy'"
            ))),
            _ => self.channel(name, false),
        }
    }

    /// Opens a log, to read it only or as a participant.
    pub fn log(&self, name: &StructureName, read_only: bool) -> Result<Log> {
        let hold = self.options().read_only(read_only).open(self.resolve(&name.hold)?);
        hold.and_then(|hold| hold.logs().open(&name.name))
            .map_err(|e| or_make(e, StructureKind::Log, name))
    }
}

/// The error for a missing structure or hold, with the way out.
fn or_make(error: commonhold::Error, kind: StructureKind, name: &StructureName) -> Failure {
    let (hold, name) = (name.hold.display(), &name.name);
    match error.is_not_found() {
        true => Failure::failed(format!("{error}; 'hold {kind} create {hold} {name}' creates it")),
        false => Failure::failed(error),
    }
}

/// The form of keys and values in arguments and on the terminal.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub struct Hex {
    /// Use hexadecimal digits for keys and values, in arguments and in text output
    #[arg(long)]
    pub hex: bool,
}

impl Hex {
    /// The bytes that the argument means.
    pub fn bytes(self, argument: &OsStr) -> Result<Vec<u8>> {
        match self.hex {
            true => bytes::from_hex(argument.as_bytes()).map_err(Failure::usage),
            false => Ok(argument.as_bytes().to_vec()),
        }
    }
}
