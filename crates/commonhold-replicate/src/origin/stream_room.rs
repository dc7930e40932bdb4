//! Room in the stream for changes that did not fit into it: every full sync needs it, and making it
//! may wait for a stopped process. A serving thread does that seldom, because its other replicas
//! wait meanwhile.

use crate::delivery::fit;
use commonhold::Error;
use commonhold::map::Map;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For this long after a failure, nothing is tried.
const PAUSE: Duration = Duration::from_secs(1);

/// The last failure, for all serving threads of an origin.
#[derive(Default)]
pub(crate) struct StreamRoom(Mutex<Option<(Instant, Error)>>);

impl StreamRoom {
    /// Makes the stream large enough, if it is not; why that failed, now or a short time ago.
    pub(crate) fn make(&self, map: &Map) -> Option<Error> {
        self.make_by(Instant::now(), || fit(map))
    }

    /// The same by another attempt.
    pub(crate) fn make_by(
        &self,
        now: Instant,
        attempt: impl FnOnce() -> Option<Error>,
    ) -> Option<Error> {
        let mut failure = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |(at, _): &(Instant, Error)| now.saturating_duration_since(*at) < PAUSE;
        if !failure.as_ref().is_some_and(is_recent) {
            // From its end on, however long it takes.
            *failure = attempt().map(|error| (Instant::now().max(now), error));
        }
        failure.as_ref().map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonhold::ErrorKind;

    #[test]
    fn a_failure_counts_for_a_while() {
        let (room, begin, mut attempts) = (StreamRoom::default(), Instant::now(), 0);
        let mut make = |now| {
            let failed = room.make_by(now, || {
                attempts += 1;
                (attempts < 3).then(|| Error::new(ErrorKind::TimedOut, attempts.to_string()))
            });
            (failed.map(|error| error.to_string()), attempts)
        };
        let late = begin + 100 * PAUSE;
        assert_eq!(make(late), (Some("1".to_owned()), 1));
        assert_eq!(make(late + PAUSE / 2), (Some("1".to_owned()), 1));
        assert_eq!(make(late + PAUSE), (Some("2".to_owned()), 2));
        assert_eq!(make(late + 2 * PAUSE), (None, 3));
        assert_eq!(make(late + 2 * PAUSE), (None, 4));
    }
}
