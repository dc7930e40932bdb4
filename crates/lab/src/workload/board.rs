//! The board: 64-bit words that all processes of one run see, kept outside of any hold.
//!
//! It is the run's independent witness. A writer records each change on the board after it was
//! committed, and the hold must have that change later. A process killed between two instructions
//! leaves its last word on the board, which a pipe with its buffers would not.
//!
//! The board is an anonymous memory file: it has no name to be left behind, and others open it
//! through `/proc` by the starter's pid. Invariant: every word has one writer at a time.

use super::{Result, RunError};
use commonhold::raw::SharedLines;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const WORD: u64 = 8;

/// A numbered row of 64-bit words that processes share.
pub struct Board {
    file: File,
    path: PathBuf,
}

impl Board {
    /// Creates a board of `words` zeros; it exists as long as this process.
    pub fn create(words: u64) -> Result<Board> {
        let fd = memfd_create("hold-board", MemfdFlags::CLOEXEC).map_err(|e| {
            RunError::new(format!("cannot allocate memory for the run's board: {e}"))
        })?;
        let file = File::from(fd);
        file.set_len(words * WORD)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Ok(Board { file, path: path.into() })
    }

    /// Opens the board that another process made, by its [`Board::path`].
    pub fn open(path: &Path) -> Result<Board> {
        let file = File::options().read(true).write(true).open(path).map_err(|e| {
            RunError::new(format!("cannot open the board {} of the run: {e}", path.display()))
        })?;
        Ok(Board { file, path: path.to_owned() })
    }

    /// Makes a board of `lines` cache lines instead, for [`Board::lines`].
    pub fn of_lines(lines: usize) -> Result<Board> {
        Board::create(SharedLines::bytes(lines) / WORD)
    }

    /// The board as bare cache lines in memory, which processes can poll without a system call.
    pub fn lines(&self) -> Result<SharedLines> {
        Ok(SharedLines::of(&self.file)?)
    }

    /// The path at which other processes open this board.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads one word.
    pub fn get(&self, word: u64) -> Result<u64> {
        let mut bytes = [0; WORD as usize];
        self.file.read_exact_at(&mut bytes, word * WORD)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes one word. It stays even if this process is killed right after.
    pub fn put(&self, word: u64, value: u64) -> Result<()> {
        Ok(self.file.write_all_at(&value.to_le_bytes(), word * WORD)?)
    }

    /// Reads `count` words from `first` on.
    pub fn get_row(&self, first: u64, count: u64) -> Result<Vec<u64>> {
        let mut bytes = vec![0; (count * WORD) as usize];
        self.file.read_exact_at(&mut bytes, first * WORD)?;
        let words = bytes.chunks_exact(WORD as usize);
        Ok(words.map(|w| u64::from_le_bytes(w.try_into().expect("a chunk is a word"))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_seen_through_the_path() {
        let board = Board::create(16).unwrap();
        let other = Board::open(board.path()).unwrap();
        board.put(3, 77).unwrap();
        other.put(4, u64::MAX).unwrap();
        assert_eq!(other.get_row(2, 4).unwrap(), [0, 77, u64::MAX, 0]);
        assert_eq!(other.get(3).unwrap(), 77);
    }

    #[test]
    fn a_word_past_the_end_is_an_error() {
        assert!(Board::create(1).unwrap().get(1).is_err());
    }
}
