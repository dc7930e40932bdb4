//! A constant rate without coordinated omission.
//!
//! Turn `n` is due at the start plus `n` periods, whether or not the one before was on time, and
//! its latency counts from then. So a process that is delayed pays for every turn that should have
//! happened meanwhile. (The term is Gil Tene's, "How NOT to Measure Latency".) Invariant: the
//! instants depend on the start and the rate alone.

use crate::workload::clock::{now_ns, spin_until};
use clap::ValueEnum;
use commonhold::channel::Wait;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long after the end the turns that were due before it are still done: to leave out the
/// latest of all would be an omission, too.
pub const GRACE_NS: u64 = 1_000_000_000;

const SECOND: u64 = 1_000_000_000;
/// The most by which a sleep may end late; the rest of a wait spins.
const MARGIN_NS: u64 = 200_000;

/// How a process waits: for messages, for room, for an instant.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiting {
    /// Poll: lowest latency, but each process occupies a whole processor
    Spin,
    /// Sleep, and poll only for a moment
    Sleep,
}

impl Waiting {
    /// The same for the library.
    pub fn wait(self) -> Wait {
        match self {
            Waiting::Spin => Wait::Spin,
            Waiting::Sleep => Wait::Sleep,
        }
    }

    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Waiting::Spin => "spin",
            Waiting::Sleep => "sleep",
        }
    }

    /// Waits until an instant of the common clock.
    pub fn until(self, instant_ns: u64) {
        if self == Waiting::Sleep {
            let left = instant_ns.saturating_sub(now_ns());
            if left > MARGIN_NS {
                std::thread::sleep(Duration::from_nanos(left - MARGIN_NS));
            }
        }
        spin_until(instant_ns);
    }
}

/// When turns are due.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    start_ns: u64,
    per_second: u64,
}

impl Pace {
    /// `rate` turns per second from `start_ns` on; `None` for 0, which means as fast as possible.
    pub fn new(start_ns: u64, per_second: u64) -> Option<Pace> {
        (per_second > 0).then_some(Pace { start_ns, per_second })
    }

    /// The instant of turn `turn`.
    #[inline]
    pub fn due(self, turn: u64) -> u64 {
        let (seconds, rest) = (turn / self.per_second, turn % self.per_second);
        self.start_ns
            + seconds * SECOND
            + (u128::from(rest) * u128::from(SECOND) / u128::from(self.per_second)) as u64
    }

    /// How many turns are due before `end_ns`.
    pub fn turns_until(self, end_ns: u64) -> u64 {
        let span = u128::from(end_ns.saturating_sub(self.start_ns));
        (span * u128::from(self.per_second)).div_ceil(u128::from(SECOND)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_due_at_equal_distances() {
        let pace = Pace::new(5 * SECOND, 3).unwrap();
        let due: Vec<u64> = (0..5).map(|turn| pace.due(turn) - 5 * SECOND).collect();
        assert_eq!(due, [0, 333_333_333, 666_666_666, SECOND, SECOND + 333_333_333]);
        assert_eq!(pace.turns_until(6 * SECOND), 3);
        assert_eq!(pace.turns_until(6 * SECOND + 1), 4);
        assert_eq!(pace.turns_until(0), 0);
        assert!(Pace::new(0, 0).is_none());
    }

    #[test]
    fn an_instant_is_waited_for_either_way() {
        for waiting in [Waiting::Spin, Waiting::Sleep] {
            let instant = now_ns() + 1_000_000;
            waiting.until(instant);
            assert!(now_ns() >= instant);
        }
    }
}
