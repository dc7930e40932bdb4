//! Files that a journal must not continue, because a sync of theirs has failed.
//!
//! After a failed `fdatasync` the system may show bytes that never reach the disk, and a later
//! `fdatasync` succeeds all the same. The keeper gives such a file up and shortens it to what was
//! durable. But shortening can fail as well, and the keeper may be killed before the next file has
//! taken the path. So the file is noted in the hold, where the next keeper looks: the hold is
//! memory, and needs no disk. After a crash of the system the note may be gone; then so is what
//! the system showed, and a reader of the file gets what the disk has.
//!
//! A note that is left names a file that is gone. If another file gets its number, that one is
//! rewritten once, without need.

use crate::journal::file::Identity;
use commonhold::{Hold, Map, MapOptions, Result};

/// The map of the notes: the journal's map, and the file.
const DISTRUSTED: &str = ".distrusted";

/// See the module.
pub(crate) struct Distrust {
    notes: Map,
    map: String,
}

impl Distrust {
    /// For the journal of a map.
    ///
    /// # Errors
    /// Those of making a map.
    pub(crate) fn new(hold: &Hold, map: &str) -> Result<Distrust> {
        let notes = hold.map(DISTRUSTED, MapOptions::general())?;
        Ok(Distrust { notes, map: map.to_owned() })
    }

    /// Notes that a sync of a file has failed.
    ///
    /// # Errors
    /// Those of writing a map.
    pub(crate) fn note(&self, file: Identity) -> Result<()> {
        self.notes.set(&self.map, bytes(file)).map(drop)
    }

    /// Whether a sync of this file has failed.
    ///
    /// # Errors
    /// Those of reading a map.
    pub(crate) fn is_noted(&self, file: Identity) -> Result<bool> {
        Ok(self.notes.get(&self.map)?.is_some_and(|noted| noted == bytes(file)))
    }

    /// Forgets the file: another one has taken its path.
    pub(crate) fn forget(&self) {
        // A note that stays does no harm; see the module.
        let _ = self.notes.delete(&self.map);
    }
}

fn bytes((device, inode): Identity) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&device.to_le_bytes());
    bytes[8..].copy_from_slice(&inode.to_le_bytes());
    bytes
}
