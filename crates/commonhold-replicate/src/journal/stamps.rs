//! The times that a file records: by when the changes before them had been made.
//!
//! A time follows the changes to which it belongs. It is read when these changes have been taken
//! from the stream, and written before further changes if it is needed: a second after the last
//! one, or because the map was idle since. So each state that lasted has its time. Before further
//! changes, and at the end of a file, a second time states how long it has lasted.

use crate::journal::span::Span;

/// The longest time between two times in a file while changes arrive.
const EVERY_MS: u64 = 1000;
/// A map without changes for this long is idle.
const IDLE_MS: u64 = 250;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// The times of the states in the file.
    pub(super) span: Option<Span>,
    /// The last time in the file.
    last_ms: u64,
    /// The time of the last changes in the file, until it is written.
    pending: Option<u64>,
    /// A time at which there were no further changes.
    unchanged_ms: Option<u64>,
}

impl Stamps {
    /// Those of a file that has these times, and changes behind the last one or not.
    pub(super) fn of(span: Option<Span>, has_more: bool, now_ms: u64) -> Stamps {
        let last_ms = span.map_or(0, |span| span.last_ms);
        Stamps { span, last_ms, pending: has_more.then_some(now_ms), unchanged_ms: None }
    }

    /// The time to write before further changes, if one is needed.
    pub(super) fn due(&self, now_ms: u64) -> Option<u64> {
        let is_second = |ms: &u64| ms.abs_diff(self.last_ms) >= EVERY_MS;
        match self.pending {
            Some(_) if self.is_idle(now_ms) => self.pending,
            Some(_) => self.pending.filter(is_second),
            None => self.unchanged_ms.filter(is_second),
        }
    }

    /// The time to write because no change has come for a while.
    pub(super) fn due_when_idle(&self, now_ms: u64) -> Option<u64> {
        self.pending.filter(|_| self.is_idle(now_ms))
    }

    /// The next time to write at the end of a file.
    pub(super) fn due_at_end(&self) -> Option<u64> {
        self.pending.or(self.unchanged_ms.filter(|ms| *ms > self.last_ms))
    }

    fn is_idle(&self, now_ms: u64) -> bool {
        self.pending.is_some_and(|ms| ms.abs_diff(now_ms) >= IDLE_MS)
    }

    /// Notes that a time was written.
    pub(super) fn note_written(&mut self, ms: u64) {
        (self.span, self.last_ms, self.pending) = (Some(Span::with(self.span, ms)), ms, None);
    }

    /// Notes that changes were written which had been made by now.
    pub(super) fn note_changes(&mut self, now_ms: u64) {
        (self.pending, self.unchanged_ms) = (Some(now_ms), None);
    }

    /// Notes that no further changes had been made at this time.
    pub(super) fn note_unchanged(&mut self, ms: u64) {
        self.unchanged_ms = Some(ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_due_each_second_and_before_a_pause() {
        let mut stamps = Stamps::of(None, true, 5000);
        assert_eq!(stamps.due(5000), Some(5000), "the first one");
        stamps.note_written(5000);
        assert_eq!((stamps.due(9000), stamps.due_when_idle(9000)), (None, None));
        stamps.note_changes(5100);
        assert_eq!((stamps.due(5100), stamps.due_when_idle(5349)), (None, None));
        assert_eq!((stamps.due(5350), stamps.due_when_idle(5350)), (Some(5100), Some(5100)));
        stamps.note_changes(6000);
        assert_eq!((stamps.due(6000), stamps.due_when_idle(6000)), (Some(6000), None));
        stamps.note_written(6000);
        // The clock is set back.
        stamps.note_changes(1000);
        assert_eq!(stamps.due(1000), Some(1000));
        stamps.note_written(1000);
        assert_eq!(stamps.span, Some(Span { first_ms: 1000, last_ms: 6000 }));
        // How long the state has lasted.
        stamps.note_unchanged(1900);
        assert_eq!((stamps.due(2000), stamps.due_at_end()), (None, Some(1900)));
        stamps.note_unchanged(2000);
        assert_eq!((stamps.due(2001), stamps.due_when_idle(2001)), (Some(2000), None));
        stamps.note_changes(2001);
        assert_eq!((stamps.due(2001), stamps.due_at_end()), (Some(2001), Some(2001)));
        let resumed = Stamps::of(stamps.span, false, 7000);
        assert_eq!((resumed.due_at_end(), resumed.due(9000)), (None, None));
    }
}
