//! The journals of all maps of a hold, in one directory.

use crate::holds::ending::Ending;
use crate::holds::journaled_maps::{JournaledMaps, Place};
use crate::holds::patterns::Patterns;
use crate::journal::catalogue::CatalogueWriter;
use crate::journal::file::{failed, sync_directory};
use crate::journal::target::DirectoryLock;
use crate::journal::{JournalOptions, JournalStatus, Rebuilt};
use commonhold::{Error, ErrorKind, Hold, Result};
use commonhold_io::owned_threads::OwnedThreads;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often it checks which maps there are.
const SCAN: Duration = Duration::from_millis(250);

/// Options of the journals of a hold.
#[derive(Clone, Debug, Default)]
pub struct HoldJournalOptions {
    /// The options of each map's journal. With `replace`, a map gets a new file if its file belongs
    /// to an earlier map of this name; the old file stays. `archive` is one directory for the
    /// segments of all maps; `None` for one directory for each file. If `keep` is set, the files of
    /// a dropped map are removed when that time has passed since it was dropped.
    pub journal: JournalOptions,
    /// Patterns of the names of the maps to record: `*` stands for any characters, `?` for one.
    /// Empty for all maps.
    pub maps: Vec<String>,
    /// Whether maps that exist are dropped in the beginning, and rebuilt from their files.
    pub rebuild: bool,
}

/// Whether a map is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JournalState {
    /// A journal records it.
    Recorded,
    /// It cannot be recorded at the moment, and is tried again.
    Failed,
    /// It is a cache, which has no journal, a replica that has not received its contents yet or has
    /// only the keys of a prefix, or a map that another process is rebuilding.
    Skipped,
}

/// A map of the journals of a hold.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct JournaledMap {
    /// Its name.
    pub name: String,
    /// Whether it is recorded.
    pub state: JournalState,
    /// Why it is not.
    pub reason: Option<String>,
    /// The state of its journal, if it has one.
    pub journal: Option<JournalStatus>,
}

/// The state of the journals of a hold.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct HoldJournalStatus {
    /// The id of their process.
    pub pid: u32,
    /// The directory with their files.
    pub directory: String,
    /// Why the maps cannot be listed, the files of dropped maps cannot be removed, or the catalogue
    /// cannot be compacted.
    pub error: Option<String>,
    /// The maps, by name.
    pub maps: Vec<JournaledMap>,
}

/// The data that all threads share.
pub(super) struct Shared {
    pub(super) ending: Ending,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    maps: BTreeMap<String, Place>,
    error: Option<String>,
}

