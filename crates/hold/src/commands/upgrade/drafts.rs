//! The files of a copy that is not complete yet: a backup and a hold next to the copy, with hidden
//! names. Nothing has the name of the copy before it is complete. A killed upgrade leaves these
//! files behind, as other drafts are left where the file system has no nameless files.

use commonhold_terminal::failure::{Failure, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// The files; dropping this deletes them.
pub struct Drafts<'a> {
    /// The place of a backup of the maps.
    pub backup: PathBuf,
    /// The place of the new hold.
    pub hold: PathBuf,
    to: &'a Path,
}

impl<'a> Drafts<'a> {
    /// # Errors
    /// If there is a file with the name of the copy.
    pub fn new(to: &'a Path) -> Result<Drafts<'a>> {
        if to.symlink_metadata().is_ok() {
            return Err(exists(to));
        }
        let name = to.file_name().unwrap_or_default().to_string_lossy();
        let id = std::process::id();
        Ok(Drafts {
            backup: to.with_file_name(format!(".{name}.upgrade-{id}.backup")),
            hold: to.with_file_name(format!(".{name}.upgrade-{id}")),
            to,
        })
    }

    /// Gives the new hold, which no process has open, the name of the copy.
    pub fn commit(self) -> Result<()> {
        match renameat_with(CWD, &self.hold, CWD, self.to, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(exists(self.to)),
            Err(error) => return Err(failed(self.to, &error.into())),
        }
        let directory = self.to.parent().filter(|parent| *parent != Path::new(""));
        let synced = File::open(directory.unwrap_or(Path::new("."))).and_then(|d| d.sync_all());
        // File systems in memory have nothing to sync.
        match synced {
            Err(error) if error.kind() != ErrorKind::InvalidInput => Err(failed(self.to, &error)),
            _ => Ok(()),
        }
    }
}

impl Drop for Drafts<'_> {
    fn drop(&mut self) {
        for path in [&self.backup, &self.hold] {
            // Usually there is none.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn exists(to: &Path) -> Failure {
    Failure::failed(format!(
        "{}: already exists; choose another name or drop it first",
        to.display()
    ))
}

fn failed(to: &Path, error: &Error) -> Failure {
    Failure::failed(format!("{}: {error}", to.display()))
}
