//! What a verb is about: the hold, the map or another structure, keys given as arguments, and how to
//! make what is not there yet.
//!
//! Invariant: verbs that only look open the hold read-only, so they take no slot in it and write
//! nothing (but for queues, which are locked to be looked at); nothing is made unless the verb stores
//! something.

use crate::failure::{Failure, Result};
use crate::formats::{bytes, sizes};
use commonhold::{
    Channel, ErrorKind, Hold, HoldOptions, Log, Map, MapOptions, Queue, StructureKind,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The hold that a verb is about.
#[derive(clap::Args, Debug, Clone)]
pub struct HoldName {
    /// The hold: a bare name (in memory), or a path if it has a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    pub hold: PathBuf,
}

/// The map that a verb is about.
#[derive(clap::Args, Debug, Clone)]
pub struct MapName {
    /// The hold: a bare name (in memory), or a path if it has a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    pub hold: PathBuf,

    /// The map in the hold
    #[arg(value_name = "MAP")]
    pub map: String,
}

/// The queue, channel or log that a verb is about.
#[derive(clap::Args, Debug, Clone)]
pub struct StructureName {
    /// The hold: a bare name (in memory), or a path if it has a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    pub hold: PathBuf,

    /// The name of the queue, channel or log in the hold
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// Where bare names live.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct Directory {
    /// Where holds with bare names live [default: $COMMONHOLD_DIR or /dev/shm]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub directory: Option<PathBuf>,
}

impl Directory {
    /// The directory, if one was given.
    pub fn path(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The path of the hold `name`.
    pub fn resolve(&self, name: &Path) -> Result<PathBuf> {
        let path = Hold::resolve(name, self.path())?;
        // A path without a slash would be taken for a name again.
        Ok(if path.components().count() == 1 { Path::new(".").join(path) } else { path })
    }

    /// Opens the hold `name` to look at it.
    pub fn open_to_read(&self, name: &Path) -> Result<Hold> {
        Ok(Hold::options().read_only(true).open(self.resolve(name)?)?)
    }

    /// Opens the hold `name` to change it.
    pub fn open_to_write(&self, name: &Path) -> Result<Hold> {
        Ok(Hold::open(self.resolve(name)?)?)
    }

    /// Opens a map to look at it.
    pub fn map_to_read(&self, name: &MapName) -> Result<Map> {
        Ok(self.open_to_read(&name.hold)?.open_map(&name.map)?)
    }

    /// Opens a map to change it.
    pub fn map_to_write(&self, name: &MapName) -> Result<Map> {
        Ok(self.open_to_write(&name.hold)?.open_map(&name.map)?)
    }

    /// Opens a queue.
    pub fn queue(&self, name: &StructureName) -> Result<Queue> {
        let hold = Hold::open(self.resolve(&name.hold)?);
        hold.and_then(|hold| hold.open_queue(&name.name))
            .map_err(|e| or_make(e, StructureKind::Queue, name))
    }

    /// Opens a channel to look at it, or as somebody who takes part.
    pub fn channel(&self, name: &StructureName, read_only: bool) -> Result<Channel> {
        let hold = Hold::options().read_only(read_only).open(self.resolve(&name.hold)?);
        hold.and_then(|hold| hold.open_channel(&name.name))
            .map_err(|e| or_make(e, StructureKind::Channel, name))
    }

    /// Opens a log to look at it, or as somebody who takes part.
    pub fn log(&self, name: &StructureName, read_only: bool) -> Result<Log> {
        let hold = Hold::options().read_only(read_only).open(self.resolve(&name.hold)?);
        hold.and_then(|hold| hold.open_log(&name.name))
            .map_err(|e| or_make(e, StructureKind::Log, name))
    }
}

/// The way out where a structure, or its hold, is not there.
fn or_make(error: commonhold::Error, kind: StructureKind, name: &StructureName) -> Failure {
    let (hold, name) = (name.hold.display(), &name.name);
    match error.is_not_found() {
        true => Failure::failed(format!("{error}; 'hold {kind} create {hold} {name}' makes it")),
        false => Failure::failed(error),
    }
}

/// How the hold is made if it is not there.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct NewHold {
    /// The new hold may grow to so many bytes [default: 64G]
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes)]
    max_bytes: Option<u64>,

    /// The permissions of the new hold, in octal [default: 600]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<u32>,
}

impl NewHold {
    /// Opens the hold, or makes it.
    pub fn open_or_create(&self, directory: &Directory, name: &Path) -> Result<Hold> {
        Ok(self.options().open_or_create(directory.resolve(name)?)?)
    }

