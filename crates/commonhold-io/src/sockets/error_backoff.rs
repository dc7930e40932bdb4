//! An error of waiting that comes again and again: reported once, with a longer pause each time.

use std::time::{Duration, Instant};

/// The first pause; each next one is twice as long.
const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);
/// The time after which the same error is reported again.
const CALM: Duration = Duration::from_secs(60);

/// An error that may come again and again, and the pause after it.
#[derive(Debug, Default)]
pub struct ErrorBackoff {
    /// The last error, and its time.
    last: Option<(String, Instant)>,
    pause: Duration,
}

impl ErrorBackoff {
    /// Notes an error; true if the caller should report it.
    pub fn failed(&mut self, error: &str, now: Instant) -> bool {
        let is_known = |(text, at): &(String, Instant)| {
            text == error && now.saturating_duration_since(*at) < CALM
        };
        let known = self.last.as_ref().is_some_and(is_known);
        self.last = Some((error.to_owned(), now));
        self.pause = if known { (self.pause * 2).clamp(FIRST, LONGEST) } else { FIRST };
        !known
    }

    /// Notes a success.
    pub fn succeeded(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// The pause before the next attempt.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_reported_once_until_it_changes() {
        let (mut error_backoff, now) = (ErrorBackoff::default(), Instant::now());
        assert!(error_backoff.failed("a", now));
        assert_eq!(error_backoff.pause(), FIRST);
        for _ in 0..20 {
            assert!(!error_backoff.failed("a", now));
        }
        assert_eq!(error_backoff.pause(), LONGEST);
        // A success in between: the same error is not reported again, and its pause is the first
        // one.
        error_backoff.succeeded();
        assert!(!error_backoff.failed("a", now));
        assert_eq!(error_backoff.pause(), FIRST);
        assert!(error_backoff.failed("b", now));
        assert!(error_backoff.failed("a", now));
        assert!(!error_backoff.failed("a", now + CALM / 2));
        assert!(error_backoff.failed("a", now + CALM * 2));
    }
}
