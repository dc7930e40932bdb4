//! The map that a journal's file is about, as the beginning of the file states it: its name, and
//! its lineage, because maps of several holds may have one name.

use crate::journal::reader::Reader;
use crate::protocol::introduction::Lineage;
use commonhold::{ErrorKind, Result};
use std::path::Path;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) map: String,
    /// The id of the lineage; zeros if it is not known.
    lineage: [u8; 16],
}

impl Owner {
    pub(super) fn new(map: &str, lineage: &Lineage) -> Owner {
        Owner { map: map.to_owned(), lineage: lineage.id }
    }

    /// That of a file; `None` if the file is not a journal, or its beginning is damaged: no map can
    /// be rebuilt from it.
    ///
    /// # Errors
    /// `NotFound`; those of files.
    pub(super) fn of_file(path: &Path) -> Result<Option<Owner>> {
        let mut reader = match Reader::open(path) {
            Err(error) if error.kind() == ErrorKind::Damaged => return Ok(None),
            reader => reader?,
        };
        // The first frame states the run, with the lineage.
        reader.next()?;
        let lineage = reader.lineage().map_or([0; 16], |lineage| lineage.id);
        Ok(Some(Owner { map: reader.welcome.name.clone(), lineage }))
    }

    /// Whether a file of `other` is this map's, too. A file without a lineage may be.
    pub(super) fn has(&self, other: &Owner) -> bool {
        self.map == other.map && (other.lineage == self.lineage || other.lineage == [0; 16])
    }

    /// Whether the map's lineage is known.
    pub(super) fn is_known(&self) -> bool {
        self.lineage != [0; 16]
    }
}
