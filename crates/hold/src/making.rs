//! Creates what does not exist yet: the hold, and the map or other structure in it.
//!
//! Invariant: every error that can be known in advance is found before anything is created, so a
//! subcommand that fails with it leaves no new hold and no new map behind. Nothing is created
//! unless the subcommand stores something.

use crate::target::{Directory, MapName, StructureName};
use commonhold::hold::StructureKind;
use commonhold::map::{Map, MapOptions};
use commonhold::{ErrorKind, Hold, HoldOptions};
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::{sizes, text};
use std::path::Path;
use std::time::Duration;

/// The most bytes of a name in a hold.
const LONGEST_NAME: usize = 200;
/// The default maximum size of a new hold.
const DEFAULT_MAX_BYTES: u64 = 64 << 30;
/// The most bytes of a key and its value together.
const LARGEST_PAIR: u64 = u32::MAX as u64;

/// How to create the hold if it does not exist.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct NewHold {
    /// Maximum size of the new hold [default: 64G]
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes)]
    max_bytes: Option<u64>,

    /// The permissions of the new hold, in octal [default: 600]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<u32>,
}

impl NewHold {
    /// Opens the hold, or creates it for a structure that takes at least `bytes`.
    pub fn open_or_create_for(
        &self,
        directory: &Directory,
        name: &StructureName,
        kind: StructureKind,
        bytes: u64,
    ) -> Result<Hold> {
        match directory.options().open(directory.resolve(&name.hold)?) {
            Err(error) if error.is_not_found() => {}
            opened => return Ok(opened?),
        }
        ensure_name(kind, &name.name)?;
        let most = self.max_bytes.unwrap_or(DEFAULT_MAX_BYTES);
        if bytes > most {
            let (bytes, most) = (sizes::shown(bytes), sizes::shown(most));
            return Err(Failure::failed(format!(
                "{kind} '{}' needs {bytes}, but the new hold may grow only to {most}; shrink the \
                 {kind}, or raise --max-bytes",
                text::printable(&name.name)
            )));
        }
        self.open_or_create(directory, &name.hold)
    }

    /// Opens the hold, or creates it for a map of this name that comes later.
    pub fn open_or_create_for_map(&self, directory: &Directory, name: &MapName) -> Result<Hold> {
        ensure_name(StructureKind::Map, &name.map)?;
        self.open_or_create(directory, &name.hold)
    }

    /// Opens the hold, or creates it for whatever comes later.
    pub fn open_or_create(&self, directory: &Directory, name: &Path) -> Result<Hold> {
        Ok(self.with(directory.options()).open_or_create(directory.resolve(name)?)?)
    }

    fn with(&self, mut options: HoldOptions) -> HoldOptions {
        if let Some(bytes) = self.max_bytes {
            options = options.max_bytes(bytes);
        }
        if let Some(mode) = self.mode {
            options = options.mode(mode);
        }
        options
    }
}

/// How to create the hold and the map if they do not exist.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "If the hold or the map does not exist yet")]
pub struct Making {
    /// Fail instead of creating the hold or the map
    #[arg(long)]
    no_create: bool,

    /// Create a fixed-length map: every key is K bytes long, and every value V bytes
    #[arg(long, value_name = "K,V", value_parser = fixed, conflicts_with = "cache")]
    fixed: Option<(u32, u32)>,

    /// Create a cache: its pairs can expire, and a full cache evicts pairs
    #[arg(long)]
    cache: bool,

    /// Maximum number of bytes in the cache
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, requires = "cache")]
    cache_max_bytes: Option<u64>,

    /// Maximum number of pairs in the cache
    #[arg(long, value_name = "N", requires = "cache",
        value_parser = clap::value_parser!(u64).range(1..))]
    cache_max_entries: Option<u64>,

    /// Default time to live of pairs in the cache
    #[arg(long, value_name = "TIME", value_parser = sizes::duration, requires = "cache")]
    cache_ttl: Option<Duration>,

    #[command(flatten)]
    hold: NewHold,
}

fn fixed(text: &str) -> std::result::Result<(u32, u32), String> {
    let lengths = text.split_once(',').and_then(|(key, value)| {
        Some((key.trim().parse::<u32>().ok()?, value.trim().parse::<u32>().ok()?))
    });
    let (key, value) =
        lengths.ok_or_else(|| "expected two lengths in bytes, such as 4,8".to_owned())?;
    match key {
        0 => Err("expected a key of at least 1 byte".to_owned()),
        _ if u64::from(key) + u64::from(value) > LARGEST_PAIR => {
            Err("expected less than 4 GiB for key and value together".to_owned())
        }
        _ => Ok((key, value)),
    }
}

