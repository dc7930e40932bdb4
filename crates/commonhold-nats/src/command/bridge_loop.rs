//! Runs a bridge until a signal comes or its hold is gone, and prints its events.

use commonhold::Hold;
use commonhold_nats::mirror::BridgeEvent;
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::interrupt::Interrupt;
use commonhold_terminal::output::Output;
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often it looks for the hold.
const LOOK: Duration = Duration::from_secs(1);

/// See the module.
pub struct BridgeLoop {
    interrupt: Interrupt,
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
    is_there: Mutex<(bool, Instant)>,
    output: Output,
    /// The subcommand and its sides.
    name: String,
}

impl BridgeLoop {
    /// Begins to watch for signals, and to watch the hold's file.
    ///
    /// # Errors
    /// Those of setting up signal handlers.
    pub fn begin(hold: &Hold, output: &Output, name: String) -> Result<BridgeLoop> {
        let path = hold.path().to_owned();
        Ok(BridgeLoop {
            interrupt: Interrupt::watch().map_err(Failure::failed)?,
            identity: identity(&path),
            path,
            is_there: Mutex::new((true, Instant::now())),
            output: *output,
            name,
        })
    }

    /// Whether the bridge shall end: a signal came, or the hold was deleted under it.
    pub fn is_over(&self) -> bool {
        if self.interrupt.came() {
            return true;
        }
        let Ok(mut is_there) = self.is_there.lock() else { return true };
        if is_there.1.elapsed() >= LOOK {
            *is_there = (identity(&self.path) == self.identity, Instant::now());
        }
        !is_there.0
    }

    /// Prints an event.
    pub fn show(&self, event: &BridgeEvent<'_>) {
        match event {
            BridgeEvent::Ready => {
                let name = &self.name;
                // A bridge continues without its reader.
                let _ = self.output.report(&json!({ "event": "ready" }), &format!("{name}: ready"));
            }
            BridgeEvent::Interrupted(error) => note(&format!("{}: {error}; retrying", self.name)),
            _ => {}
        }
    }

    /// The failure if the hold is gone.
    ///
    /// # Errors
    /// That failure.
    pub fn end(&self) -> Result<()> {
        if self.interrupt.came() || identity(&self.path) == self.identity {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "{}: this hold was deleted or replaced; start the command again",
            self.path.display()
        )))
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}
