//! Errors of a bridge: those that end it, and those after which it tries again.

use commonhold::{Error, ErrorKind};
use std::fmt::Display;
use std::time::{Duration, Instant};

/// The first pause after an error. Each next one is twice as long, up to `LONGEST`.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// How often a bridge that waits looks whether it shall stop.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Why a session of a bridge ended.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Only a person can help.
    Final(Error),
    /// The next session may succeed.
    Passing(Error),
    /// The bridge shall stop.
    Stopped,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        match error.kind() {
            ErrorKind::Busy
            | ErrorKind::Full
            | ErrorKind::Io
            | ErrorKind::Lapped
            | ErrorKind::NotFound
            | ErrorKind::TimedOut => Trouble::Passing(error),
            _ => Trouble::Final(error),
        }
    }
}

/// A session's result.
pub(crate) type Session<T> = Result<T, Trouble>;

/// An error of the network or the server.
pub(crate) fn failed(doing: impl Display, error: impl Display) -> Error {
    Error::new(ErrorKind::Io, format!("{doing}: {error}"))
}

/// The pauses between sessions.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
}

impl Pauses {
    pub(crate) fn new() -> Pauses {
        Pauses { next: FIRST }
    }

    /// The next pause is short again: a session has reached its goal.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// Pauses, unless `stop` returns true.
    pub(crate) async fn wait(&mut self, stop: &(dyn Fn() -> bool + Sync)) {
        let end = Instant::now() + self.next;
        self.next = (self.next * 2).min(LONGEST);
        while Instant::now() < end && !stop() {
            tokio::time::sleep(LOOK).await;
        }
    }
}
