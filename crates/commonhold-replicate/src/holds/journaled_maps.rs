//! The maps of a hold that are recorded: found by name, each with a journal of its own.
//!
//! Invariants: an event is in the catalogue before the file that it is about exists, and no lock is
//! held while a journal starts or ends, which may take long.

use crate::growing_pause::GrowingPause;
use crate::holds::dropped_files::DroppedFiles;
use crate::holds::journal::{HoldJournalOptions, JournalState, JournaledMap, Shared};
use crate::holds::missing::dropped;
use crate::holds::patterns::Patterns;
use crate::journal::catalogue::{CatalogueWriter, Event, Life, file_of};
use crate::journal::rebuild::{interrupted, is_half_rebuilt, is_interrupted};
use crate::journal::{Journal, JournalOptions, JournalStatus, Rebuilt, inspect, rebuild};
use crate::lineage;
use crate::protocol::wire::now_ms;
use commonhold::map::{Map, MapMode};
use commonhold::raw::{
    JournalSlot, MapIdentity, is_unready, map_identity, map_names, open_unready_map,
};
use commonhold::{ErrorKind, Hold, Result};
use commonhold_io::reports::Reporter;
use commonhold_io::thread_patience::with_patience;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The identity of no map of any hold.
const NOWHERE: MapIdentity = [0; 32];
/// How long starting one journal may wait for a stopped process.
const PATIENCE: Duration = Duration::from_secs(1);
/// When a journal that could not start is started again; twice as long after each attempt.
const AGAIN: Duration = Duration::from_secs(2);
/// The longest such time: an attempt may read the whole file.
const AGAIN_AT_MOST: Duration = Duration::from_secs(300);

/// Why maps are skipped for a while.
const NOT_RECEIVED: &str = "it has not received its contents yet";
const BEING_REBUILT: &str = "another process is rebuilding it";

/// A map, as far as it is recorded.
pub(super) enum Place {
    Recorded(Recorded),
    Failed(Box<Failed>),
    /// Why it has no journal.
    Skipped(&'static str),
}

/// A map with a journal.
pub(super) struct Recorded {
    journal: Journal,
    life: Life,
}

/// A map that cannot be recorded.
pub(super) struct Failed {
    status: JournalStatus,
    why: String,
    /// When it is tried again, if the map exists.
    again: Instant,
    /// The times between the next attempts.
    pause: GrowingPause,
    reporter: Option<Reporter>,
}

impl Place {
    pub(super) fn shown(&self, name: &str) -> JournaledMap {
        let (state, reason, journal) = match self {
            Place::Recorded(recorded) => {
                (JournalState::Recorded, None, Some(recorded.journal.status()))
            }
            Place::Failed(failed) => (JournalState::Failed, Some(failed.why.clone()), None),
            Place::Skipped(why) => (JournalState::Skipped, Some((*why).to_owned()), None),
        };
        JournaledMap { name: name.to_owned(), state, reason, journal }
    }

    /// Requests the end of the journal.
    pub(super) fn begin_end(&self) {
        if let Place::Recorded(recorded) = self {
            recorded.journal.begin_end();
        }
    }

