//! An error of waiting that comes again and again: noted once, and paused for longer each time.

use std::time::{Duration, Instant};

/// The first pause; each next one is twice as long.
const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);
/// An error that has not come for so long is news.
const CALM: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// What came last, and when.
    last: Option<(String, Instant)>,
    pause: Duration,
}

impl Trouble {
    /// Notes an error; whether it is to be said.
    pub(crate) fn comes(&mut self, error: &str, now: Instant) -> bool {
        let is_known = |(text, at): &(String, Instant)| {
            text == error && now.saturating_duration_since(*at) < CALM
        };
        let known = self.last.as_ref().is_some_and(is_known);
        self.last = Some((error.to_owned(), now));
        self.pause = if known { (self.pause * 2).clamp(FIRST, LONGEST) } else { FIRST };
        !known
    }

    /// Notes that all is well, for now.
    pub(crate) fn goes(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// How long to pause.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_said_once_until_it_changes() {
        let (mut trouble, now) = (Trouble::default(), Instant::now());
        assert!(trouble.comes("a", now));
        assert_eq!(trouble.pause(), FIRST);
        for _ in 0..20 {
            assert!(!trouble.comes("a", now));
        }
        assert_eq!(trouble.pause(), LONGEST);
        // Well in between: the same is no news, and is paused for as at first.
        trouble.goes();
        assert!(!trouble.comes("a", now));
        assert_eq!(trouble.pause(), FIRST);
        assert!(trouble.comes("b", now));
        assert!(trouble.comes("a", now));
        assert!(!trouble.comes("a", now + CALM / 2));
        assert!(trouble.comes("a", now + CALM * 2));
    }
}
