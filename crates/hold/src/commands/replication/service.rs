//! A service that runs until a signal comes, and checks now and then whether its hold still exists.
//!
//! A hold may be deleted under a program that has it open (`hold drop --force`, logind's
//! RemoveIPC): the program would continue with a file that no other process can see. So would an
//! origin whose map was dropped. Both end instead, and report it.

use commonhold::Hold;
use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::interrupt::Interrupt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often it checks.
const LOOK: Duration = Duration::from_secs(1);
/// The same, during a wait for a condition.
const TURN: Duration = Duration::from_millis(50);

/// A service on a hold that runs until a signal comes.
pub struct Service {
    interrupt: Interrupt,
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

impl Service {
    /// Begins to watch for signals, and to watch the hold's file.
    pub fn begin(hold: &Hold) -> Result<Service> {
        Service::watching(hold, Interrupt::watch())
    }

    /// Like [`begin`](Self::begin), but the process ends at most `grace` after a signal, even if it
    /// is blocked.
    pub fn begin_strictly(hold: &Hold, grace: Duration) -> Result<Service> {
        Service::watching(hold, Interrupt::watch_strictly(grace))
    }

    fn watching(hold: &Hold, interrupt: std::io::Result<Interrupt>) -> Result<Service> {
        let path = hold.path().to_owned();
        let identity = identity(&path);
        Ok(Service { interrupt: interrupt.map_err(Failure::failed)?, path, identity })
    }

    /// Runs until a signal comes.
    ///
    /// # Errors
    /// If the hold is gone; those of `check`, which is called once a second.
    pub fn run(&self, check: impl Fn() -> Result<()>) -> Result<()> {
        while !self.interrupt.wait(LOOK) {
            self.ensure_hold()?;
            check()?;
        }
        Ok(())
    }

    /// Waits with `wait`, which takes a time limit and returns whether the condition holds; false
    /// if a signal came before, or after the time limit.
    ///
    /// # Errors
    /// If the hold is gone.
    pub fn until(
        &self,
        patience: Option<Duration>,
        wait: impl Fn(Duration) -> bool,
    ) -> Result<bool> {
        // Later than the clock can express: without limit.
        let end = patience.and_then(|patience| Instant::now().checked_add(patience));
        loop {
            let left = end.map_or(TURN, |end| end.saturating_duration_since(Instant::now()));
            if wait(left.min(TURN)) {
                return Ok(true);
            }
            if left.is_zero() || self.is_over() {
                return Ok(false);
            }
            self.ensure_hold()?;
        }
    }

    /// Whether a signal has come, or comes within `time`.
    pub fn is_over_within(&self, time: Duration) -> bool {
        self.interrupt.wait(time)
    }

    /// Whether a signal has come.
    pub fn is_over(&self) -> bool {
        self.interrupt.came()
    }

    /// Checks that the path still leads to the hold.
    ///
    /// # Errors
    /// If the hold was deleted or replaced.
    pub fn ensure_hold(&self) -> Result<()> {
        match identity(&self.path) == self.identity {
            true => Ok(()),
            false => Err(Failure::failed(format!(
                "{}: this hold was deleted or replaced; start the command again",
                self.path.display()
            ))),
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}