    /// Ends the journal; the reason why changes are not durable.
    pub(super) fn finish(self) -> Option<String> {
        match self {
            Place::Recorded(recorded) => {
                recorded.journal.finish().err().map(|error| error.to_string())
            }
            Place::Failed(failed) => Some(failed.why),
            Place::Skipped(_) => None,
        }
    }
}

/// See the module.
pub(super) struct JournaledMaps {
    hold: Hold,
    directory: PathBuf,
    options: HoldJournalOptions,
    patterns: Patterns,
    catalogue: CatalogueWriter,
    shared: Arc<Shared>,
    /// A map that is found later was created while the journal ran.
    is_first_scan: bool,
    dropped_files: DroppedFiles,
    /// The maps that this hold still had when the catalogue noted that it no longer has them.
    moved: BTreeSet<String>,
    /// Why the catalogue cannot be rewritten.
    catalogue_error: Option<String>,
}

impl JournaledMaps {
    pub(super) fn new(
        hold: &Hold,
        directory: &Path,
        options: HoldJournalOptions,
        patterns: Patterns,
        catalogue: CatalogueWriter,
        shared: &Arc<Shared>,
    ) -> JournaledMaps {
        let dropped_files = DroppedFiles::new(directory, &options.journal, &catalogue.catalogue);
        JournaledMaps {
            hold: hold.clone(),
            directory: directory.to_owned(),
            options,
            patterns,
            catalogue,
            shared: Arc::clone(shared),
            is_first_scan: true,
            dropped_files,
            moved: BTreeSet::new(),
            catalogue_error: None,
        }
    }

    /// Rebuilds the maps that the hold has lost; the names of those that were rebuilt.
    pub(super) fn restore(&mut self) -> Vec<(String, Rebuilt)> {
        let present = |(name, lives): (&String, &Vec<Life>)| {
            let life = lives.last().filter(|life| life.is_on() && self.patterns.accept(name))?;
            Some((name.clone(), life.clone()))
        };
        let lives: Vec<_> = self.catalogue.catalogue.maps.iter().filter_map(present).collect();
        let mut all = Vec::new();
        for (name, life) in lives {
            match self.restore_one(&name, &life, self.options.rebuild) {
                Ok(rebuilt) => all.extend(rebuilt.map(|rebuilt| (name, rebuilt))),
                Err(error) => self.put_failed(&name, life.number, error.to_string()),
            }
        }
        all
    }

    /// Rebuilds a map if the hold has lost it, or if the existing map is to be replaced.
    fn restore_one(&mut self, name: &str, life: &Life, replaces: bool) -> Result<Option<Rebuilt>> {
        let file = file_of(&self.directory, name, life.number);
        let (is_there, is_half, is_interrupted) = match open_unready_map(&self.hold, name) {
            Ok(map) if map.is_replica() => {
                if life.is_in(self.hold.uuid()) && is_interrupted(&self.hold, &map)? {
                    // This is noted before another process has the slot: if that process fails and
                    // drops the map, it must not seem that the user has dropped it.
                    self.catalogue.note(name, life.number, Event::Moved, NOWHERE)?;
                    self.moved.insert(name.to_owned());
                }
                let notes = JournalSlot::take(&self.hold, name)?.notes();
                let is_interrupted = is_half_rebuilt(&self.hold, &notes, &map)?;
                (false, is_interrupted || is_unready(&map), is_interrupted)
            }
            Ok(_) => (true, false, false),
            Err(error) if error.is_not_found() => (false, true, false),
            Err(error) => return Err(error),
        };
        let is_lost = is_interrupted || !(is_there || life.is_in(self.hold.uuid()));
        let is_wanted = is_lost || self.options.rebuild && (replaces || !is_there);
        // Without a file, the map was lost before anything of it was durable.
        let has_file = life.whole_ms.is_some() || file.exists();
        if !is_wanted || !(is_there || is_half) || !has_file {
            return Ok(None);
        }
        let contents = inspect(&file)?;
        if contents.of_replica && !self.options.rebuild {
            // The replica brings the map.
            return Ok(None);
        }
        if is_there {
            contents.ensure_usable(&self.options.journal)?;
            // No journal of the map runs.
            drop(JournalSlot::take(&self.hold, name)?);
        }
        if is_there || life.is_in(self.hold.uuid()) {
            // From now on it counts as lost: if the rebuilding fails, or the process is killed, the
            // next one rebuilds the map. Otherwise it would seem that the user had dropped it.
            self.catalogue.note(name, life.number, Event::Moved, NOWHERE)?;
        }
        if is_there {
            self.hold.maps().drop(name)?;
        }
        let rebuilt = rebuild(&self.hold, name, &file, &self.options.journal)?;
        let of = map_identity(&self.hold.maps().open(name)?);
        self.catalogue.note(name, life.number, Event::Moved, of)?;
        Ok(Some(rebuilt))
    }

