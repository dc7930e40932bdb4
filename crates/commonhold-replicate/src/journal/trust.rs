//! How many bytes of a journal's file a later writer may believe.
//!
//! After a failed `fdatasync` the system may show bytes that never reach the disk, and a later
//! `fdatasync` succeeds all the same. The writer may be killed in the very call that fails. So the
//! hold has a note of every file that has, or is about to get, the journal's path: the length up to
//! which a sync has succeeded. It is written before the file is used, and raised after each sync. A
//! writer that finds its file noted shortens it to that length first.
//!
//! Invariant: a file with the journal's path that this crate has synced in the life of this hold is
//! noted, with no more bytes than are durable. The hold is memory and needs no disk. After a crash
//! of the system the note may be gone; then so is what the system showed, and a reader gets what
//! the disk has.

use crate::journal::file::Identity;
use commonhold::{Hold, Map, MapOptions, Result};

/// The map of the notes, by the journal's map.
const TRUSTED: &str = ".trusted";
/// Bytes of an entry: device, inode, length.
const ENTRY: usize = 24;

/// A file, and how many of its bytes are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    file: Identity,
    len: u64,
}

/// See the module.
pub(crate) struct Trust {
    notes: Map,
    map: String,
}

impl Trust {
    /// For the journal of a map.
    ///
    /// # Errors
    /// Those of making a map.
    pub(crate) fn new(hold: &Hold, map: &str) -> Result<Trust> {
        let notes = hold.map(TRUSTED, MapOptions::general())?;
        Ok(Trust { notes, map: map.to_owned() })
    }

    /// How many bytes of this file are durable; `None` if there is no note of it.
    ///
    /// # Errors
    /// Those of reading a map.
    pub(crate) fn len_of(&self, file: Identity) -> Result<Option<u64>> {
        let entry = self.entries()?.into_iter().find(|entry| entry.file == file);
        Ok(entry.map(|entry| entry.len))
    }

    /// Notes that `len` bytes of this file are durable, and drops the notes of all other files.
    ///
    /// # Errors
    /// Those of writing a map: the note is as it was.
    pub(crate) fn only(&self, file: Identity, len: u64) -> Result<()> {
        self.store(&[Entry { file, len }])
    }

    /// The same before this file takes the path of `present`, whose note stays.
    ///
    /// # Errors
    /// As [`only`](Trust::only), and those of reading a map.
    pub(crate) fn also(&self, present: Option<Identity>, file: Identity, len: u64) -> Result<()> {
        let mut entries = self.entries()?;
        entries.retain(|entry| Some(entry.file) == present && entry.file != file);
        entries.push(Entry { file, len });
        self.store(&entries)
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        let bytes = self.notes.get(&self.map)?.unwrap_or_default();
        Ok(bytes.chunks_exact(ENTRY).map(Entry::decode).collect())
    }

    fn store(&self, entries: &[Entry]) -> Result<()> {
        let bytes: Vec<u8> = entries.iter().flat_map(Entry::encode).collect();
        self.notes.set(&self.map, bytes).map(drop)
    }
}

impl Entry {
    fn encode(&self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        let words = [self.file.0, self.file.1, self.len];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Entry {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Entry { file: (word(0), word(8)), len: word(16) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_and_what_is_to_take_it_are_noted() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(directory.path().join("it.hold")).unwrap();
        let trust = Trust::new(&hold, "it").unwrap();
        assert_eq!(trust.len_of((1, 2)).unwrap(), None);
        trust.only((1, 2), 10).unwrap();
        trust.also(Some((1, 2)), (1, 3), 20).unwrap();
        // That draft was lost, and another one is about to take the path.
        trust.also(Some((1, 2)), (1, 4), 30).unwrap();
        assert_eq!(trust.len_of((1, 2)).unwrap(), Some(10));
        assert_eq!(trust.len_of((1, 3)).unwrap(), None);
        assert_eq!(trust.len_of((1, 4)).unwrap(), Some(30));
        trust.only((1, 4), 40).unwrap();
        assert_eq!(trust.len_of((1, 2)).unwrap(), None);
        assert_eq!(trust.len_of((1, 4)).unwrap(), Some(40));
    }
}
