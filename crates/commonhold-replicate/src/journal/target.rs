//! The file that a journal's next file is to replace: no other journal may be writing it. The same
//! for a directory with the journals of all maps of a hold.
//!
//! Other processes are kept away by a lock on the file at the path. In the same process, that lock
//! excludes nobody, so each process also has a list of the paths of its journals.

use crate::journal::file::{Identity, failed, identity, identity_at, lock, lock_for};
use commonhold::raw::process_number;
use commonhold::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The paths of this process's journals, with its number. A forked child inherits the parent's,
/// which do not count.
static OWN: Mutex<Vec<(u32, PathBuf)>> = Mutex::new(Vec::new());

/// A path in the list of this process's journals.
#[derive(Debug)]
pub(super) struct OwnPath(PathBuf);

impl OwnPath {
    /// # Errors
    /// `Busy` if another journal of this process has the path.
    pub(super) fn take(path: &Path) -> Result<OwnPath> {
        let entry = (process_number(), path.to_owned());
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        if own.contains(&entry) {
            let text = format!(
                "{}: this process ({}) writes this journal already; use another file",
                path.display(),
                std::process::id()
            );
            return Err(Error::new(ErrorKind::Busy, text));
        }
        own.push(entry);
        Ok(OwnPath(path.to_owned()))
    }
}

impl Drop for OwnPath {
    fn drop(&mut self) {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|(process, path)| *process != process_number() || *path != self.0);
    }
}

/// The locked file at the path; while this lives, no other journal replaces it.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) identity: Identity,
    /// `None` if this process may not write the file: then no lock is possible.
    _file: Option<File>,
}

impl Target {
    /// Locks the file at this path; `None` if there is none.
    ///
    /// # Errors
    /// `Busy` if another process writes it, which the error names; those of files.
    pub(super) fn lock(path: &Path) -> Result<Option<Target>> {
        loop {
            let file = match OpenOptions::new().read(true).write(true).open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    let there = identity_at(path);
                    let identity = there.map_err(|e| failed(path, "cannot be examined", &e))?;
                    return Ok(Some(Target { identity, _file: None }));
                }
                Err(error) => return Err(failed(path, "cannot be replaced", &error)),
            };
            lock(&file, path)?;
            let metadata = file.metadata().map_err(|e| failed(path, "cannot be examined", &e))?;
            let identity = identity(&metadata);
            match identity_at(path) {
                Ok(there) if there == identity => {
                    return Ok(Some(Target { identity, _file: Some(file) }));
                }
                // Another journal has replaced the file before the lock was taken.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(path, "cannot be examined", &error)),
            }
        }
    }
}

/// A directory with journals; while this lives, no other process writes journals of a hold there.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
    // Behind the file, whose closing releases the lock of every journal of this process.
    _own: OwnPath,
}

impl DirectoryLock {
    /// Locks the file `lock` in the directory, which no other program reads: closing a file
    /// releases all locks that the process has on it.
    ///
    /// # Errors
    /// `Busy` if another journal writes there; those of files.
    pub(crate) fn take(directory: &Path) -> Result<DirectoryLock> {
        let path = directory.join("lock");
        // Before the file is opened: another journal of this process may have locked it.
        let own = OwnPath::take(&path)?;
        let mut options = OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|e| failed(&path, "cannot write", &e))?;
        lock_for(&file, &path, "directory")?;
        Ok(DirectoryLock { _file: file, _own: own })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonhold_testing::support::process::{Child, until};

    fn is_open(path: &Path) -> bool {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let mut targets = descriptors.map(|entry| std::fs::read_link(entry.unwrap().path()));
        targets.any(|target| target.is_ok_and(|target| target == path))
    }

    /// Otherwise the closing would release the lock of a journal that has begun meanwhile.
    #[test]
    fn the_file_of_a_directory_is_closed_before_its_path_is_free() {
        // A process of its own: a child that another test forked meanwhile would have the list
        // locked forever.
        Child::run("alone", || {
            let directory = tempfile::tempdir_in("/dev/shm").unwrap();
            let (lock, path) =
                (DirectoryLock::take(directory.path()).unwrap(), directory.path().join("lock"));
            assert!(is_open(&path));
            // The path is in the list until this is over.
            let own = OWN.lock().unwrap();
            let ends = std::thread::spawn(|| drop(lock));
            until("the file is closed", || !is_open(&path));
            assert!(own.contains(&(process_number(), path.clone())));
            drop(own);
            ends.join().unwrap();
            DirectoryLock::take(directory.path()).unwrap();
        })
        .finish();
    }
}
