//! A file that is rotated when it is full.
//!
//! The text of a collector's round may have to be taken back. So a rotation in a round deletes
//! nothing: every older file moves on by one number, also beyond those that are kept. The extra
//! ones are deleted when the round is marked.

use crate::error::{Error, ErrorKind, Result};
use crate::log::file_series::{
    age_of, aged, files, identity, is_torn, is_used, remove, rename, shorten,
};
use crate::os::file::check_size_limit;
use crate::steps::{fault, step};
use rapidhash::v3::{DEFAULT_RAPID_SECRETS, rapidhash_v3_seeded};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The longest name of a file that is rotated, in bytes: a name may have 255, and older files get
/// a dot and a number of up to ten digits.
const LONGEST_NAME: usize = 244;

/// A file of limited size for the text of a log. When there is no more room for a line, `path`
/// becomes `path.1`, the previous `path.1` becomes `path.2`, and so on, and a new `path` begins.
/// Lines are never split, and are lost only with the oldest file.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("commonhold-doc-rotate-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// use commonhold::log::RotatedFile;
/// use std::io::Write;
///
/// // At most shop.log, .1, .2 and .3.
/// let mut file = RotatedFile::open(dir.join("shop.log"), 10_000, 3)?;
/// writeln!(file, "the shop is open").unwrap();
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), commonhold::Error>(())
/// ```
#[derive(Debug)]
pub struct RotatedFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
    keep: u32,
    /// The open file was removed or renamed, and the next one could not be created yet: nothing
    /// more is written to it.
    is_put_away: bool,
    /// Whether a successor may still take back the text that is written now.
    is_in_round: bool,
    /// A rotation in a round may have left more older files than are kept.
    has_extra: bool,
    /// The text may end in the middle of a line.
    may_be_torn: bool,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    dev: u64,
    ino: u64,
    bytes: u64,
    path: u64,
}

impl Place {
    pub(crate) fn new([dev, ino, bytes, path]: [u64; 4]) -> Place {
        Place { dev, ino, bytes, path }
    }

    /// Whether both places belong to a file with the same path.
    pub(crate) fn is_in_file_of(&self, other: Place) -> bool {
        self.path == other.path
    }

    pub(crate) fn words(self) -> [u64; 4] {
        [self.dev, self.ino, self.bytes, self.path]
    }
}

