//! All maps of a hold from the directory with their journals, also as they were at an earlier time.

use crate::holds::journal::HoldJournalOptions;
use crate::holds::patterns::Patterns;
use crate::journal::catalogue::{Catalogue, Life, catalogue_of, file_of, is_damaged};
use crate::journal::{
    JournalOptions, PastState, Rebuilt, find_state, inspect, rebuild, rebuild_state, shown_time,
};
use commonhold::raw::{JournalSlot, open_unready_map};
use commonhold::{Error, ErrorKind, Hold, Result};
use std::path::{Path, PathBuf};

const NOT_YET: &str = "it did not exist yet";
const REMOVED: &str =
    "its files were removed, because it was dropped longer ago than states were kept";

/// The outcome for one map.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RebuildOutcome {
    /// It was rebuilt; with a point in time, from this state.
    Rebuilt(Rebuilt, Option<PastState>),
    /// It did not exist at that time, or was dropped since.
    LeftOut(String),
    /// It could not be rebuilt, for this reason. The other maps do not depend on it.
    Failed(String),
}

/// A map of [`rebuild_hold`].
#[derive(Clone, Debug, serde::Serialize)]
pub struct RebuiltMap {
    /// Its name.
    pub name: String,
    /// The file of its journal.
    pub file: PathBuf,
    /// The outcome.
    pub outcome: RebuildOutcome,
}

/// Rebuilds all maps that have journals in the directory of a
/// [`HoldJournal`](crate::HoldJournal), and match the patterns of the options: their latest states,
/// or with `at_ms`, in milliseconds since 1970, each as it was at that time. Maps that were
/// dropped, or that did not exist at that time, are left out. If
/// [`rebuild`](HoldJournalOptions::rebuild) is set, a map that exists is dropped first. Other maps
/// of the hold stay.
///
/// # Errors
/// `NotFound` if the directory has no catalogue; `Damaged` if its catalogue is damaged, unless
/// [`skip_damaged`](JournalOptions::skip_damaged) is set; `Invalid` for an empty pattern, or a time
/// before the journals began; those of files. Errors of single maps are in the result.
pub fn rebuild_hold(
    hold: &Hold,
    directory: impl AsRef<Path>,
    at_ms: Option<u64>,
    options: &HoldJournalOptions,
) -> Result<Vec<RebuiltMap>> {
    let directory = directory.as_ref();
    let patterns = Patterns::new(&options.maps)?;
    let catalogue = read(directory, at_ms, &options.journal)?;
    let mut maps = Vec::new();
    for (name, lives) in catalogue.maps.iter().filter(|(name, _)| patterns.accept(name)) {
        let Some(found) = find(lives, at_ms) else { continue };
        let (Found::Life(life) | Found::None(life, _) | Found::Removed(life)) = found;
        let file = file_of(directory, name, life.number);
        let outcome = match found {
            Found::None(_, why) => RebuildOutcome::LeftOut(why.to_owned()),
            Found::Removed(_) => RebuildOutcome::Failed(REMOVED.to_owned()),
            Found::Life(_) => match one(hold, name, &file, at_ms, options) {
                Ok((rebuilt, state)) => RebuildOutcome::Rebuilt(rebuilt, state),
                // It had just been created, and its first state was not recorded yet.
                Err(error) if error.kind() == ErrorKind::Invalid && is_new(life, at_ms) => {
                    RebuildOutcome::LeftOut(NOT_YET.to_owned())
                }
                Err(error) => RebuildOutcome::Failed(error.to_string()),
            },
        };
        maps.push(RebuiltMap { name: name.clone(), file, outcome });
    }
    Ok(maps)
}

/// Checks that [`rebuild_hold`] can begin: before a hold is created for it.
///
/// # Errors
/// Those of [`rebuild_hold`], apart from those of the hold.
pub fn ensure_rebuildable(
    directory: impl AsRef<Path>,
    at_ms: Option<u64>,
    options: &HoldJournalOptions,
) -> Result<()> {
    Patterns::new(&options.maps)?;
    read(directory.as_ref(), at_ms, &options.journal).map(drop)
}

