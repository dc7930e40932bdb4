//! The scenarios of the waiting model, and for each break the one that has to catch it.
//!
//! Invariant: every break is listed once, with a scenario that passes when nothing is broken. Tests and
//! the command of this crate call it.

use super::{Break, Role, Waiting};
use Role::{Successor, Waiter};

fn waker(batches: &[u8]) -> Role {
    Role::Waker(batches.to_vec())
}

/// Nobody dies and no sleep has a timeout: two waiters, and two wakers with one message and two.
#[must_use]
pub fn untimed() -> Waiting {
    Waiting::new(false, &[Waiter, Waiter, Waiter, waker(&[1, 1]), waker(&[1])])
}

/// A batch of messages for who sleeps.
#[must_use]
pub fn batch() -> Waiting {
    Waiting::new(false, &[Waiter, Waiter, waker(&[2])])
}

/// Wakers and waiters die, a successor takes over; no sleep has a timeout.
#[must_use]
pub fn takeover() -> Waiting {
    Waiting::new(false, &[Waiter, Waiter, waker(&[1, 1]), waker(&[1]), Successor])
}

/// Wakers and waiters die and nobody takes over: who sleeps wakes by itself and looks.
#[must_use]
pub fn timed() -> Waiting {
    Waiting::new(true, &[Waiter, Waiter, waker(&[1, 1]), waker(&[1])])
}

/// Every scenario with its name and the most kills that it bears.
#[must_use]
pub fn all() -> Vec<(&'static str, Waiting, u8)> {
    vec![
        ("untimed", untimed(), 0),
        ("batch", batch(), 0),
        ("takeover", takeover(), 2),
        ("timed", timed(), 2),
    ]
}

/// Every break with the scenario that catches it and the kills that it takes.
#[must_use]
pub fn breaks() -> Vec<(Break, Waiting, u8)> {
    vec![
        (Break::FlagIsFutex, untimed(), 0),
        (Break::NoLookAgain, batch(), 0),
        (Break::EventReadLate, batch(), 0),
        (Break::FlagSetLate, batch(), 0),
        (Break::ClearAfterWake, untimed(), 0),
        (Break::FlagReadEarly, batch(), 0),
        (Break::NoBump, batch(), 0),
        (Break::WakeOne, batch(), 0),
        (Break::TakeoverWithoutWake, takeover(), 1),
        (Break::TakeoverByFlag, takeover(), 1),
        (Break::NoTimeout, timed(), 1),
    ]
}
