//! Where the files of a map's journal are, as noted in the hold: an origin of the map finds the
//! changes there that the map's stream no longer has.

use crate::journal::archive::Archive;
use commonhold::map::Map;
use commonhold::{Error, ErrorKind, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The key of the note, in the map of the journal's announcements.
const PLACES: &[u8] = b"places";

/// Notes the path of a journal's file, and the directory of its segments if it keeps any.
///
/// # Errors
/// Those of writing a map.
pub(super) fn note(notes: &Map, path: &Path, archive: Option<&Archive>) -> Result<()> {
    let mut value = path.as_os_str().as_bytes().to_vec();
    if let Some(archive) = archive {
        value.push(0);
        value.extend(archive.directory.as_os_str().as_bytes());
    }
    notes.set(PLACES, value).map(drop)
}

/// The noted file, as the archive that its segments are in; `None` if none is noted.
///
/// # Errors
/// Those of reading a map; `Damaged` if the note is no path.
pub(super) fn noted(notes: &Map) -> Result<Option<Places>> {
    let Some(value) = notes.get(PLACES)? else { return Ok(None) };
    let mut parts =
        value.splitn(2, |byte| *byte == 0).map(|part| Path::new(OsStr::from_bytes(part)));
    let (file, directory) = (parts.next().unwrap_or(Path::new("")), parts.next());
    if !file.is_absolute() {
        let text = format!(
            "'{}' is noted as the file of a journal; expected an absolute path",
            file.display()
        );
        return Err(Error::new(ErrorKind::Damaged, text));
    }
    Ok(Some(Places { file: file.to_owned(), archive: Archive::of(file, directory) }))
}

/// The files of a journal.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) file: std::path::PathBuf,
    pub(super) archive: Archive,
}