    /// Ends the journals of maps that are gone, and starts those of new maps.
    pub(super) fn scan(&mut self) {
        let names: BTreeSet<String> = match map_names(&self.hold) {
            Ok(names) => names.into_iter().filter(|name| self.patterns.accept(name)).collect(),
            Err(error) => return self.shared.has_error(Some(error.to_string())),
        };
        self.end_others(&names);
        for name in self.due(names) {
            if self.shared.ending.is_over() {
                return;
            }
            self.begin(&name);
        }
        self.is_first_scan = false;
        self.note_whole();
        self.dropped_files.remove_if_due(&mut self.catalogue);
        self.compact_catalogue();
        self.shared.has_error(self.dropped_files.error.clone().or(self.catalogue_error.clone()));
        self.report();
    }

    /// Ends the journals of maps that were dropped.
    fn end_others(&mut self, names: &BTreeSet<String>) {
        // First: when the map is no longer shown, the catalogue has the event.
        self.note_dropped(names);
        let gone = self.shared.take(|name, place| match place {
            Place::Recorded(recorded) => recorded.journal.is_over(),
            Place::Skipped(_) => !names.contains(name),
            Place::Failed(_) => false,
        });
        for (name, place) in gone {
            let Place::Recorded(Recorded { journal, life }) = place else { continue };
            let error = journal.status().error;
            let there = open_unready_map(&self.hold, &name);
            // Otherwise another map has the name, and gets a life of its own.
            if there.is_ok_and(|map| map_identity(&map) == life.of) {
                let why = error.unwrap_or_else(|| "its journal has ended".to_owned());
                self.put_failed(&name, life.number, why);
            }
        }
    }

    /// Notes that the maps were dropped that this hold had, and that it no longer has.
    fn note_dropped(&mut self, names: &BTreeSet<String>) {
        let uuid = self.hold.uuid();
        let is_gone = |(name, lives): (&String, &Vec<Life>)| {
            let life = lives.last().filter(|life| life.is_on() && self.patterns.accept(name))?;
            let is_lost =
                life.whole_ms.is_none() && !file_of(&self.directory, name, life.number).exists();
            let is_dropped = !names.contains(name) && (life.is_in(uuid) || is_lost);
            is_dropped.then(|| (name.clone(), life.clone()))
        };
        let gone = self.catalogue.catalogue.maps.iter().filter_map(is_gone).collect();
        // If the journal ends meanwhile, the next one finds out.
        for (name, life) in dropped(&self.hold, &self.shared.ending, gone, |(name, _)| name) {
            match self.catalogue.note(&name, life.number, Event::Dropped, life.of) {
                Ok(()) => drop(self.shared.take(|other, _| *other == *name)),
                Err(error) => self.put_failed(&name, life.number, error.to_string()),
            }
        }
        // Others that failed before they had a file. The rest waits in the hold that was lost.
        let catalogue = &self.catalogue.catalogue;
        drop(self.shared.take(|name, place| {
            let is_failed = matches!(place, Place::Failed(_));
            is_failed && !names.contains(name) && catalogue.present(name).is_none()
        }));
    }

    /// The maps whose journals have to be started.
    fn due(&self, names: BTreeSet<String>) -> Vec<String> {
        let now = Instant::now();
        self.shared.change(|maps| {
            let is_due = |name: &String| match maps.get(name) {
                None => true,
                Some(Place::Recorded(_)) => false,
                // An ordinary map may take the place of a replica, in one step.
                Some(Place::Skipped(_)) => true,
                Some(Place::Failed(failed)) => now >= failed.again,
            };
            names.into_iter().filter(is_due).collect()
        })
    }