impl Shared {
    pub(super) fn new() -> Result<Shared> {
        Ok(Shared { ending: Ending::new()?, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_error(&self, error: Option<String>) {
        self.lock().error = error;
    }

    /// Takes out the maps for which this is true.
    pub(super) fn take(&self, mut such: impl FnMut(&str, &Place) -> bool) -> Vec<(String, Place)> {
        self.lock().maps.extract_if(.., |name, place| such(name, place)).collect()
    }

    pub(super) fn put(&self, name: &str, place: Place) {
        let before = self.lock().maps.insert(name.to_owned(), place);
        // Outside the lock.
        drop(before);
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Place>) -> T) -> T {
        change(&mut self.lock().maps)
    }
}

/// Records all maps of a hold, each in a [`Journal`](crate::journal::Journal) with a file of its
/// own in one directory: those that exist, and those that are created while it runs. Channels, logs
/// and queues are not recorded, and neither are caches.
///
/// The journal of a map that is dropped ends, and its file stays: [`rebuild_hold`] restores the
/// maps as they were at an earlier time, without those that did not exist then. A later map of the
/// same name gets another file. A map that cannot be recorded does not affect the others: see
/// [`status`](Self::status).
///
/// Each map needs a thread, a stream, and an open file. Dropping it, forking, and killing its
/// process are as for a [`Journal`](crate::journal::Journal).
///
/// [`rebuild_hold`]: crate::rebuild_hold
pub struct HoldJournal {
    shared: Arc<Shared>,
    directory: PathBuf,
    rebuilt: Vec<(String, Rebuilt)>,
    threads: OwnedThreads,
    /// The thread has the catalogue, and this the lock.
    _lock: DirectoryLock,
}

impl fmt::Debug for HoldJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldJournal").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl HoldJournal {
    /// Begins the journals of all maps, in a directory, which is made if it is missing. First
    /// rebuilds each map that has a file there and is missing in this hold, because the hold was
    /// lost. The map of a replica comes from its origin instead. If the hold had the map already
    /// when its journal ran last, then the map was dropped since, and stays dropped.
    ///
    /// # Errors
    /// `Busy` if another process, or this one, records a hold in the directory; `Damaged` if its
    /// catalogue is damaged; `Invalid` for an empty pattern; `Io` if no thread can be started;
    /// those of files.
    pub fn start(
        hold: &Hold,
        directory: impl AsRef<Path>,
        options: HoldJournalOptions,
    ) -> Result<HoldJournal> {
        let patterns = Patterns::new(&options.maps)?;
        let (directory, options) = located(directory.as_ref(), options)?;
        make(&directory)?;
        let lock = DirectoryLock::take(&directory)?;
        let catalogue = CatalogueWriter::open(&directory)?;
        let shared = Arc::new(Shared::new()?);
        let mut maps = JournaledMaps::new(hold, &directory, options, patterns, catalogue, &shared);
        let threads = OwnedThreads::default();
        let rebuilt = maps.restore();
        let mut this = HoldJournal { shared, directory, rebuilt, threads, _lock: lock };
        maps.scan();
        let shared = Arc::clone(&this.shared);
        let thread = std::thread::Builder::new().name("hold journal".into());
        let spawned = commonhold::fault!("journal.thread").and_then(|()| {
            thread.spawn(move || {
                while !shared.ending.sleep(SCAN) {
                    maps.scan();
                }
            })
        });
        this.threads.push(spawned.map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot start a thread: {error}"))
        })?);
        Ok(this)
    }

    /// The maps that were rebuilt in the beginning, by name.
    pub fn rebuilt(&self) -> &[(String, Rebuilt)] {
        &self.rebuilt
    }

    /// The state of the journals at this moment.
    pub fn status(&self) -> HoldJournalStatus {
        let state = self.shared.lock();
        let maps = state.maps.iter().map(|(name, place)| place.shown(name)).collect();
        HoldJournalStatus {
            pid: std::process::id(),
            directory: self.directory.display().to_string(),
            error: state.error.clone(),
            maps,
        }
    }

    /// Writes all changes of all maps, makes them durable, and ends the threads. Waits for the disk
    /// without limit.
    ///
    /// # Errors
    /// `Io` with the reasons, if not all changes of all maps have become durable.
    pub fn finish(mut self) -> Result<()> {
        match self.end() {
            failures if failures.is_empty() => Ok(()),
            failures => Err(Error::new(ErrorKind::Io, failures.join("; "))),
        }
    }

    /// Ends all journals; the reasons why changes are not durable.
    fn end(&mut self) -> Vec<String> {
        // In a forked child the threads to end belong to the parent.
        if !self.threads.are_here() {
            return Vec::new();
        }
        self.shared.ending.begin();
        self.threads.join();
        let maps = self.shared.change(std::mem::take);
        // All at the same time.
        maps.values().for_each(Place::begin_end);
        let ends = maps
            .into_iter()
            .filter_map(|(name, place)| place.finish().map(|why| format!("map '{name}': {why}")));
        ends.collect()
    }
}

impl Drop for HoldJournal {
    fn drop(&mut self) {
        self.end();
    }
}

/// Absolute paths lead to the files after a change of the working directory, too.
fn located(
    directory: &Path,
    mut options: HoldJournalOptions,
) -> Result<(PathBuf, HoldJournalOptions)> {
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|error| failed(path, "cannot find", &error))
    };
    if let Some(archive) = &mut options.journal.archive {
        *archive = absolute(archive)?;
    }
    Ok((absolute(directory)?, options))
}

fn make(directory: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed(directory, "cannot make this directory", &error));
        }
        _ => {}
    }
    // Its name becomes durable before anything in it is confirmed, also if an earlier process made
    // it and was killed.
    sync_directory(directory).map_err(|e| failed(directory, "cannot sync its directory", &e))
}
