//! Bytes that wait for their use in a nameless file in the directory for temporary files, not in
//! memory. No file remains, even after a kill (but see [`Draft`]).

use crate::error::{Error, Result};
use crate::os::draft::Draft;
use crate::os::file::check_size_limit;
use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;

/// The number of bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// The file.
pub(crate) struct Spool {
    draft: Draft,
    directory: PathBuf,
    len: Cell<u64>,
}

impl Spool {
    /// An empty spool.
    pub(crate) fn new() -> Result<Spool> {
        // The system's variable TMPDIR, or /tmp.
        let directory = std::env::temp_dir();
        let draft = Draft::new(&directory.join("hold-backup"), 0o600);
        let draft = draft.map_err(|e| failed(&directory, &e))?;
        Ok(Spool { draft, directory, len: Cell::new(0) })
    }

    /// The file, to read it.
    pub(crate) fn file(&self) -> &File {
        self.draft.file()
    }

    /// Appends bytes.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<()> {
        let len = self.len.get() + bytes.len() as u64;
        let written =
            check_size_limit(&self.directory, len).and_then(|()| self.file().write_all(bytes));
        self.len.set(len);
        written.map_err(|e| failed(&self.directory, &e))
    }

    /// Appends all bytes of `from`, which errors call `name`.
    pub(crate) fn fill(&self, from: &mut impl Read, name: &str) -> Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => self.write(&piece[..read])?,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::os(name, &e)),
            }
        }
    }

    /// Passes all bytes to `take`, piece by piece.
    pub(crate) fn drain(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (mut file, mut piece) = (self.file(), vec![0; PIECE]);
        file.rewind().map_err(|e| failed(&self.directory, &e))?;
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => take(&piece[..read])?,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(&self.directory, &e)),
            }
        }
    }
}

fn failed(directory: &std::path::Path, error: &std::io::Error) -> Error {
    let text = format!(
        "{}: cannot write a temporary file; set TMPDIR to a directory with room for the backup",
        directory.display()
    );
    Error::os(text, error)
}
