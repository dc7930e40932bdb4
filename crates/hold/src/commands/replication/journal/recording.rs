//! The options of a journal, of one map or of each map of a hold.

use commonhold_replicate::journal::{JournalOptions, SyncPolicy};
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::sizes;
use std::path::PathBuf;
use std::time::Duration;

/// See the module.
#[derive(clap::Args, Debug)]
pub struct Recording {
    /// Milliseconds, after '--sync every-ms'
    #[arg(value_name = "N", hide = true)]
    milliseconds: Option<u64>,

    /// When to sync changes to disk: after each change (always), every N milliseconds (every-ms N),
    /// or never
    #[arg(long, value_name = "always|never|every-ms N", default_value = "always")]
    sync: String,

    /// Size of the map's stream, which limits how far the journal may fall behind; without this
    /// option, an existing stream keeps its size, and a new one is 64M
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, default_value = "0")]
    #[arg(hide_default_value = true)]
    stream_size: u64,

    /// Compact the file whenever it has doubled in size, unless it is smaller than this
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, default_value = "16M")]
    compact_size: u64,

    /// Drop the map if it exists, and rebuild it from its file
    #[arg(long, conflicts_with = "replace")]
    pub rebuild: bool,

    /// If a part of the file is damaged, rebuild the map without that part
    #[arg(long, conflicts_with = "replace")]
    skip_damaged: bool,

    /// Keep earlier states of the map for this long, in segments
    #[arg(long, value_name = "TIME", value_parser = sizes::wait)]
    keep: Option<Duration>,

    /// The directory for the segments, on the same file system as FILE [default: FILE.d]
    #[arg(long, value_name = "DIR", requires = "keep")]
    archive: Option<PathBuf>,

    /// Begin a new segment after this time if the map has changed
    #[arg(long, value_name = "TIME", value_parser = sizes::wait, default_value = "1h")]
    #[arg(requires = "keep")]
    segment_time: Duration,
}

impl Recording {
    /// The options; `arguments` are those that the command expects.
    pub fn options(&self, arguments: &str) -> Result<JournalOptions> {
        Ok(JournalOptions {
            sync: self.policy(arguments)?,
            stream_bytes: self.stream_size,
            compact_bytes: self.compact_size,
            replace: false,
            skip_damaged: self.skip_damaged,
            keep: self.keep,
            archive: self.archive.clone(),
            segment_time: self.segment_time,
        })
    }

    fn policy(&self, arguments: &str) -> Result<SyncPolicy> {
        let text = match (&*self.sync, self.milliseconds) {
            ("every-ms", Some(number)) => format!("every-ms={number}"),
            (_, Some(number)) => {
                let text = format!("expected the arguments {arguments}, got one more: '{number}'");
                return Err(Failure::usage(text));
            }
            (text, None) => text.to_owned(),
        };
        text.parse().map_err(|error| Failure::usage(format!("--sync: {error}")))
    }
}
