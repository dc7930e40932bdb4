//! The files of maps that were dropped: they are removed when their states need not be kept any
//! longer.
//!
//! Invariant: the catalogue has the event before a file is removed, and keeps it until the files
//! are gone. So a removal that fails is repeated, also by the next process.

use crate::growing_pause::GrowingPause;
use crate::journal::JournalOptions;
use crate::journal::archive::Archive;
use crate::journal::catalogue::{Catalogue, CatalogueWriter, Event, Life, file_of};
use crate::journal::file::failed;
use crate::protocol::wire::now_ms;
use commonhold::Result;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often old files are removed.
const EVERY: Duration = Duration::from_secs(60);
/// The pause after a removal that has failed; twice as long after each further one.
const AGAIN: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct DroppedFiles {
    directory: PathBuf,
    archive: Option<PathBuf>,
    keep: Option<Duration>,
    /// Maps, with the numbers of their lives, whose files may still be there although the catalogue
    /// states that they were removed.
    left: Vec<(String, u64)>,
    due: Instant,
    pause: GrowingPause,
    /// The time of the clock when the journal began.
    begun: (u64, Instant),
    /// Why files cannot be removed.
    pub(super) error: Option<String>,
}

impl DroppedFiles {
    /// Those in a directory. An earlier process may not have removed all that it was to remove.
    pub(super) fn new(
        directory: &Path,
        options: &JournalOptions,
        catalogue: &Catalogue,
    ) -> DroppedFiles {
        let removed = |life: &&Life| life.is_removed;
        let left = catalogue.maps.iter().flat_map(|(name, lives)| {
            lives.iter().filter(removed).map(|life| (name.clone(), life.number))
        });
        DroppedFiles {
            directory: directory.to_owned(),
            archive: options.archive.clone(),
            keep: options.keep,
            left: left.collect(),
            due: Instant::now(),
            pause: GrowingPause::new(AGAIN, EVERY),
            begun: (now_ms(), Instant::now()),
            error: None,
        }
    }

    /// Removes the files of maps that were dropped longer ago than states have to be kept.
    pub(super) fn remove_if_due(&mut self, catalogue: &mut CatalogueWriter) {
        if Instant::now() < self.due {
            return;
        }
        self.error = None;
        for (name, life) in self.old(&catalogue.catalogue) {
            // First: a state that cannot be restored any more must not seem to be lost.
            match catalogue.note(&name, life.number, Event::Removed, life.of) {
                Ok(()) => self.left.push((name, life.number)),
                Err(error) => self.error = Some(error.to_string()),
            }
        }
        for (name, life) in std::mem::take(&mut self.left) {
            if let Err(error) = self.remove(&name, life) {
                self.error = Some(error.to_string());
                self.left.push((name, life));
            }
        }
        let pause = match &self.error {
            Some(_) => self.pause.after_failure(),
            None => {
                self.pause.reset();
                EVERY
            }
        };
        self.due = Instant::now() + pause;
    }

    /// Whether the files of this life may still be there, although they were to be removed.
    pub(super) fn has_left(&self, name: &str, life: u64) -> bool {
        self.left.iter().any(|(other, number)| (other.as_str(), *number) == (name, life))
    }

    fn old(&self, catalogue: &Catalogue) -> Vec<(String, Life)> {
        let Some(keep) = self.keep else { return Vec::new() };
        // A clock that was set forward must not remove the history.
        let (begun_ms, begun) = self.begun;
        let now_ms = now_ms().min(begun_ms.saturating_add(milliseconds(begun.elapsed())));
        let limit_ms = now_ms.saturating_sub(milliseconds(keep));
        let is_old =
            |life: &&Life| !life.is_removed && life.dropped_ms.is_some_and(|ms| ms < limit_ms);
        let old = catalogue.maps.iter().flat_map(|(name, lives)| {
            lives.iter().filter(is_old).map(|life| (name.clone(), life.clone()))
        });
        old.collect()
    }

    fn remove(&self, name: &str, life: u64) -> Result<()> {
        let file = file_of(&self.directory, name, life);
        // The segments first: whose they are is in the file.
        Archive::of(&file, self.archive.as_deref()).clear(&file)?;
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed(&file, "cannot be removed", &error))
            }
            _ => Ok(()),
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
