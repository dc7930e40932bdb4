//! A file and its older ones: `path`, `path.1`, `path.2` and so on.

use crate::steps::fault;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// After this number of missing files in a row, there are no more older files.
const MOST_MISSING: u32 = 16;

/// The file that is `age` rotations old.
pub(super) fn aged(path: &Path, age: u32) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    if age > 0 {
        name.push(format!(".{age}"));
    }
    name.into()
}

/// How many rotations old the file with this device and inode is; `None` if it is gone.
pub(super) fn age_of(path: &Path, file: (u64, u64)) -> io::Result<Option<u32>> {
    for found in files(path, 0) {
        let (age, identity) = found?;
        if identity == file {
            return Ok(Some(age));
        }
    }
    Ok(None)
}

/// The files that are `first` rotations old, or more, with device and inode.
pub(super) fn files(
    path: &Path,
    first: u32,
) -> impl Iterator<Item = io::Result<(u32, (u64, u64))>> {
    let mut missing = 0;
    (first..=u32::MAX)
        .map(|age| (age, identity(&aged(path, age))))
        .take_while(move |(_, found)| {
            missing = if matches!(found, Ok(Some(_))) { 0 } else { missing + 1 };
            missing <= MOST_MISSING
        })
        .filter_map(|(age, found)| Some(found.transpose()?.map(|identity| (age, identity))))
}

/// Renames a file, unless it is gone.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fault!("rotate.rename").and_then(|()| std::fs::rename(from, to)) {
        Err(error) if !is_missing(from) => Err(error),
        _ => Ok(()),
    }
}

/// Device and inode of a file; `None` if there is none, or can be none of such a name.
pub(super) fn identity(path: &Path) -> io::Result<Option<(u64, u64)>> {
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
pub(super) fn is_used(path: &Path) -> io::Result<bool> {
    let is_empty = || std::fs::symlink_metadata(path).is_ok_and(|f| f.is_file() && f.len() == 0);
    Ok(exists(path)? && !is_empty())
}

/// Whether the last line of a file has no end. False if the file cannot be read.
pub(super) fn is_torn(path: &Path) -> bool {
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
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fault!("rotate.remove").and_then(|()| std::fs::remove_file(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Cuts off everything after `bytes`. A missing file needs no cut.
pub(super) fn shorten(path: &Path, bytes: u64) -> io::Result<()> {
    match fault!("rotate.shorten").and_then(|()| OpenOptions::new().write(true).open(path)) {
        Ok(file) if file.metadata()?.len() > bytes => file.set_len(bytes),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
