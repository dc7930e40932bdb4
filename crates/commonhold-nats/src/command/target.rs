//! The hold of a subcommand, and the structure in it.

use commonhold::hold::resolve;
use commonhold::{Hold, HoldOptions};
use commonhold_terminal::failure::Result;
use commonhold_terminal::sizes;
use std::path::PathBuf;
use std::time::Duration;

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

/// The channel of a subcommand.
#[derive(clap::Args, Debug, Clone)]
pub struct ChannelName {
    /// The hold: a bare name (a hold in memory), or a path that contains a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    pub hold: PathBuf,

    /// The channel in the hold
    #[arg(value_name = "CHANNEL")]
    pub channel: String,
}

/// The channel or the queue of a subcommand.
#[derive(clap::Args, Debug, Clone)]
pub struct TargetName {
    /// The hold: a bare name (a hold in memory), or a path that contains a slash or ends in .hold
    #[arg(value_name = "HOLD")]
    pub hold: PathBuf,

    /// The channel in the hold; with --to, the queue
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// The directory of bare names.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct Directory {
    /// Directory for holds with bare names [default: $COMMONHOLD_DIR or /dev/shm]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    directory: Option<PathBuf>,

    /// Maximum time to wait for a lock whose holder is suspended [default: no limit]
    #[arg(long, global = true, value_name = "TIME", help_heading = "Global options")]
    #[arg(value_parser = sizes::wait)]
    lock_timeout: Option<Duration>,
}

impl Directory {
    fn options(&self) -> HoldOptions {
        self.lock_timeout.into_iter().fold(Hold::options(), HoldOptions::lock_timeout)
    }

    /// Opens a hold that exists.
    ///
    /// # Errors
    /// Those of opening.
    pub fn open(&self, name: &PathBuf) -> Result<Hold> {
        Ok(self.options().open(resolve(name, self.directory.as_deref())?)?)
    }

    /// Opens a hold that exists, only for reading.
    ///
    /// # Errors
    /// Those of opening.
    pub fn open_to_read(&self, name: &PathBuf) -> Result<Hold> {
        let path = resolve(name, self.directory.as_deref())?;
        Ok(self.options().read_only(true).open(path)?)
    }

    /// Opens a hold, or creates it.
    ///
    /// # Errors
    /// Those of opening and creating.
    pub fn open_or_create(&self, name: &PathBuf) -> Result<Hold> {
        Ok(self.options().open_or_create(resolve(name, self.directory.as_deref())?)?)
    }
}
