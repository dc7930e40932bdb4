//! Rebuilds a map from its journal after the system has crashed: exactly the map at some position
//! of its stream, which is not before the last position that was announced as durable.
//!
//! It is built as a shadow map, as a replica's map is, and can be written only when it is whole. If
//! a rebuilding is interrupted, run it again.

use crate::journal::JournalOptions;
use crate::journal::past::PastState;
use crate::journal::reader::{Entry, Reader};
use crate::journal::run::Runs;
use crate::journal::survey::{Damage, survey};
use crate::lineage;
use crate::replica::position::bounds;
use commonhold::map::{Map, MapOptions};
use commonhold::raw::{
    Incarnation, create_unready_map, incarnation, is_unready, journal_notes, next_name,
    open_unready_map,
};
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};
use std::path::Path;

/// The result of [`rebuild`] and [`rebuild_state`].
#[derive(Clone, Debug, serde::Serialize)]
pub struct Rebuilt {
    /// The position in the stream: the map equals the old map at this position.
    pub position: StreamPosition,
    /// The number of pairs that the journal began with.
    pub pairs: u64,
    /// The number of changes behind the pairs.
    pub changes: u64,
    /// Bytes at the end of the file that are not sound: they had not become durable. 0 if an
    /// earlier state was rebuilt.
    pub cut_off_bytes: u64,
    /// The damaged parts that were skipped.
    pub damage: Vec<Damage>,
}

/// Rebuilds a missing map from its journal. The map gets a stream. A journal may then resume the
/// same file, which it compacts first.
///
/// # Errors
/// `Exists` if there is a map of this name; `Damaged` if the file is not a journal, if too much of
/// it is lost for a whole map, or if a part that was durable is damaged, unless
/// [`skip_damaged`](JournalOptions::skip_damaged) is set; `Full`; those of files.
pub fn rebuild(
    hold: &Hold,
    map: &str,
    path: impl AsRef<Path>,
    options: &JournalOptions,
) -> Result<Rebuilt> {
    let path = path.as_ref();
    let (_, contents) = survey(path)?;
    contents.ensure_usable(options)?;
    rebuild_from(hold, map, path, None, contents.damage, options)
}

/// Rebuilds a missing map as it was in an earlier state. The map gets a stream. A journal does not
/// continue the file, which has changes that the map lacks.
///
/// # Errors
/// As for [`rebuild`]; `Damaged`, too, if the file has changed since the state was found.
pub fn rebuild_state(
    hold: &Hold,
    map: &str,
    state: &PastState,
    options: &JournalOptions,
) -> Result<Rebuilt> {
    rebuild_from(hold, map, &state.file, Some(state), state.damage.clone(), options)
}

