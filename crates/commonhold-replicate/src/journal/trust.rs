//! How many bytes of a journal's file a later writer may trust.
//!
//! After a failed `fdatasync` the system may show bytes that never reach the disk, and a later
//! `fdatasync` succeeds all the same. The writer may be killed in the very call that fails. So the
//! hold has a note of every file that has, or is about to get, the journal's path: the length up to
//! which a sync has succeeded. It is written before the file is used, and raised after each sync. A
//! writer that finds its file noted shortens it to that length first.
//!
//! Invariant: every file with the journal's path that this crate has synced in the life of this
//! hold has a note, with no more bytes than are durable, or with [`ALL`] if nothing was synced
//! since. The hold is memory and needs no disk. After a crash of the system the note may be lost.
//! Then the system's own view is lost, too, and a reader gets the bytes of the disk.
//!
//! Notes of other files are kept: a journal may move to another path, and back. If there are too
//! many, the oldest is removed, but never the note of the file at the path: without it a later
//! writer would trust all bytes of that file. A file that does not get the path loses its note.

use crate::journal::file::{Identity, failed, identity_at};
use commonhold::Result;
use commonhold::map::Map;
use std::io;
use std::path::PathBuf;

/// The length of a file that was never synced, so that no sync of it has failed.
pub(crate) const ALL: u64 = u64::MAX;
/// The key of a journal's notes, in the map of its announcements.
const TRUSTED: &[u8] = b"trusted";
/// The most files with a note.
const MOST: usize = 16;
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
    /// The journal's.
    path: PathBuf,
}

impl Trust {
    /// Notes in the map of the announcements of the journal at `path`.
    pub(crate) fn new(notes: Map, path: PathBuf) -> Trust {
        Trust { notes, path }
    }

    /// The number of durable bytes of this file; `None` if there is no note of it.
    ///
    /// # Errors
    /// Those of reading a map.
    pub(crate) fn len_of(&self, file: Identity) -> Result<Option<u64>> {
        let entry = self.entries()?.into_iter().find(|entry| entry.file == file);
        Ok(entry.map(|entry| entry.len))
    }

    /// Notes that `len` bytes of this file are durable.
    ///
    /// # Errors
    /// Those of reading and writing a map, and of finding the file at the path: the note stays
    /// unchanged.
    pub(crate) fn note(&self, file: Identity, len: u64) -> Result<()> {
        let mut entries = self.entries()?;
        let unchanged = entries.contains(&Entry { file, len });
        if unchanged {
            return Ok(());
        }
        entries.retain(|entry| entry.file != file);
        if entries.len() >= MOST {
            self.give_up_oldest(&mut entries)?;
        }
        entries.push(Entry { file, len });
        self.store(&entries)
    }

    /// Takes the note of a file back, unless the file is at the path.
    ///
    /// # Errors
    /// As [`note`](Self::note).
    pub(crate) fn forget(&self, file: Identity) -> Result<()> {
        if self.file_at_path()? == Some(file) {
            return Ok(());
        }
        let mut entries = self.entries()?;
        entries.retain(|entry| entry.file != file);
        self.store(&entries)
    }

    fn give_up_oldest(&self, entries: &mut Vec<Entry>) -> Result<()> {
        let kept = self.file_at_path()?;
        if let Some(oldest) = entries.iter().position(|entry| Some(entry.file) != kept) {
            entries.remove(oldest);
        }
        Ok(())
    }

    fn file_at_path(&self) -> Result<Option<Identity>> {
        match identity_at(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some).map_err(|e| failed(&self.path, "cannot be examined", &e)),
        }
    }

    fn store(&self, entries: &[Entry]) -> Result<()> {
        let bytes: Vec<u8> = entries.iter().flat_map(Entry::encode).collect();
        self.notes.set(TRUSTED, bytes).map(drop)
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        let bytes = self.notes.get(TRUSTED)?.unwrap_or_default();
        Ok(bytes.chunks_exact(ENTRY).map(Entry::decode).collect())
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
    use commonhold::Hold;
    use commonhold::map::MapOptions;

    #[test]
    fn the_last_files_are_noted() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(directory.path().join("it.hold")).unwrap();
        let notes = hold.maps().open_or_create("notes", MapOptions::general()).unwrap();
        let path = directory.path().join("it.journal");
        let trust = Trust::new(notes, path.clone());
        assert_eq!(trust.len_of((1, 0)).unwrap(), None);
        for inode in 0..MOST as u64 {
            trust.note((1, inode), inode * 10).unwrap();
        }
        trust.note((1, 0), 7).unwrap();
        assert_eq!(trust.len_of((1, 0)).unwrap(), Some(7));
        assert_eq!(trust.len_of((1, 1)).unwrap(), Some(10));
        // The oldest note is of inode 1 now.
        trust.note((1, 99), ALL).unwrap();
        assert_eq!(trust.len_of((1, 1)).unwrap(), None);
        assert_eq!(trust.len_of((1, 0)).unwrap(), Some(7));
        assert_eq!(trust.len_of((1, 99)).unwrap(), Some(ALL));
        assert_eq!(trust.len_of((2, 99)).unwrap(), None);
    }

    /// Without its note a later writer would believe all of it.
    #[test]
    fn the_file_at_the_path_remains_noted() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(directory.path().join("it.hold")).unwrap();
        let notes = hold.maps().open_or_create("notes", MapOptions::general()).unwrap();
        let path = directory.path().join("it.journal");
        std::fs::write(&path, "it").unwrap();
        let trust = Trust::new(notes, path.clone());
        let (device, inode) = identity_at(&path).unwrap();
        trust.note((device, inode), 7).unwrap();
        for other in 0..3 * MOST as u64 {
            trust.note((device + 1, other), 0).unwrap();
        }
        trust.forget((device, inode)).unwrap();
        assert_eq!(trust.len_of((device, inode)).unwrap(), Some(7));
        let last = 3 * MOST as u64 - 1;
        assert_eq!(trust.len_of((device + 1, last)).unwrap(), Some(0));
        trust.forget((device + 1, last)).unwrap();
        assert_eq!(trust.len_of((device + 1, last)).unwrap(), None);
    }
}
