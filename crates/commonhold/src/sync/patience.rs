//! Patience: how long one call waits for others, in all of its waits together.
//!
//! Patience is the moment when waiting ends, not a length of time. A call reads the clock when it
//! has to wait for the first time. Each later wait of the same call ends at the same moment,
//! including the waits of a recovery that the call does on its way.

use std::fmt;
use std::time::{Duration, Instant};

/// How long a running holder of a lock takes to release it, with a wide margin. A participant that
/// only tidies up after others waits this long at most, then leaves the rest to the next one.
const MOMENT: Duration = Duration::from_millis(50);

/// The longest wait for a process that has the hold alone. Salvage may have it alone for longer
/// than anybody waits.
const MOST_ALONE: Duration = Duration::from_secs(5);

/// When a call stops waiting, and how long that is after its first wait. `None`: never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(Option<(Instant, Duration)>);

impl Patience {
    /// Patience for `time` from now on. `None`: without limit.
    pub(crate) fn new(time: Option<Duration>) -> Patience {
        Patience(time.and_then(|time| Some((Instant::now().checked_add(time)?, time))))
    }

    /// The same patience, ending at `end` if that is sooner.
    pub(crate) fn until(self, end: Option<Instant>) -> Patience {
        let Some(end) = end else { return self };
        match self.0 {
            Some((own, _)) if own <= end => self,
            _ => Patience(Some((end, end.saturating_duration_since(Instant::now())))),
        }
    }

    /// No patience: a lock that is not free now is not waited for.
    pub(crate) fn none() -> Patience {
        Patience::new(Some(Duration::ZERO))
    }

    /// The patience of a participant that tidies up.
    pub(crate) fn moment() -> Patience {
        Patience::new(Some(MOMENT))
    }

    /// The patience of a call that finds a process alone on the hold: `time`, but never unlimited.
    pub(crate) fn for_one_alone(time: Option<Duration>) -> Patience {
        Patience::new(Some(time.map_or(MOST_ALONE, |time| time.min(MOST_ALONE))))
    }

    /// The same patience, or a moment if that is shorter.
    pub(crate) fn but_a_moment(self) -> Patience {
        self.until(Patience::moment().0.map(|(end, _)| end))
    }

    /// The pause, or the time that is left if that is less. `None` if no time is left.
    pub(crate) fn shorten(self, pause: Duration) -> Option<Duration> {
        let Some((end, _)) = self.0 else { return Some(pause) };
        let left = end.saturating_duration_since(Instant::now());
        (!left.is_zero()).then(|| pause.min(left))
    }

    /// The length at the beginning; `None` for unlimited.
    fn length(self) -> Option<Duration> {
        self.0.map(|(_, length)| length)
    }
}

/// The beginning of an error: somebody waited, and for how long if there was a limit.
impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length() {
            Some(length) => write!(f, "waited {length:?}"),
            None => f.write_str("waited"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_for_all_waits_at_once() {
        let second = Duration::from_secs(1);
        assert_eq!(Patience::none().shorten(second), None);
        assert_eq!(Patience::new(None).shorten(second), Some(second));
        let long = Patience::new(Some(Duration::from_secs(1000)));
        assert_eq!(long.shorten(second), Some(second));
        assert!(long.shorten(Duration::MAX) <= long.length());
        assert!(long.but_a_moment().length() <= Some(MOMENT));
        assert!(long.until(None).length() == long.length());
        assert!(Patience::new(None).until(Some(Instant::now())).shorten(second).is_none());
        assert_eq!(Patience::for_one_alone(None).length(), Some(MOST_ALONE));
        assert_eq!(Patience::for_one_alone(Some(MOMENT)).length(), Some(MOMENT));
        assert_eq!(Patience::none().but_a_moment().length(), Some(Duration::ZERO));
        // More than any clock can represent means unlimited.
        assert_eq!(Patience::new(Some(Duration::MAX)).shorten(second), Some(second));
    }

    #[test]
    fn a_length_is_printed_only_if_there_is_one() {
        assert_eq!(Patience::new(Some(Duration::from_millis(300))).to_string(), "waited 300ms");
        assert_eq!(Patience::new(None).to_string(), "waited");
        assert_eq!(Patience::new(Some(Duration::MAX)).to_string(), "waited");
    }
}
