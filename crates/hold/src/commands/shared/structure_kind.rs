//! The kind of a named structure in a hold: a map, a queue, a channel or a log, if it exists.

use commonhold::Hold;
use commonhold::hold::StructureKind;
use commonhold_terminal::failure::Result;
use std::path::Path;

/// The kind of the structure with this name, if there is one.
pub fn kind_of(hold: &Hold, name: &str) -> Result<Option<StructureKind>> {
    if let Some(other) = hold.structures()?.into_iter().find(|other| other.name == name) {
        return Ok(Some(other.kind));
    }
    match commonhold::raw::open_unready_map(hold, name) {
        Ok(_) => Ok(Some(StructureKind::Map)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The error that no structure has this name, with the way out.
pub fn nothing_called(name: &str, path: &Path, hold: &Path) -> String {
    let (path, hold) = (path.display(), hold.display());
    format!("{path}: has no structure '{name}'; 'hold list {hold}' shows its contents")
}