    /// Starts the journal of a map.
    fn begin(&mut self, name: &str) {
        match self.place_of(name) {
            Ok(place) => self.shared.put(name, place),
            // The next scan finds out.
            Err(error) if error.is_not_found() && open_unready_map(&self.hold, name).is_err() => {}
            Err(error) => {
                let life = self.catalogue.catalogue.present(name).map_or(1, |life| life.number);
                self.put_failed(name, life, error.to_string());
            }
        }
    }

    /// A map with its journal, which begins, or the reason why it has none.
    fn place_of(&mut self, name: &str) -> Result<Place> {
        let mut map = open_unready_map(&self.hold, name)?;
        if with_patience(PATIENCE, || is_interrupted(&self.hold, &map))? {
            if let Some(why) = self.rebuild_again(&map)? {
                return Ok(Place::Skipped(why));
            }
            map = open_unready_map(&self.hold, name)?;
        }
        if is_unready(&map) {
            return Ok(Place::Skipped(NOT_RECEIVED));
        }
        if matches!(map.options().mode(), MapMode::Cache { .. }) {
            self.skip(name, map_identity(&map))?;
            return Ok(Place::Skipped("it is a cache, which may evict pairs at any time"));
        }
        if !lineage::prefix_of(&self.hold, &map)?.is_of_all() {
            return Ok(Place::Skipped("it is a replica that has only the keys of a prefix"));
        }
        self.start(name, &map).map(Place::Recorded)
    }

    /// Repeats a rebuilding that was interrupted. Returns the reason if the map has to wait for
    /// another process.
    ///
    /// # Errors
    /// `Mismatch` if no journal of the hold has the map; those of files, and of rebuilding. The
    /// catalogue keeps the life of the map in any case: no other file has its changes.
    fn rebuild_again(&mut self, map: &Map) -> Result<Option<&'static str>> {
        let name = map.name();
        let was_looked_at = |places: &mut BTreeMap<String, Place>| {
            matches!(places.get(name), Some(Place::Skipped(NOT_RECEIVED)))
        };
        if is_unready(map) && self.shared.change(was_looked_at) {
            // According to its file, a replica brings it. Reading the whole file again would give
            // the same result.
            return Ok(Some(NOT_RECEIVED));
        }
        let life = self.catalogue.catalogue.present(name).cloned();
        let again = |life| with_patience(PATIENCE, || self.restore_one(name, &life, false));
        match life.map_or(Ok(None), again) {
            Ok(Some(_)) => Ok(None),
            Ok(None) if is_unready(map) => Ok(Some(NOT_RECEIVED)),
            Ok(None) => Err(interrupted(name)),
            Err(error) if error.kind() == ErrorKind::Busy => Ok(Some(BEING_REBUILT)),
            Err(error) => Err(error),
        }
    }

    /// Notes that a map was dropped, if one without a journal has its name now.
    fn skip(&mut self, name: &str, of: MapIdentity) -> Result<()> {
        let Some(life) = self.catalogue.catalogue.present(name).cloned() else { return Ok(()) };
        if !life.is_in(self.hold.uuid()) || life.of == of {
            return Ok(());
        }
        self.catalogue.note(name, life.number, Event::Dropped, life.of)
    }

    fn start(&mut self, name: &str, map: &Map) -> Result<Recorded> {
        let of = map_identity(map);
        let Some(life) = self.catalogue.catalogue.present(name).cloned() else {
            return self.start_anew(name, of);
        };
        // A replica brings its map into a new hold, too.
        let was_here = life.is_in(self.hold.uuid()) || self.moved.contains(name);
        let is_of_present = was_here || map.is_replica();
        let is_other = is_of_present && life.of != of;
        match self.start_in(name, &life, of) {
            // The map was dropped, and created again, while no journal ran. Or its replica has
            // copied it again, perhaps in an earlier state.
            Err(error)
                if error.kind() == ErrorKind::Mismatch
                    && (self.options.journal.replace || is_other) =>
            {
                self.catalogue.note(name, life.number, Event::Dropped, life.of)?;
                self.start_anew(name, of)
            }
            started => started,
        }
    }

