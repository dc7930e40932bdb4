//! The files of the directory as one database, for a server that reads from there (`--files
//! sqlite`).
//!
//! `hold serve-import` creates it when the first server needs it; later servers share it, and it is
//! deleted with the run.

use super::layout::Layout;
use crate::workload::{Result, RunError};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A database that may exist already.
#[derive(Default)]
pub struct Database {
    folder: OnceCell<TempDir>,
}

impl Database {
    /// Its path. `program` creates it from `directory` if it does not exist yet.
    pub fn path(&self, program: &Path, directory: &Path, layout: Layout) -> Result<PathBuf> {
        let path = |folder: &TempDir| folder.path().join("files.db");
        if let Some(folder) = self.folder.get() {
            return Ok(path(folder));
        }
        let folder = tempfile::Builder::new().prefix("hold-bench-").tempdir()?;
        let made = path(&folder);
        let mut command = Command::new(program);
        command.arg("serve-import").args([directory, &made]).args(["--layout", layout.name()]);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
        let failed =
            |what: String| RunError::new(format!("no database for --files sqlite: {what}"));
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(failed(format!("'hold serve-import' ended: {status}"))),
            Err(error) => return Err(failed(format!("{}: {error}", program.display()))),
        }
        Ok(path(self.folder.get_or_init(|| folder)))
    }
}
