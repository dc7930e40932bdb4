//! A hold of the run's own, gone when the run is over.
//!
//! It is created with "delete when the last user exits", so that it disappears even if every
//! process of the run is killed; an orderly end deletes it at once. Invariant: with `keep` nothing
//! is ever deleted.

use super::{Result, RunError};
use commonhold::{ErrorKind, Hold};
use commonhold_terminal::failure::complain;
use std::path::{Path, PathBuf};

/// The hold of one run.
pub struct TemporaryHold {
    hold: Option<Hold>,
    path: PathBuf,
    keep: bool,
}

impl TemporaryHold {
    /// Makes the hold `name`, which must not exist.
    pub fn create(name: &Path, max_bytes: Option<u64>, keep: bool) -> Result<TemporaryHold> {
        let mut options = Hold::options().delete_on_last_exit(!keep);
        if let Some(bytes) = max_bytes {
            options = options.max_bytes(bytes);
        }
        let hold = options.create(name).map_err(|e| match e.kind() {
            ErrorKind::Exists => RunError::new(format!(
                "{e}; a run needs its own hold: choose another name, or drop that hold"
            )),
            _ => e.into(),
        })?;
        let path = hold.path().to_owned();
        Ok(TemporaryHold { hold: Some(hold), path, keep })
    }

    /// The open hold.
    pub fn hold(&self) -> &Hold {
        self.hold.as_ref().expect("the hold is open until it is dropped")
    }

    /// Deletes it at the end, in spite of `keep`.
    pub fn discard(&mut self) {
        self.keep = false;
    }

    /// The path at which workers open it.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryHold {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            // If closing fails, the deletion below still runs, and reports its error.
            let _ = hold.close();
        }
        if self.keep {
            return;
        }
        match commonhold::hold::remove(&self.path, true) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => complain(&format!("{} was not deleted: {e}", self.path.display())),
        }
    }
}
