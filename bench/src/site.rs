//! Where a run keeps its files: one directory with a random name, locked by the run that made it.
//!
//! Invariant: a directory whose lock is free belongs to a run that died, and the next run removes
//! it. So files remain on a memory file system only until the next run, even after SIGKILL. The
//! rounds and the tests call this module.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};

const PREFIX: &str = "commonhold-bench.";
const LOCK: &str = "lock";
/// The directory in which Linux has POSIX shared memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// The directory of one run; removed when dropped.
pub struct Site {
    directory: tempfile::TempDir,
    runs: u32,
    // Held open, and so locked, for as long as the directory lives.
    _lock: File,
}

impl Site {
    /// Creates the directory in `parent`, after it has removed those of dead runs.
    pub fn new(parent: &Path) -> Result<Site> {
        sweep(parent)?;
        let directory = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(parent)
            .with_context(|| format!("cannot make a directory in {}", parent.display()))?;
        // The file is locked before it gets its name, so a run that sweeps at this moment does not
        // take this run for dead.
        let unready = directory.path().join("unready");
        let lock = File::create(&unready).context("cannot make a lock file")?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).context("cannot lock the site")?;
        fs::rename(&unready, directory.path().join(LOCK)).context("cannot name the lock file")?;
        Ok(Site { directory, runs: 0, _lock: lock })
    }

    /// Creates an empty directory for the next store. Its path is short, because the path of a
    /// socket has a length limit.
    pub fn fresh(&mut self) -> Result<PathBuf> {
        self.runs += 1;
        let path = self.directory.path().join(self.runs.to_string());
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }
}

/// A name for objects that a rival cannot put into its directory; it shows the owner.
pub fn mark(site: &Path) -> String {
    let names = site.components().rev().take(2);
    let names: Vec<_> = names.map(|one| one.as_os_str().to_string_lossy()).collect();
    names.into_iter().rev().collect::<Vec<_>>().join(".") + "."
}

/// Removes the objects with the [`mark`] of a run from the system's shared memory, which some
/// rivals have to use.
fn remove_marked(run: &Path) {
    let Some(name) = run.file_name() else { return };
    let mark = format!("{}.", name.to_string_lossy());
    // Errors are ignored, because no caller can use them: another run may remove the rest.
    for entry in fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&mark) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        remove_marked(self.directory.path());
    }
}

/// Removes the directories in `parent` whose run is dead.
fn sweep(parent: &Path) -> Result<()> {
    let entries = fs::read_dir(parent)
        .with_context(|| format!("cannot read {}: choose another --dir", parent.display()))?;
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A directory whose lock file cannot be opened belongs to another user, or is just being
        // created.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            eprintln!("removing {}, which a dead run left", entry.path().display());
            remove_marked(&entry.path());
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// The number of bytes that the files under `path` occupy: blocks, not lengths, because some files
/// are sparse.
pub fn allocated_bytes(path: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes +=
            if about.is_dir() { allocated_bytes(&entry.path())? } else { about.blocks() * 512 };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_runs_directory_is_removed_and_a_live_ones_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let live = Site::new(parent.path()).unwrap();
        let dead = parent.path().join(format!("{PREFIX}dead"));
        fs::create_dir(&dead).unwrap();
        File::create(dead.join(LOCK)).unwrap();

        let second = Site::new(parent.path()).unwrap();
        assert!(!dead.exists());
        assert!(live.directory.path().exists());
        assert!(second.directory.path().exists());
    }
}
