//! Rebuilds a map from its journal after the system has crashed: exactly the map at some position
//! of its stream, which is not before the last position that was announced as durable.
//!
//! It is built as a shadow map, as a replica's map is, and can be written only when it is whole. If
//! a rebuilding is interrupted, run it again.

use crate::journal::JournalOptions;
use crate::journal::file::{Entry, Reader};
use crate::replica::position::{bounds, next_name};
use commonhold::map::{Map, MapOptions};
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind, Hold, Result};
use std::path::Path;

/// The result of [`rebuild`].
#[derive(Clone, Debug, serde::Serialize)]
pub struct Rebuilt {
    /// The position in the stream: the map equals the old map at this position.
    pub position: StreamPosition,
    /// The number of pairs that the journal began with.
    pub pairs: u64,
    /// The number of changes behind the pairs.
    pub changes: u64,
    /// Bytes at the end of the file that are not sound: they had not become durable.
    pub cut_off_bytes: u64,
}

/// The map of notes about the journals that the hold's maps were rebuilt from.
const REBUILT: &str = ".rebuilt";

/// Notes that the map was rebuilt from a journal of the stream `from`.
fn note(hold: &Hold, map: &str, from: u64) -> Result<()> {
    let stream = hold.maps().open(map)?.follow()?.position().stream;
    let notes = hold.maps().open_or_create(REBUILT, MapOptions::general())?;
    notes.set(map, [stream.to_le_bytes(), from.to_le_bytes()].concat()).map(drop)
}

/// Whether the map whose stream is `stream` was rebuilt from a journal of the stream `from`: then
/// it has all changes of that journal.
pub(crate) fn was_rebuilt_from(hold: &Hold, map: &str, stream: u64, from: u64) -> Result<bool> {
    match hold.maps().open(REBUILT) {
        Ok(notes) => {
            let expected = [stream.to_le_bytes(), from.to_le_bytes()].concat();
            Ok(notes.get(map)?.is_some_and(|noted| noted == expected))
        }
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Rebuilds a missing map from its journal. The map gets a stream. A journal may then resume the
/// same file, which it compacts first.
///
/// # Errors
/// `Exists` if there is a map of this name; `Damaged` if the file is not a journal, or too much of
/// it is lost for a whole map; `Full`; those of files.
pub fn rebuild(
    hold: &Hold,
    map: &str,
    path: impl AsRef<Path>,
    options: &JournalOptions,
) -> Result<Rebuilt> {
    let path = path.as_ref();
    ensure_whole(path)?;
    // No other process rebuilds the map, or writes its journal, meanwhile.
    let _slot = commonhold::raw::JournalSlot::take(hold, map)?;
    let mut reader = Reader::open(path)?;
    match hold.maps().open(map) {
        // A process was killed while it rebuilt the map; unless the map is a replica.
        Ok(half) if half.is_replica() && !is_followed(hold, map)? => drop(hold.maps().drop(map)?),
        Ok(_) => {
            let text = format!("map '{map}' exists; drop it first, or rebuild under another name");
            return Err(Error::new(ErrorKind::Exists, text));
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    hold.maps().open_replica(map, MapOptions::from(reader.welcome.mode))?;
    let from = reader.position.stream;
    let result = fill(hold, map, &mut reader).and_then(|rebuilt| {
        hold.maps().begin_stream(map, options.stream_bytes)?;
        note(hold, map, from).map(|()| rebuilt)
    });
    if result.is_err() {
        hold.maps().drop(&next_name(map))?;
        hold.maps().drop(map)?;
        return result;
    }
    hold.maps().promote(map)?;
    result
}

/// Reads a journal to its end, and checks that it is a whole map.
///
/// # Errors
/// `Damaged` if it is not; `NotFound`; those of files.
pub fn ensure_whole(path: impl AsRef<Path>) -> Result<()> {
    let mut reader = Reader::open(path.as_ref())?;
    while reader.next()?.is_some() {}
    if reader.is_complete() {
        return Ok(());
    }
    let text = format!(
        "{}: this journal ends before the map is complete: {} bytes of it are damaged",
        path.as_ref().display(),
        reader.cut_off()
    );
    Err(Error::new(ErrorKind::Damaged, text))
}

/// Whether the map ever was a replica's.
fn is_followed(hold: &Hold, map: &str) -> Result<bool> {
    match bounds(hold, map) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

fn fill(hold: &Hold, name: &str, reader: &mut Reader) -> Result<Rebuilt> {
    let next = commonhold::raw::create_shadow_map(hold, &next_name(name), name)?;
    let (pairs, changes) = apply_all(&next, reader)?;
    if !reader.is_complete() {
        let text = format!(
            "the journal of map '{name}' ends before the map is complete: {} bytes of it are \
             damaged",
            reader.cut_off()
        );
        return Err(Error::new(ErrorKind::Damaged, text));
    }
    commonhold::raw::swap_in_shadow_map(hold, &next_name(name), name)?;
    let (position, cut_off_bytes) = (reader.position, reader.cut_off());
    Ok(Rebuilt { position, pairs, changes, cut_off_bytes })
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