    fn options(&self) -> HoldOptions {
        let mut options = Hold::options();
        if let Some(bytes) = self.max_bytes {
            options = options.max_bytes(bytes);
        }
        if let Some(mode) = self.mode {
            options = options.mode(mode);
        }
        options
    }
}

/// How the hold and the map are made if they are not there.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "If the hold or the map is not there yet")]
pub struct Making {
    /// Make neither: fail instead
    #[arg(long)]
    no_create: bool,

    /// Make a map of fixed lengths: every key K bytes, every value V bytes
    #[arg(long, value_name = "K,V", value_parser = fixed, conflicts_with = "cache")]
    fixed: Option<(u32, u32)>,

    /// Make a cache: a map that forgets what is old or least used
    #[arg(long)]
    cache: bool,

    /// The cache holds at most so many bytes
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, requires = "cache")]
    cache_max_bytes: Option<u64>,

    /// The cache holds at most so many pairs
    #[arg(long, value_name = "N", requires = "cache",
        value_parser = clap::value_parser!(u64).range(1..))]
    cache_max_entries: Option<u64>,

    /// The cache keeps pairs so long unless told otherwise
    #[arg(long, value_name = "TIME", value_parser = sizes::duration, requires = "cache")]
    cache_ttl: Option<Duration>,

    #[command(flatten)]
    hold: NewHold,
}

fn fixed(text: &str) -> std::result::Result<(u32, u32), String> {
    let lengths = text.split_once(',').and_then(|(key, value)| {
        Some((key.trim().parse::<u32>().ok()?, value.trim().parse::<u32>().ok()?))
    });
    lengths.ok_or_else(|| "two lengths in bytes, such as 4,8".to_owned())
}

fn mode(text: &str) -> std::result::Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("permissions are octal digits such as 600 or 660".to_owned()),
    }
}

impl Making {
    /// Opens the map, making it and the hold unless told not to.
    pub fn open(&self, directory: &Directory, name: &MapName) -> Result<Map> {
        let hold = self.open_hold(&directory.resolve(&name.hold)?)?;
        if let Some(options) = self.map_options()? {
            return Ok(match self.no_create {
                true => same_options(hold.open_map(&name.map)?, &options)?,
                false => hold.map(&name.map, options)?,
            });
        }
        match hold.open_map(&name.map) {
            Err(e) if e.is_not_found() && !self.no_create => {}
            result => return Ok(result?),
        }
        match hold.map(&name.map, MapOptions::general()) {
            // Somebody else has made it meanwhile, in another mode, which is as good.
            Err(e) if e.kind() == ErrorKind::Mismatch => Ok(hold.open_map(&name.map)?),
            result => Ok(result?),
        }
    }

    fn open_hold(&self, path: &Path) -> Result<Hold> {
        let options = self.hold.options();
        Ok(if self.no_create { options.open(path)? } else { options.open_or_create(path)? })
    }

    /// The options that the map must have, if any were given.
    fn map_options(&self) -> Result<Option<MapOptions>> {
        if let Some((key, value)) = self.fixed {
            return Ok(Some(MapOptions::fixed(key, value)));
        }
        if !self.cache {
            return Ok(None);
        }
        let mut options = MapOptions::cache();
        if let Some(bytes) = self.cache_max_bytes {
            options = options.max_bytes(bytes);
        }
        if let Some(entries) = self.cache_max_entries {
            options = options.max_entries(entries);
        }
        if let Some(ttl) = self.cache_ttl {
            options = options.ttl(ttl);
        }
        Ok(Some(options))
    }
}

fn same_options(map: Map, options: &MapOptions) -> Result<Map> {
    if map.options() == options {
        return Ok(map);
    }
    let name = map.name();
    Err(Failure::failed(format!(
        "map '{name}' has other options than the ones given; 'hold list HOLD' shows them"
    )))
}

/// How keys and values stand in arguments and on the terminal.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub struct Hex {
    /// Keys and values are hexadecimal digits, in arguments and in text output
    #[arg(long)]
    pub hex: bool,
}

impl Hex {
    /// The bytes that the argument stands for.
    pub fn bytes(self, argument: &OsStr) -> Result<Vec<u8>> {
        match self.hex {
            true => bytes::from_hex(argument.as_bytes()).map_err(Failure::usage),
            false => Ok(argument.as_bytes().to_vec()),
        }
    }
}