    /// Begins a life of the map, with a file of its own.
    fn start_anew(&mut self, name: &str, of: MapIdentity) -> Result<Recorded> {
        let event = if self.is_first_scan { Event::Found } else { Event::Created };
        let life = self.catalogue.begin(name, event, of)?;
        self.start_in(name, &life, of)
    }

    /// Starts the journal with the file of this life.
    fn start_in(&mut self, name: &str, life: &Life, of: MapIdentity) -> Result<Recorded> {
        let options = JournalOptions { replace: false, ..self.options.journal.clone() };
        let file = file_of(&self.directory, name, life.number);
        let start = || Journal::start(&self.hold, name, &file, options);
        let journal = with_patience(PATIENCE, start)?;
        if life.of != of {
            self.catalogue.note(name, life.number, Event::Moved, of)?;
        }
        Ok(Recorded { journal, life: Life { of, ..life.clone() } })
    }

    /// Notes that a map cannot be recorded at the moment.
    fn put_failed(&self, name: &str, life: u64, why: String) {
        let file = file_of(&self.directory, name, life);
        let error = Some(why.clone());
        let status =
            JournalStatus { error, ..JournalStatus::new(&file, self.options.journal.sync) };
        let reporter = Reporter::new(&self.hold, "journal", name).ok();
        let mut pause = self.shared.change(|maps| match maps.get(name) {
            Some(Place::Failed(failed)) => failed.pause,
            _ => GrowingPause::new(AGAIN, AGAIN_AT_MOST),
        });
        let again = Instant::now() + pause.after_failure();
        let failed = Failed { status, why, again, pause, reporter };
        self.shared.put(name, Place::Failed(Box::new(failed)));
    }

    /// Notes for each map that is recorded that its file is whole, when it is.
    fn note_whole(&mut self) {
        let waits = |(name, place): (&String, &Place)| match place {
            Place::Recorded(Recorded { life, .. }) if life.whole_ms.is_none() => {
                Some((name.clone(), life.clone()))
            }
            _ => None,
        };
        let waiting: Vec<_> = self.shared.change(|maps| maps.iter().filter_map(waits).collect());
        for (name, life) in waiting {
            let is_whole = file_of(&self.directory, &name, life.number).exists();
            let mut note = || self.catalogue.note(&name, life.number, Event::Whole, life.of);
            // If that fails, the next scan tries it again.
            if !is_whole || note().is_err() {
                continue;
            }
            self.shared.change(|maps| {
                if let Some(Place::Recorded(recorded)) = maps.get_mut(&name) {
                    recorded.life.whole_ms = Some(now_ms());
                }
            });
        }
    }

    /// Rewrites the catalogue if most of its events are about maps without files.
    fn compact_catalogue(&mut self) {
        let (directory, dropped_files) = (&self.directory, &self.dropped_files);
        let is_over = |name: &str, life: &Life| match life.is_removed {
            true => !dropped_files.has_left(name, life.number),
            // It was dropped before its file was whole.
            false => {
                let never_was_whole = !life.is_on() && life.whole_ms.is_none();
                never_was_whole && !file_of(directory, name, life.number).exists()
            }
        };
        match self.catalogue.compact_if_due(is_over) {
            Ok(false) => {}
            Ok(true) => self.catalogue_error = None,
            Err(error) => self.catalogue_error = Some(error.to_string()),
        }
    }

    /// Writes the reports of the maps that cannot be recorded; journals report themselves.
    fn report(&self) {
        self.shared.change(|maps| {
            for place in maps.values_mut() {
                let Place::Failed(failed) = place else { continue };
                let Failed { status, reporter, .. } = &mut **failed;
                if let Some(reporter) = reporter {
                    reporter.report(false, || status.clone());
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;