/// Rebuilds a map from a file, or from the part of it that leads to a state.
fn rebuild_from(
    hold: &Hold,
    map: &str,
    path: &Path,
    state: Option<&PastState>,
    damage: Vec<Damage>,
    options: &JournalOptions,
) -> Result<Rebuilt> {
    // No other process rebuilds the map, or writes its journal, meanwhile.
    let slot = commonhold::raw::JournalSlot::take(hold, map)?;
    let mut reader = Reader::open(path)?;
    reader.skip(&damage);
    state.into_iter().for_each(|state| reader.trust_only(state.bytes));
    match open_unready_map(hold, map) {
        // A process was killed while it rebuilt the map; unless the map is a replica.
        Ok(half) if is_half_rebuilt(hold, &slot.notes(), &half)? => {
            hold.maps().drop(map)?;
        }
        Ok(_) => {
            let text = format!("map '{map}' exists; drop it first, or rebuild under another name");
            return Err(Error::new(ErrorKind::Exists, text));
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    // Nobody reads the map before it is whole.
    create_unready_map(hold, map, MapOptions::from(reader.welcome.mode))?;
    let result = fill(hold, &slot.notes(), map, &mut reader, damage);
    let result = result.and_then(|rebuilt| {
        ensure_read(map, &reader, state)?;
        hold.maps().begin_stream(map, options.stream_bytes)?;
        let runs = Runs::new(hold, slot.notes(), &hold.maps().open(map)?);
        if let Some(lineage) = reader.lineage() {
            lineage::rebuilt(hold, map, lineage)?;
        }
        runs.note_rebuilt(reader.run(), rebuilt.position).map(|()| rebuilt)
    });
    if result.is_err() {
        // The first error counts. The next rebuilding removes what stays here.
        let _ = hold.maps().drop(&next_name(map));
        let _ = hold.maps().drop(map);
        return result;
    }
    hold.maps().promote(map)?;
    result
}

/// The key of the note which map is being rebuilt, in the map of the journal's announcements.
const REBUILDING: &str = "rebuilding";

/// The incarnation of a map, as a note.
fn note_of(map: &Map) -> Vec<u8> {
    let Incarnation { root, number } = incarnation(map);
    [root, number].map(u64::to_le_bytes).concat()
}

/// Whether a rebuilding that was interrupted made this map, which nobody has written to since. It
/// has no contents yet, or it is the map that took the other one's place.
pub(crate) fn is_half_rebuilt(hold: &Hold, notes: &Map, map: &Map) -> Result<bool> {
    if !map.is_replica() || is_followed(hold, map.name())? {
        return Ok(false);
    }
    Ok(is_unready(map) || notes.get(REBUILDING)? == Some(note_of(map)))
}

/// As [`is_half_rebuilt`], for a map that may never have had a journal.
pub(crate) fn is_interrupted(hold: &Hold, map: &Map) -> Result<bool> {
    match journal_notes(hold, map.name())?.filter(|_| map.is_replica()) {
        Some(notes) => is_half_rebuilt(hold, &notes, map),
        None => Ok(false),
    }
}

/// The error about a map whose rebuilding was interrupted.
#[cold]
pub(crate) fn interrupted(map: &str) -> Error {
    let text = format!(
        "map '{map}' was being rebuilt from a journal, which was interrupted; rebuild it again \
         ('hold journal rebuild'), or drop it"
    );
    Error::new(ErrorKind::Mismatch, text)
}

/// Whether the map ever was a replica's.
fn is_followed(hold: &Hold, map: &str) -> Result<bool> {
    match bounds(hold, map) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Checks that it is the file in which a state was found, and had all bytes of that state.
fn ensure_read(name: &str, reader: &Reader, state: Option<&PastState>) -> Result<()> {
    let has =
        |state: &PastState| (reader.identity, reader.sound()) == (state.identity, state.bytes);
    if state.is_none_or(has) {
        return Ok(());
    }
    let text = format!(
        "{}: this file of map '{name}' was changed while it was read; rebuild the map again",
        reader.path().display()
    );
    Err(Error::new(ErrorKind::Damaged, text))
}

fn fill(
    hold: &Hold,
    notes: &Map,
    name: &str,
    reader: &mut Reader,
    damage: Vec<Damage>,
) -> Result<Rebuilt> {
    let next = commonhold::raw::create_shadow_map(hold, &next_name(name), name)?;
    notes.set(REBUILDING, note_of(&next))?;
    let (pairs, changes) = apply_all(&next, reader)?;
    if !reader.is_complete() && damage.is_empty() {
        let text = format!(
            "the journal of map '{name}' was shortened while it was read; rebuild the map again"
        );
        return Err(Error::new(ErrorKind::Damaged, text));
    }
    commonhold::raw::swap_in_shadow_map(hold, &next_name(name), name)?;
    let (position, cut_off_bytes) = (reader.position(), reader.cut_off());
    Ok(Rebuilt { position, pairs, changes, cut_off_bytes, damage })
}

fn apply_all(map: &Map, reader: &mut Reader) -> Result<(u64, u64)> {
    let (mut pairs, mut changes) = (0, 0);
    while let Some(entry) = reader.next()? {
        let Entry::Frame(frame) = entry else { continue };
        match frame.change() {
            Some(change) => {
                map.apply_frame(&change)?;
                changes += 1;
            }
            None => {
                map.set(frame.key, frame.value)?;
                pairs += 1;
            }
        }
    }
    Ok((pairs, changes))
}
