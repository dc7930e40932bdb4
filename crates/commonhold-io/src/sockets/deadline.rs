//! The end of a `wait`, however often the wait is interrupted.

use std::time::{Duration, Instant};

/// A moment, or never. A timeout too long for the clock is never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    pub(super) fn after(timeout: Option<Duration>) -> Deadline {
        Deadline(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// The time until then; zero if it has passed, `None` if it never comes.
    pub(super) fn left(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }

    pub(super) fn has_passed(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }
}