impl RotatedFile {
    /// Opens the file to append to it, or creates it. Each file has at most `max_bytes` (but a
    /// longer line gets a file of its own), and at most `keep` older ones exist. For one log, and
    /// for one process at a time, like the collector. Nothing else should write to the file.
    ///
    /// While a collector writes a round, there may be older files with higher numbers. When a round
    /// with a rotation counts as collected, or a failed one was taken back, the collector deletes
    /// all files of the series with numbers above `keep`, also those from a larger `keep` before.
    ///
    /// # Errors
    /// `Invalid` if `max_bytes` is 0, or if the file name has more than 244 bytes. Names may be
    /// longer if `max_bytes` is `u64::MAX`. Those of opening files.
    pub fn open(path: impl AsRef<Path>, max_bytes: u64, keep: u32) -> Result<RotatedFile> {
        let path = path.as_ref();
        if max_bytes == 0 {
            let text =
                format!("{}: expected rotated files of at least 1 byte, got 0", path.display());
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let name_bytes = path.file_name().map_or(0, |name| name.len());
        if max_bytes < u64::MAX && name_bytes > LONGEST_NAME {
            let text = format!(
                "{}: expected a file name of at most {LONGEST_NAME} bytes, because older files get \
                 a number behind it; got {name_bytes} bytes",
                path.display()
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let failed = |e: io::Error| Error::os(path.display(), &e);
        // The process may change its directory.
        let path = std::path::absolute(path).map_err(failed)?;
        let opened = append(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = opened.map_err(failed)?;
        Ok(RotatedFile {
            path,
            file,
            bytes,
            max_bytes,
            keep,
            is_put_away: false,
            is_in_round: false,
            has_extra: false,
            may_be_torn: true,
        })
    }

    /// Begins a round: the place where its text will be.
    ///
    /// # Errors
    /// Those of asking for the file's length.
    pub(crate) fn begin_round(&mut self) -> io::Result<Place> {
        // A file that cannot be removed is one too many, and no reason not to collect.
        let _ = self.end_round();
        self.follow_path()?;
        fault!("rotate.place")?;
        let now = self.file.metadata()?;
        self.is_in_round = true;
        Ok(Place { dev: now.dev(), ino: now.ino(), bytes: now.len(), path: self.path_hash() })
    }

    fn path_hash(&self) -> u64 {
        rapidhash_v3_seeded(self.path.as_os_str().as_bytes(), &DEFAULT_RAPID_SECRETS)
    }

    /// Opens the path again if it now leads to another file, or to none: another collector may have
    /// rotated the open file, or another program may have moved it.
    ///
    /// # Errors
    /// Those of looking at the files and of opening.
    fn follow_path(&mut self) -> io::Result<()> {
        if identity(&self.path)? != Some(self.identity()?) {
            return self.begin_again();
        }
        let len = self.file.metadata()?.len();
        self.may_be_torn |= len != self.bytes;
        self.bytes = len;
        Ok(())
    }

    /// Removes the text that was written after a place, if that place is in these files.
    ///
    /// # Errors
    /// Those of looking for the place and of shortening files. Then nothing may be written: the
    /// next round takes back the same place.
    pub(crate) fn take_back(&mut self, place: Place) -> io::Result<()> {
        if place.path != self.path_hash() {
            return Ok(());
        }
        self.may_be_torn = true;
        if let Some(age) = age_of(&self.path, (place.dev, place.ino))? {
            // The oldest file is last, so after a kill the next collector still finds the place.
            for age in 0..age {
                shorten(&aged(&self.path, age), 0)?;
                step!("collect.emptied");
            }
            shorten(&aged(&self.path, age), place.bytes)?;
            // The disk may be full: room is made before anything is written.
            self.has_extra |= age > 0;
        } else if self.identity()? == (place.dev, place.ino) {
            // Another tool has moved it to a name of its own.
            let len = self.file.metadata()?.len();
            self.file.set_len(len.min(place.bytes))?;
        }
        step!("collect.truncated");
        self.bytes = self.file.metadata()?.len();
        Ok(())
    }

    /// The last round is marked, or was taken back: removes the older files that are not kept, if
    /// a rotation may have left any.
    ///
    /// # Errors
    /// Those of looking at files and of removing them.
    pub(crate) fn end_round(&mut self) -> io::Result<()> {
        self.is_in_round = false;
        // Files that are never rotated here have no number from here either.
        if let Some(first) = self.keep.checked_add(1)
            && self.has_extra
            && self.max_bytes < u64::MAX
        {
            // A file that cannot be looked at keeps no other one.
            let (mut extra, mut failed) = (Vec::new(), None);
            for found in files(&self.path, first) {
                match found {
                    Ok((age, _)) => extra.push(aged(&self.path, age)),
                    Err(error) => failed = Some(error),
                }
            }
            // The oldest first: after a kill or an error in between, the others are still found.
            let extra = extra.iter().rev().filter(|path| path.is_file());
            extra.for_each(|path| failed = remove(path).err().or(failed.take()));
            failed.map_or(Ok(()), Err)?;
        }
        self.has_extra = false;
        Ok(())
    }

    /// Device and inode of the open file.
    fn identity(&self) -> io::Result<(u64, u64)> {
        self.file.metadata().map(|open| (open.dev(), open.ino()))
    }

    /// Begins a new file in place of the full one.
    fn rotate(&mut self) -> io::Result<()> {
        if !self.is_put_away {
            // After an error it may have been moved already.
            if identity(&self.path)? == Some(self.identity()?) {
                self.put_away()?;
            }
            if identity(&self.path)? == Some(self.identity()?) {
                let text = "cannot be renamed, because it already has the name of an older file \
                            too; remove one of the two names";
                return Err(io::Error::other(format!("{}: {text}", self.path.display())));
            }
            self.is_put_away = true;
        }
        self.begin_again()
    }

    /// Opens the path again.
    fn begin_again(&mut self) -> io::Result<()> {
        let file = append(&self.path)?;
        self.bytes = file.metadata()?.len();
        (self.file, self.is_put_away, self.may_be_torn) = (file, false, true);
        Ok(())
    }

    /// Removes what a failed write has written: nothing, for its caller. It would have ended at
    /// `end`, so a file that is longer has text of somebody else, and stays.
    fn take_back_part(&mut self, end: u64) {
        self.may_be_torn = true;
        let len = || self.file.metadata().map_or(self.bytes, |open| open.len());
        if (self.bytes + 1..=end).contains(&len()) {
            let _ = self.file.set_len(self.bytes);
        }
        self.bytes = len();
    }

    /// Ends a line that a failed write left incomplete, if no round took it back.
    pub(crate) fn end_torn_line(&mut self) -> io::Result<()> {
        // A full file is rotated instead.
        if self.may_be_torn && self.bytes < self.max_bytes && is_torn(&self.path) {
            self.write_all(b"\n")?;
        }
        self.may_be_torn = false;
        Ok(())
    }

    /// The oldest first: after a kill or an error in between, a number is missing and nothing else.
    /// The next attempt moves only the files before that number.
    fn put_away(&mut self) -> io::Result<()> {
        let most = if self.is_in_round { u32::MAX } else { self.keep };
        if most == 0 {
            return remove(&self.path);
        }
        let mut free = 1;
        while free < most && is_used(&aged(&self.path, free))? {
            free += 1;
        }
        self.has_extra |= self.is_in_round;
        (0..free).rev().try_for_each(|age| {
            let [from, to] = [age, age + 1].map(|age| aged(&self.path, age));
            rename(&from, &to)
        })
    }
}

fn append(path: &Path) -> io::Result<File> {
    fault!("rotate.open")?;
    OpenOptions::new().append(true).create(true).open(path)
}

impl Write for RotatedFile {
    /// Writes whole lines as far as they fit, or at least one.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if text.is_empty() {
            return Ok(0);
        }
        let room = usize::try_from(self.max_bytes.saturating_sub(self.bytes)).unwrap_or(usize::MAX);
        let count = if text.len() <= room { text.len() } else { whole_lines(text, room) };
        if self.is_put_away || (count == 0 && self.bytes > 0) {
            self.rotate()?;
            return self.write(text);
        }
        // A line that fits into no file.
        let first = || text.iter().position(|&byte| byte == b'\n').map_or(text.len(), |at| at + 1);
        let count = if count == 0 { first() } else { count };
        // Written whole, so that the next line does not continue in another file.
        let end = self.bytes.saturating_add(count as u64);
        let written = fault!("rotate.write")
            .and_then(|()| check_size_limit(&self.path, end))
            .and_then(|()| self.file.write_all(&text[..count]));
        if let Err(error) = written {
            self.take_back_part(end);
            return Err(error);
        }
        self.bytes = end;
        self.may_be_torn = false;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The length of the lines that end within `room`.
fn whole_lines(text: &[u8], room: usize) -> usize {
    text[..room].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_only_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut file = RotatedFile::open(&path, 100, 3).unwrap();
        let lines: Vec<String> = (0..60).map(|n| format!("line number {n}\n")).collect();
        for pair in lines.chunks(7) {
            file.write_all(pair.concat().as_bytes()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let files = ["a.log.3", "a.log.2", "a.log.1", "a.log"].map(read);
        assert!(files.iter().all(|text| text.len() <= 100 && text.ends_with('\n')));
        let together = files.concat();
        assert!(together.len() > 200 && lines.concat().ends_with(&together), "{together}");
        assert!(!folder.path().join("a.log.4").exists());
        drop(file);
        let mut file = RotatedFile::open(&path, 100, 3).unwrap();
        let long = format!("{}\n", "x".repeat(300));
        file.write_all(format!("{long}short\n").as_bytes()).unwrap();
        assert_eq!((read("a.log.1"), read("a.log")), (long, "short\n".to_owned()));
        assert_eq!(read("a.log.2"), files[3]);
    }

    #[test]
    fn without_older_files_the_file_is_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut file = RotatedFile::open(&path, 10, 0).unwrap();
        file.write_all(b"one\ntwo\nthree\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
        assert!(RotatedFile::open(&path, 0, 1).is_err());
    }
}
