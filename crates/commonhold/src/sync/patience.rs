//! Patience: how long one call waits for others, all its waits together.
//!
//! It is the moment when the waiting ends, not a length of time. A call looks at the clock when it
//! must wait for the first time; each later wait of the same call, also one of a recovery that it
//! does on its way, ends at the same moment.

use std::fmt;
use std::time::{Duration, Instant};

/// As long as one who runs and holds a lock takes to let it go, with much to spare. Who only tidies
/// after others waits so long at most, then leaves the rest to the next one.
const MOMENT: Duration = Duration::from_millis(50);

/// One that is alone on the hold, as salvage is, may be so for longer than anybody waits.
const MOST_ALONE: Duration = Duration::from_secs(5);

/// When a call stops waiting, and how long that is from its first wait; `None`: never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(Option<(Instant, Duration)>);

impl Patience {
    /// So long from now on; `None`: as long as it takes.
    pub(crate) fn new(time: Option<Duration>) -> Patience {
        Patience(time.and_then(|time| Some((Instant::now().checked_add(time)?, time))))
    }

    /// The same, or until then if that is sooner.
    pub(crate) fn until(self, end: Option<Instant>) -> Patience {
        let Some(end) = end else { return self };
        match self.0 {
            Some((own, _)) if own <= end => self,
            _ => Patience(Some((end, end.saturating_duration_since(Instant::now())))),
        }
    }

    /// None at all: what cannot be had at once is not waited for.
    pub(crate) fn none() -> Patience {
        Patience::new(Some(Duration::ZERO))
    }

    /// That of those who tidy.
    pub(crate) fn moment() -> Patience {
        Patience::new(Some(MOMENT))
    }

    /// That of a call that finds one alone on the hold: so long, but not for ever.
    pub(crate) fn for_one_alone(time: Option<Duration>) -> Patience {
        Patience::new(Some(time.map_or(MOST_ALONE, |time| time.min(MOST_ALONE))))
    }

    /// The same, or a moment if that is shorter.
    pub(crate) fn but_a_moment(self) -> Patience {
        self.until(Patience::moment().0.map(|(end, _)| end))
    }

    /// The pause, or what is left if that is less; `None` if nothing is.
    pub(crate) fn shorten(self, pause: Duration) -> Option<Duration> {
        let Some((end, _)) = self.0 else { return Some(pause) };
        let left = end.saturating_duration_since(Instant::now());
        (!left.is_zero()).then(|| pause.min(left))
    }

    /// How long it was at the beginning; `None` for ever.
    fn length(self) -> Option<Duration> {
        self.0.map(|(_, length)| length)
    }
}

/// That somebody has waited, and for how long if there was a limit: how an error begins.
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
        // Longer than any clock goes: as long as it takes.
        assert_eq!(Patience::new(Some(Duration::MAX)).shorten(second), Some(second));
    }

    #[test]
    fn a_length_is_said_only_if_there_is_one() {
        assert_eq!(Patience::new(Some(Duration::from_millis(300))).to_string(), "waited 300ms");
        assert_eq!(Patience::new(None).to_string(), "waited");
        assert_eq!(Patience::new(Some(Duration::MAX)).to_string(), "waited");
    }
}
