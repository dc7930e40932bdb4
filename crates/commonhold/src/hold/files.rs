//! Files of holds: listing and deleting them.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::handle::Hold;
use crate::hold::open_byte;
use crate::hold::superblock::MAGIC;
use crate::os::byte_lock::{self, HeldBytes};
use crate::os::draft;
use crate::os::file::HoldFile;
use crate::os::location;
use crate::steps::{fault, shortened};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A file found by [`list`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Listed {
    /// The bare name.
    pub name: String,
    /// The path of the file.
    pub path: PathBuf,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Bytes of memory or disk space that the file actually uses.
    pub memory_bytes: u64,
    /// True if a process has it open.
    pub in_use: bool,
    /// The reason why it cannot be opened, if it cannot.
    pub problem: Option<String>,
}

/// The holds in `directory`, by default in the directory of bare names, sorted by name. Files that
/// cannot be opened are listed with the reason.
///
/// # Errors
/// Those of reading the directory.
pub fn list(directory: Option<&Path>) -> Result<Vec<Listed>> {
    let directory = directory.map_or_else(location::default_directory, Path::to_owned);
    let failed = |e: std::io::Error| Error::os(directory.display(), &e);
    let mut holds = Vec::new();
    fault!("list.directory").map_err(failed)?;
    for entry in std::fs::read_dir(&directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_hold = path.extension().is_some_and(|e| e == "hold");
        if let Some(listed) = is_hold.then(|| describe(&path)).flatten() {
            holds.push(listed);
        }
    }
    holds.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(holds)
}

/// The path of the hold with this name. A bare name stands for a file in `directory`, which is the
/// directory of bare names by default.
///
/// # Errors
/// `Invalid` for a name that no hold can have.
pub fn resolve(name: impl AsRef<Path>, directory: Option<&Path>) -> Result<PathBuf> {
    location::resolve(name.as_ref(), directory)
}

/// `None` if the file vanished meanwhile.
fn describe(path: &Path) -> Option<Listed> {
    let about = path.metadata().ok()?;
    let problem = Hold::options().read_only(true).open(path).err();
    if problem.as_ref().is_some_and(Error::is_not_found) {
        return None;
    }
    let in_use = open_file(path).is_ok_and(|file| byte_lock::in_use(&file).unwrap_or(false));
    Some(Listed {
        name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        path: path.to_owned(),
        file_bytes: about.len(),
        memory_bytes: about.blocks() * 512,
        in_use,
        problem: problem.map(|error| error.to_string()),
    })
}

fn open_file(path: &Path) -> std::io::Result<HoldFile> {
    HoldFile::new(location::open_existing(path, false)?, path.to_owned(), false)
}

/// Deletes the file of a hold.
///
/// # Errors
/// `NotFound`; `NotAHold`: this function never deletes another file; `Busy` if a process has the
/// hold open, unless `force` is given. With `force`, the processes that have it open keep its
/// memory, which is freed when the last of them closes it.
pub fn remove(name: impl AsRef<Path>, force: bool) -> Result<()> {
    let path = location::resolve(name.as_ref(), None)?;
    let failed = |e: std::io::Error| Error::os(path.display(), &e);
    let (file, writable) = open_to_drop(&path).map_err(failed)?;
    check_magic(&file, &path)?;
    let file = HoldFile::new(file, path.clone(), writable).map_err(failed)?;
    let _held = match force {
        true => open_byte::share_to_remove(&file, &path)?.map(|shared| shared.held),
        false => Some(lock_unused(&file)?).filter(|_| open_byte::leads_to(&path, &file)),
    }
    .ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    fault!("delete.remove").and_then(|()| std::fs::remove_file(&path)).map_err(failed)?;
    // A process that was killed while it was about to replace the hold may have left this file.
    draft::remove_left(&path);
    Ok(())
}

/// Opens it for writing if that is allowed: deleting needs a permission of the directory only.
fn open_to_drop(path: &Path) -> std::io::Result<(File, bool)> {
    let open = |writable| Ok((location::open_existing(path, writable)?, writable));
    open(true).or_else(|_| open(false))
}

fn check_magic(file: &File, path: &Path) -> Result<()> {
    let mut magic = [0u8; 8];
    let len = shortened!("delete.first-bytes", magic.len());
    let read = fault!("delete.read").and_then(|()| file.read_at(&mut magic[..len], 0));
    let read = read.map_err(|e| Error::os(path.display(), &e))?;
    if read == 8 && u64::from_le_bytes(magic) == MAGIC {
        return Ok(());
    }
    let shown = path.display();
    let text = format!("{shown}: not a hold, so it was not deleted; use 'rm' to delete it");
    Err(Error::new(ErrorKind::NotAHold, text))
}

/// Locks the open byte if no process uses the hold. A process that may not write the file cannot
/// keep users out, and locks the byte as one of them.
fn lock_unused(file: &HoldFile) -> Result<HeldBytes> {
    let held = match file.writable() {
        true => open_byte::alone(file)?,
        false if byte_lock::in_use(file).map_err(|e| Error::os(file.path().display(), &e))? => None,
        false => open_byte::share_to_remove(file, file.path())?.map(|shared| shared.held),
    };
    held.ok_or_else(|| {
        let text = format!(
            "{}: a process has it open ('hold stat' shows which); close it there, or delete it \
             with force",
            file.path().display()
        );
        Error::new(ErrorKind::Busy, text)
    })
}