fn mode(text: &str) -> std::result::Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("expected permissions in octal digits, such as 600 or 660".to_owned()),
    }
}

impl Making {
    /// Opens the map, or creates it and the hold unless an option forbids it, for a first pair of
    /// these lengths.
    pub fn open(
        &self,
        directory: &Directory,
        name: &MapName,
        [key_bytes, value_bytes]: [usize; 2],
    ) -> Result<Map> {
        if let Some(map) = self.find(directory, name)? {
            return Ok(map);
        }
        match self.fault(key_bytes, value_bytes) {
            Some(what) => Err(Failure::failed(format!("the new map {}: {what}", name.shown()))),
            None => self.make(directory, name),
        }
    }

    /// Opens the map if it exists.
    ///
    /// # Errors
    /// Also if it does not exist and must not be created, or exists with other options.
    pub fn find(&self, directory: &Directory, name: &MapName) -> Result<Option<Map>> {
        let hold = directory.options().open(directory.resolve(&name.hold)?);
        let map = match hold.and_then(|hold| hold.maps().open(&name.map)) {
            Err(error) if error.is_not_found() && !self.no_create => return Ok(None),
            found => found?,
        };
        match self.map_options() {
            Some(options) if map.options() != &options => Err(other_options(name)),
            _ => Ok(Some(map)),
        }
    }

    /// The error in such a pair for the map that would be created, as far as it is known.
    pub fn fault(&self, key_bytes: usize, value_bytes: usize) -> Option<String> {
        let (key, value) = (key_bytes as u64, value_bytes as u64);
        let both = key.saturating_add(value);
        match (self.fixed, self.cache_max_bytes) {
            (Some((keys, values)), _) if (key, value) != (keys.into(), values.into()) => {
                Some(format!(
                    "--fixed: expected {keys} bytes of key + {values} of value, got {key} + {value}"
                ))
            }
            (_, Some(most)) if both > most => {
                Some(format!("a pair of {both} bytes exceeds the cache's limit of {most} bytes"))
            }
            _ if both > LARGEST_PAIR => {
                Some(format!("expected less than 4 GiB for key and value, got {both} bytes"))
            }
            _ => None,
        }
    }

    /// Fails unless the pairs of the map that would be created have a time to live.
    pub fn ensure_cache(&self) -> Result<()> {
        match self.cache {
            true => Ok(()),
            false => Err(Failure::usage(
                "--ttl applies only to caches, and this map does not exist yet; add --cache to \
                 create one",
            )),
        }
    }

    /// Fails if the options request a fixed-length map, which cannot hold values that grow.
    pub fn ensure_not_fixed(&self) -> Result<()> {
        match self.fixed {
            None => Ok(()),
            Some(_) => Err(Failure::usage("--fixed: a list has no fixed length; omit this option")),
        }
    }

    /// Creates the map, and the hold if that does not exist either.
    pub fn make(&self, directory: &Directory, name: &MapName) -> Result<Map> {
        ensure_name(StructureKind::Map, &name.map)?;
        let hold = self.hold.open_or_create(directory, &name.hold)?;
        let options = self.map_options();
        let made = hold
            .maps()
            .open_or_create(&name.map, options.clone().unwrap_or_else(MapOptions::general));
        match (made, options) {
            // Another process has created it meanwhile, in another mode, which is fine if no mode
            // was requested.
            (Err(error), None) if error.kind() == ErrorKind::Mismatch => {
                Ok(hold.maps().open(&name.map)?)
            }
            (made, _) => Ok(made?),
        }
    }

    /// The options that the map must have, if there are any.
    fn map_options(&self) -> Option<MapOptions> {
        if let Some((key, value)) = self.fixed {
            return Some(MapOptions::fixed(key, value));
        }
        if !self.cache {
            return None;
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
        Some(options.into())
    }
}

fn other_options(name: &MapName) -> Failure {
    Failure::failed(format!(
        "map '{}' exists with other options; 'hold list {}' shows them",
        name.shown(),
        name.hold.display()
    ))
}

/// Fails for a name that no structure in a hold can have.
fn ensure_name(kind: StructureKind, name: &str) -> Result<()> {
    if (1..=LONGEST_NAME).contains(&name.len()) {
        return Ok(());
    }
    let name = text::printable(name);
    Err(Failure::failed(format!(
        "expected a {kind} name of 1 to {LONGEST_NAME} bytes, got '{name}'"
    )))
}
