//! What has a name in a hold: a map, a queue, a channel, a log, or nothing.

use commonhold::Hold;
use commonhold::hold::StructureKind;
use commonhold_terminal::failure::Result;
use std::path::Path;

/// What has this name, if anything has.
pub fn kind_of(hold: &Hold, name: &str) -> Result<Option<StructureKind>> {
    if let Some(other) = hold.structures()?.into_iter().find(|other| other.name == name) {
        return Ok(Some(other.kind));
    }
    match hold.maps().open(name) {
        Ok(_) => Ok(Some(StructureKind::Map)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// That nothing has this name, and the way out.
pub fn nothing_called(name: &str, path: &Path, hold: &Path) -> String {
    let (path, hold) = (path.display(), hold.display());
    format!("{path}: has no structure '{name}'; 'hold list {hold}' shows its contents")
}
