//! Runs a bridge until a signal comes or its hold is gone, and prints its events.

use commonhold::Hold;
use commonhold_nats::bridge::BridgeEvent;
use commonhold_terminal::failure::{Failure, Result, note};
use commonhold_terminal::interrupt::Interrupt;
use commonhold_terminal::output::Output;
use serde_json::json;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often it looks for the hold.
const LOOK: Duration = Duration::from_secs(1);

/// How long a bridge runs.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct Life {
    /// Exit when standard input is closed, so that the bridge ends with the program that started it
    #[arg(long)]
    until_eof: bool,
}

/// See the module.
pub struct BridgeLoop {
    interrupt: Interrupt,
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
    is_there: Mutex<(bool, Instant)>,
    has_ended: Arc<AtomicBool>,
    output: Output,
    /// The subcommand and its sides.
    name: String,
}

impl BridgeLoop {
    /// Begins to watch for signals, and to watch the hold's file.
    ///
    /// # Errors
    /// Those of setting up signal handlers.
    pub fn begin(hold: &Hold, output: &Output, life: Life, name: String) -> Result<BridgeLoop> {
        let path = hold.path().to_owned();
        let has_ended = Arc::new(AtomicBool::new(false));
        if life.until_eof {
            watch_input(&has_ended)?;
        }
        Ok(BridgeLoop {
            interrupt: Interrupt::watch().map_err(Failure::failed)?,
            identity: identity(&path),
            path,
            is_there: Mutex::new((true, Instant::now())),
            has_ended,
            output: *output,
            name,
        })
    }

    /// Whether the bridge shall end: a signal came, or the hold was deleted under it.
    pub fn is_over(&self) -> bool {
        if self.was_asked() {
            return true;
        }
        let Ok(mut is_there) = self.is_there.lock() else { return true };
        if is_there.1.elapsed() >= LOOK {
            *is_there = (identity(&self.path) == self.identity, Instant::now());
        }
        !is_there.0
    }

    /// Relaxed: a flag that orders nothing.
    fn was_asked(&self) -> bool {
        self.interrupt.came() || self.has_ended.load(Ordering::Relaxed)
    }

    /// Prints an event.
    pub fn show(&self, event: &BridgeEvent<'_>) {
        match event {
            BridgeEvent::Ready => {
                let name = &self.name;
                // A bridge continues without its reader.
                let _ = self.output.report(&json!({ "event": "ready" }), &format!("{name}: ready"));
            }
            BridgeEvent::Skipped(error) => note(&format!("{}: skipped: {error}", self.name)),
            BridgeEvent::Interrupted(error) => note(&format!("{}: {error}; retrying", self.name)),
            _ => {}
        }
    }

    /// The failure if the hold is gone.
    ///
    /// # Errors
    /// That failure.
    pub fn end(&self) -> Result<()> {
        if self.was_asked() || identity(&self.path) == self.identity {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "{}: this hold was deleted or replaced; start the command again",
            self.path.display()
        )))
    }
}

/// Notes the end of standard input. The thread ends with the process.
fn watch_input(has_ended: &Arc<AtomicBool>) -> Result<()> {
    let has_ended = Arc::clone(has_ended);
    let thread = std::thread::Builder::new().name("hold-nats input".to_owned());
    let spawned = thread.spawn(move || {
        // An error is an end, too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        has_ended.store(true, Ordering::Relaxed);
    });
    spawned.map(drop).map_err(Failure::failed)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}
