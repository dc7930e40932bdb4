//! The scenarios of the channel's model, and for each break the one that has to catch it.
//!
//! Invariant: every break is listed once, with a scenario that passes when nothing is broken. Tests and
//! the command of this crate call it.

use super::{Break, Channel, Policy, Role};
use Policy::{Lossless, Lossy, Patient};
use Role::{Producer, Successor};

fn consumer(policy: Policy, oldest: bool, takes: u8) -> Role {
    Role::Consumer { policy, oldest, takes }
}

/// Messages of different sizes, with and without a filler at the wrap, and one who takes all from the oldest kept.
#[must_use]
pub fn wrap() -> Channel {
    Channel::new(&[1, 0, 1, 1, 0, 1], &[Producer, Successor, consumer(Lossless, true, 9)])
}

/// One who comes late and one who leaves early.
#[must_use]
pub fn join() -> Channel {
    let comers = [consumer(Lossless, false, 9), consumer(Lossless, true, 1)];
    Channel::new(&[0, 1, 1, 0], &[Producer, Successor, comers[0], comers[1]])
}

/// More consumers than lines: a dead one's line is claimed again.
#[must_use]
pub fn crowd() -> Channel {
    let one = consumer(Lossless, false, 1);
    Channel::new(&[1, 1], &[Producer, one, one, consumer(Lossless, true, 9)])
}

/// Who may miss messages.
#[must_use]
pub fn lossy() -> Channel {
    let roles = [Producer, Successor, consumer(Lossy, true, 9), consumer(Lossy, false, 9)];
    Channel::new(&[0, 2, 2, 0, 1], &roles)
}

/// A consumer that may miss messages, and a reservation that is cancelled.
#[must_use]
pub fn cancel() -> Channel {
    let roles = [Producer, Successor, consumer(Lossy, true, 9)];
    Channel { cancel: Some(3), ..Channel::new(&[0, 2, 0, 1, 0], &roles) }
}

/// A consumer that is dropped when it is too slow, and one that is not.
#[must_use]
pub fn patient() -> Channel {
    let roles = [Producer, consumer(Patient, true, 9), consumer(Lossless, false, 2)];
    Channel::new(&[1, 0, 1, 1], &roles)
}

/// Every scenario with its name and the most kills that it bears.
#[must_use]
pub fn all() -> Vec<(&'static str, Channel, u8)> {
    vec![
        ("wrap", wrap(), 2),
        ("join", join(), 2),
        ("crowd", crowd(), 2),
        ("lossy", lossy(), 2),
        ("cancel", cancel(), 2),
        ("patient", patient(), 2),
    ]
}

/// Every break with the scenario that catches it and the kills that it takes.
#[must_use]
pub fn breaks() -> Vec<(Break, Channel, u8)> {
    vec![
        (Break::NoZeroing, wrap(), 0),
        (Break::ZeroAfterRelease, wrap(), 1),
        (Break::RoomWithoutHeader, wrap(), 0),
        (Break::WriteLimitAfterBytes, lossy(), 0),
        (Break::CancelLowers, cancel(), 0),
        (Break::NoMark, wrap(), 1),
        (Break::NoSecondScan, join(), 0),
        (Break::SuccessorTrusts, join(), 1),
        (Break::DeadCount, join(), 1),
        (Break::ProducerClears, crowd(), 1),
        (Break::NoReread, join(), 0),
        (Break::ComparesMark, join(), 0),
        (Break::LossyTrusts, lossy(), 0),
        (Break::PatientTrusts, patient(), 0),
        (Break::NoWalk, wrap(), 1),
    ]
}
