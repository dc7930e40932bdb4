//! A file that is rotated when it is full.
//!
//! The text of a collector's round may have to be taken back. So a rotation in a round deletes
//! nothing: every older file moves on by one number, also beyond those that are kept. The extra
//! ones are deleted when the round is marked.

use crate::error::{Error, ErrorKind, Result};
use crate::os::file::check_size_limit;
use crate::steps::{fault, step};
use rapidhash::v3::{DEFAULT_RAPID_SECRETS, rapidhash_v3_seeded};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// After this number of missing files in a row, there are no more older files.
const MOST_MISSING: u32 = 16;
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
        let open = self.file.metadata()?;
        if identity(&self.path)? != Some((open.dev(), open.ino())) {
            return self.begin_again();
        }
        self.may_be_torn |= open.len() != self.bytes;
        self.bytes = open.len();
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
        if let Some(age) = age_of(&self.path, place)? {
            // The oldest file is last, so after a kill the next collector still finds the place.
            for age in 0..age {
                shorten(&aged(&self.path, age), 0)?;
                step!("collect.emptied");
            }
            shorten(&aged(&self.path, age), place.bytes)?;
            // The disk may be full: room is made before anything is written.
            self.has_extra |= age > 0;
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
        if self.has_extra && self.max_bytes < u64::MAX {
            let extra: Vec<u32> = files(&self.path, self.keep.saturating_add(1))
                .map(|found| found.map(|(age, _)| age))
                .collect::<io::Result<_>>()?;
            let extra = extra.iter().rev().map(|age| aged(&self.path, *age));
            // The oldest first: after a kill or an error in between, the others are still found.
            extra.filter(|path| path.is_file()).try_for_each(|path| remove(&path))?;
        }
        self.has_extra = false;
        Ok(())
    }

    /// Begins a new file in place of the full one.
    fn rotate(&mut self) -> io::Result<()> {
        if !self.is_put_away {
            self.put_away()?;
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
        self.has_extra |= free > self.keep;
        (0..free).rev().try_for_each(|age| {
            let [from, to] = [age, age + 1].map(|age| aged(&self.path, age));
            rename(&from, &to)
        })
    }
}

/// The file that is `age` rotations old.
fn aged(path: &Path, age: u32) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    if age > 0 {
        name.push(format!(".{age}"));
    }
    name.into()
}

/// How many rotations old the file with the place is; `None` if it is gone.
fn age_of(path: &Path, place: Place) -> io::Result<Option<u32>> {
    for found in files(path, 0) {
        let (age, identity) = found?;
        if identity == (place.dev, place.ino) {
            return Ok(Some(age));
        }
    }
    Ok(None)
}

/// The files that are `first` rotations old, or more, with device and inode.
fn files(path: &Path, first: u32) -> impl Iterator<Item = io::Result<(u32, (u64, u64))>> {
    let mut missing = 0;
    (first..=u32::MAX)
        .map(|age| (age, identity(&aged(path, age))))
        .take_while(move |(_, found)| {
            missing = if matches!(found, Ok(None)) { missing + 1 } else { 0 };
            missing <= MOST_MISSING
        })
        .filter_map(|(age, found)| Some(found.transpose()?.map(|identity| (age, identity))))
}

/// Renames a file, unless it is gone.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fault!("rotate.rename").and_then(|()| std::fs::rename(from, to)) {
        Err(error) if !is_missing(from) => Err(error),
        _ => Ok(()),
    }
}

/// Device and inode of a file; `None` if there is none, or can be none of such a name.
fn identity(path: &Path) -> io::Result<Option<(u64, u64)>> {
    match fault!("rotate.stat").and_then(|()| std::fs::metadata(path)) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_missing(path: &Path) -> bool {
    exists(path).is_ok_and(|exists| !exists)
}

/// Whether a file needs its name. Empty ones do not: a round that was taken back leaves them.
fn is_used(path: &Path) -> io::Result<bool> {
    let is_empty = || std::fs::symlink_metadata(path).is_ok_and(|f| f.is_file() && f.len() == 0);
    Ok(exists(path)? && !is_empty())
}

/// Whether the last line of a file has no end. False if the file cannot be read.
fn is_torn(path: &Path) -> bool {
    let last_byte = || {
        let file = File::open(path)?;
        let (len, mut last) = (file.metadata()?.len(), [b'\n']);
        if len > 0 {
            file.read_exact_at(&mut last, len - 1)?;
        }
        io::Result::Ok(last[0])
    };
    last_byte().is_ok_and(|byte| byte != b'\n')
}

/// Whether the name exists.
fn exists(path: &Path) -> io::Result<bool> {
    match fault!("rotate.stat").and_then(|()| std::fs::symlink_metadata(path)) {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// There is no file of the name, or there can be none.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}

/// Removes a file, unless it is gone already.
fn remove(path: &Path) -> io::Result<()> {
    match fault!("rotate.remove").and_then(|()| std::fs::remove_file(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Cuts off everything after `bytes`. A missing file needs no cut.
fn shorten(path: &Path, bytes: u64) -> io::Result<()> {
    match fault!("rotate.shorten").and_then(|()| OpenOptions::new().write(true).open(path)) {
        Ok(file) if file.metadata()?.len() > bytes => file.set_len(bytes),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn append(path: &Path) -> io::Result<File> {
    fault!("rotate.open")?;
    OpenOptions::new().append(true).create(true).open(path)
}

impl Write for RotatedFile {
    /// Writes whole lines as far as they fit, or at least one.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
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
        self.may_be_torn = true;
        fault!("rotate.write")?;
        check_size_limit(&self.path, self.bytes.saturating_add(count as u64))?;
        self.file.write_all(&text[..count])?;
        self.bytes += count as u64;
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