fn read(directory: &Path, at_ms: Option<u64>, options: &JournalOptions) -> Result<Catalogue> {
    let catalogue = Catalogue::read(directory)?;
    if catalogue.is_damaged && !options.skip_damaged {
        return Err(is_damaged(directory));
    }
    at_ms.map_or(Ok(()), |at_ms| ensure_recorded(&catalogue, directory, at_ms))?;
    Ok(catalogue)
}

/// Checks that some map was recorded at this time, or before it.
fn ensure_recorded(catalogue: &Catalogue, directory: &Path, at_ms: u64) -> Result<()> {
    let lives = catalogue.maps.values().flatten().filter(|life| life.whole_ms.is_some());
    let first = lives.map(|life| life.begun_ms).min();
    if first.is_some_and(|first| first <= at_ms) {
        return Ok(());
    }
    let since = first.map_or("nothing was recorded yet".to_owned(), |first| {
        format!("nothing was recorded before {}", shown_time(first))
    });
    let text = format!(
        "{}: expected a time that was recorded, got {}: {since}",
        catalogue_of(directory).display(),
        shown_time(at_ms)
    );
    Err(Error::new(ErrorKind::Invalid, text))
}

/// Whether the map was created so shortly before this time that it may not have been recorded yet.
fn is_new(life: &Life, at_ms: Option<u64>) -> bool {
    life.was_created && at_ms.is_some_and(|at_ms| life.whole_ms.is_none_or(|ms| at_ms <= ms))
}

/// The life of a map that counts.
enum Found<'a> {
    Life(&'a Life),
    /// The nearest one, and why none counts.
    None(&'a Life, &'static str),
    /// Its files are gone.
    Removed(&'a Life),
}

/// The life that a map had at this time, or has now; `None` if it never had any.
fn find(lives: &[Life], at_ms: Option<u64>) -> Option<Found<'_>> {
    let (first, last) = (lives.first()?, lives.last()?);
    let Some(at_ms) = at_ms else {
        return Some(match (last.is_on(), last.whole_ms) {
            (true, Some(_)) => Found::Life(last),
            (true, None) => Found::None(last, "nothing of it was recorded yet"),
            (false, _) => Found::None(last, "it was dropped"),
        });
    };
    let begins = |life: &&Life| life.whole_ms.is_some() && life.begun_ms <= at_ms;
    Some(match lives.iter().rfind(begins) {
        Some(life) if life.dropped_ms.is_some_and(|ms| ms <= at_ms) => {
            Found::None(life, "it had been dropped")
        }
        Some(life) if life.is_removed => Found::Removed(life),
        Some(life) => Found::Life(life),
        None if first.was_created => Found::None(first, NOT_YET),
        // Its file has the times that are known.
        None => Found::Life(first),
    })
}

fn one(
    hold: &Hold,
    name: &str,
    file: &Path,
    at_ms: Option<u64>,
    options: &HoldJournalOptions,
) -> Result<(Rebuilt, Option<PastState>)> {
    let state = at_ms.map(|at_ms| find_state(file, at_ms, &options.journal)).transpose()?;
    if state.is_none() {
        inspect(file)?.ensure_usable(&options.journal)?;
    }
    if options.rebuild {
        drop_map(hold, name)?;
    }
    let rebuilt = match &state {
        Some(state) => rebuild_state(hold, name, state, &options.journal),
        None => rebuild(hold, name, file, &options.journal),
    };
    Ok((rebuilt?, state))
}

/// Drops the map, unless it is half rebuilt or a replica.
fn drop_map(hold: &Hold, name: &str) -> Result<()> {
    match open_unready_map(hold, name) {
        Ok(map) if !map.is_replica() => {
            // No journal of the map runs.
            drop(JournalSlot::take(hold, name)?);
            hold.maps().drop(name).map(drop)
        }
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
