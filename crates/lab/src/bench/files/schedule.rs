//! The due times of a thread's requests: as soon as one was answered (closed loop), or at a rate.
//!
//! At a rate the threads take turns: turn `n` belongs to thread `n` modulo their number. The
//! instants depend only on the start, so a server that stalls pays for every request that was due
//! meanwhile ([`pace`]).
//!
//! [`pace`]: super::super::pace

use super::super::pace::{GRACE_NS, Pace};

/// One thread's schedule.
pub enum Schedule {
    /// Whenever there is room, up to a number of requests, until an instant.
    Closed {
        /// Requests still to be sent.
        left: u64,
        /// The last instant to send one.
        end_ns: u64,
    },
    /// Each at its instant.
    Paced {
        /// The instants of all threads.
        pace: Pace,
        /// The next turn of this one.
        turn: u64,
        /// How many threads there are.
        step: u64,
        /// Turns of all threads.
        turns: u64,
        /// After it, late requests are sent for a while only.
        end_ns: u64,
    },
}

impl Schedule {
    /// When a request that could be sent now is due, or was.
    #[inline]
    pub fn due(&self, now_ns: u64) -> Option<u64> {
        match *self {
            Schedule::Closed { left, end_ns } => (left > 0 && now_ns < end_ns).then_some(now_ns),
            Schedule::Paced { .. } => self.instant(now_ns).filter(|due_ns| *due_ns <= now_ns),
        }
    }

    /// It was sent.
    #[inline]
    pub fn take(&mut self) {
        match self {
            Schedule::Closed { left, .. } => *left -= 1,
            Schedule::Paced { turn, step, .. } => *turn += *step,
        }
    }

    /// The instant to wait for, if there is one.
    pub fn instant(&self, now_ns: u64) -> Option<u64> {
        match *self {
            Schedule::Closed { .. } => None,
            Schedule::Paced { pace, turn, .. } => (!self.is_over(now_ns)).then(|| pace.due(turn)),
        }
    }

    /// Whether nothing more is to be sent.
    #[inline]
    pub fn is_over(&self, now_ns: u64) -> bool {
        match *self {
            Schedule::Closed { left, end_ns } => left == 0 || now_ns >= end_ns,
            Schedule::Paced { turn, turns, end_ns, .. } => {
                turn >= turns || now_ns >= end_ns.saturating_add(GRACE_NS)
            }
        }
    }

    /// Requests that were due and were not sent.
    pub fn unsent(&self) -> u64 {
        match *self {
            Schedule::Closed { .. } => 0,
            Schedule::Paced { turn, step, turns, .. } => turns.saturating_sub(turn).div_ceil(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_loop_ends_by_number_or_by_time() {
        let mut closed = Schedule::Closed { left: 2, end_ns: 100 };
        assert_eq!((closed.due(5), closed.due(100)), (Some(5), None));
        closed.take();
        closed.take();
        assert!(closed.due(5).is_none() && closed.is_over(5));
        assert_eq!((closed.instant(5), closed.unsent()), (None, 0));
    }

    #[test]
    fn threads_take_turns_and_late_ones_stay_due() {
        let pace = Pace::new(1_000, 1_000_000_000).unwrap();
        let mut second = Schedule::Paced { pace, turn: 1, step: 2, turns: 6, end_ns: 1_006 };
        assert_eq!((second.due(1_000), second.instant(1_000)), (None, Some(1_001)));
        assert_eq!(second.due(9_000), Some(1_001), "it counts from its due time");
        second.take();
        assert_eq!(second.due(9_000), Some(1_003));
        assert_eq!(second.unsent(), 2);
        assert!(second.due(1_006 + GRACE_NS).is_none() && second.is_over(1_006 + GRACE_NS));
    }
}
