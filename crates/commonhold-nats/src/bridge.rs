//! Every bridge runs sessions, one after another, until it shall stop.
//!
//! A session ends with every error, and the next one begins after a pause. When the bridge shall
//! stop, a session has a moment to end by itself. Then it is dropped where it waits, which leaves
//! what a kill would leave.

use crate::status::StatusReport;
use crate::trouble::{LOOK, Pauses, Session, Trouble};
use commonhold::{Error, Result};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a session may take to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// An event of a bridge.
#[derive(Debug)]
#[non_exhaustive]
pub enum BridgeEvent<'a> {
    /// Both sides were equal a moment ago, for the first time in this session.
    Ready,
    /// A session ended, and the next one begins soon.
    Interrupted(&'a Error),
    /// The bridge skipped a pair or a message that the other side does not accept. The error names
    /// it.
    Skipped(&'a Error),
}

/// Returns true once a bridge shall stop.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);
/// Receives the events of a bridge.
pub(crate) type Events<'a> = &'a (dyn Fn(BridgeEvent<'_>) + Sync);

/// The wishes of a bridge's owner, for its sessions.
pub(crate) struct Control<'a> {
    stop: Stop<'a>,
    events: Events<'a>,
    was_ready: AtomicBool,
}

impl Control<'_> {
    /// Whether the bridge shall stop.
    pub(crate) fn stops(&self) -> bool {
        (self.stop)()
    }

    /// # Errors
    /// `Stopped` if the bridge shall stop.
    pub(crate) fn ensure_runs(&self) -> Session<()> {
        if self.stops() { Err(Trouble::Stopped) } else { Ok(()) }
    }

    /// Reports that both sides are equal: the next pause is short again.
    pub(crate) fn ready(&self) {
        // Relaxed: only this task uses it.
        self.was_ready.store(true, Ordering::Relaxed);
        (self.events)(BridgeEvent::Ready);
    }

    /// Reports what the other side cannot have.
    pub(crate) fn skipped(&self, error: &Error) {
        (self.events)(BridgeEvent::Skipped(error));
    }
}

/// A bridge that [`run`] runs.
pub(crate) trait Bridge {
    /// Works until an error, or until the bridge shall stop.
    async fn session(&mut self, control: &Control<'_>) -> Session<()>;

    /// Its report about itself.
    fn report(&self) -> &StatusReport;

    /// Whether both sides have existed since it was opened. Before, one that is missing is a
    /// mistake; afterwards it may come back.
    fn has_begun(&self) -> bool;

    /// Prepares for the next session.
    fn interrupted(&mut self, _: &Error) {}
}

/// Runs the sessions of a bridge until `stop` returns true.
///
/// # Errors
/// Those that a retry cannot solve.
pub(crate) async fn run(
    bridge: &mut impl Bridge,
    stop: Stop<'_>,
    events: Events<'_>,
) -> Result<()> {
    let control = Control { stop, events, was_ready: AtomicBool::new(false) };
    let mut pauses = Pauses::new();
    while !stop() {
        let ended = match select(pin!(bridge.session(&control)), pin!(stopped(stop))).await {
            Either::Left((ended, _)) => ended,
            Either::Right(_) => Err(Trouble::Stopped),
        };
        let error = match ended {
            Ok(()) | Err(Trouble::Stopped) => return Ok(()),
            Err(Trouble::Final(error)) => return Err(error),
            Err(Trouble::Passing(error)) if error.is_not_found() && !bridge.has_begun() => {
                return Err(error);
            }
            Err(Trouble::Passing(error)) => error,
        };
        if control.was_ready.swap(false, Ordering::Relaxed) {
            pauses.reset();
        }
        bridge.interrupted(&error);
        bridge.report().failed(&error);
        events(BridgeEvent::Interrupted(&error));
        pauses.wait(stop).await;
    }
    Ok(())
}

/// Returns when the bridge shall have stopped.
async fn stopped(stop: Stop<'_>) {
    while !stop() {
        tokio::time::sleep(LOOK).await;
    }
    tokio::time::sleep(GRACE).await;
}
