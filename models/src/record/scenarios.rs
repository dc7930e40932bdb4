//! The scenarios of the record model, and for each break the one that has to catch it.
//!
//! Invariant: every break is listed once, with a scenario that passes when nothing is broken. Tests and
//! the command of this crate call it.

use super::{Break, Op, Records};
use Op::{Claim, Delete, Get, Give, Move, Recycle, Replace, Set, Sweep};

/// Two writers on one key and a reader: the everyday case.
#[must_use]
pub fn two_writers_and_a_reader() -> Records {
    Records::scripts(&[&[Set(0, 2), Set(1, 4)], &[Set(0, 3), Delete(0)], &[Get(0)]])
}

/// A writer whose records are used again by another one, also for the other key.
#[must_use]
pub fn reuse_by_another() -> Records {
    Records::scripts(&[&[Set(0, 2), Set(0, 3), Give], &[Set(1, 4), Delete(1)], &[Get(0), Get(0)]])
}

/// One writer may die between sequence and slot; the other one reuses the record under a reader.
#[must_use]
pub fn reuse_under_a_reader() -> Records {
    Records::scripts(&[&[Set(0, 2), Set(0, 3)], &[Sweep, Set(0, 4), Set(0, 5)], &[Get(0)]])
}

/// Recoverers meet: a writer that dies, and two processes that sweep and write.
#[must_use]
pub fn two_recoverers() -> Records {
    Records::scripts(&[&[Set(0, 2)], &[Sweep, Set(1, 3)], &[Sweep, Set(0, 4)]])
}

/// A slot is taken by a newcomer while others wait on its previous holder's lock, or recover it.
#[must_use]
pub fn newcomer() -> Records {
    Records::scripts(&[&[Set(0, 2)], &[Sweep, Set(0, 3)], &[Claim(0), Set(0, 4)]])
}

/// An extent becomes empty while its last record is being retired, and is taken for another class.
#[must_use]
pub fn recycling() -> Records {
    Records::scripts(&[
        &[Set(0, 2), Set(0, 3), Set(0, 4)],
        &[Recycle(0), Recycle(1)],
        &[Sweep, Get(0)],
    ])
}

/// Values that change in place, between changes that use another record.
#[must_use]
pub fn in_place() -> Records {
    Records::scripts(&[&[Replace(0, 2), Set(0, 3)], &[Replace(0, 4), Set(1, 5)], &[Get(0), Get(0)]])
}

/// A pair is stored again in another record while its value changes in place.
#[must_use]
pub fn moving() -> Records {
    Records::scripts(&[
        &[Move(0), Replace(0, 2)],
        &[Replace(0, 3), Replace(0, 4)],
        &[Get(0), Sweep],
    ])
}

/// Every scenario with its name and the most kills that it bears.
#[must_use]
pub fn all() -> Vec<(&'static str, Records, u8)> {
    vec![
        ("two writers and a reader", two_writers_and_a_reader(), 2),
        ("reuse by another", reuse_by_another(), 2),
        ("reuse under a reader", reuse_under_a_reader(), 2),
        ("two recoverers", two_recoverers(), 2),
        ("newcomer", newcomer(), 2),
        ("recycling", recycling(), 2),
        ("in place", in_place(), 2),
        ("moving", moving(), 2),
    ]
}

/// Every break with the scenario that catches it and the kills that it takes.
#[must_use]
pub fn breaks() -> Vec<(Break, Records, u8)> {
    vec![
        (Break::BitBeforeState, two_recoverers(), 1),
        (Break::FreeBeforeBit, two_recoverers(), 1),
        (Break::ZeroWhileWriting, two_recoverers(), 1),
        (Break::SharedExtent, two_recoverers(), 0),
        (Break::NoByte, two_recoverers(), 1),
        (Break::GiveWhileWriting, two_recoverers(), 1),
        (Break::GiveBeforeStates, two_recoverers(), 2),
        (Break::BumpFirst, two_recoverers(), 2),
        (Break::NoGenerationCheck, newcomer(), 2),
        (Break::ClaimWithoutRecovery, newcomer(), 1),
        (Break::NoPending, two_recoverers(), 1),
        (Break::ArmedFirst, two_writers_and_a_reader(), 1),
        (Break::DisarmBeforeRetire, two_recoverers(), 1),
        (Break::UnlockBeforeDisarm, two_recoverers(), 1),
        (Break::SlotBeforeSequence, two_recoverers(), 1),
        (Break::RetireBeforeSlot, two_recoverers(), 0),
        (Break::VictimUnchecked, reuse_under_a_reader(), 2),
        (Break::ListAfterLock, two_recoverers(), 1),
        (Break::NoSlotAgain, reuse_under_a_reader(), 1),
        (Break::NoSequenceAgain, reuse_under_a_reader(), 1),
        (Break::SequenceAgainFirst, reuse_under_a_reader(), 1),
        (Break::RecycleByBitmap, recycling(), 1),
        (Break::TornReplace, in_place(), 0),
        (Break::ReplaceUnlocked, in_place(), 0),
        (Break::ReadTwice, in_place(), 0),
        (Break::MoveBySequence, moving(), 0),
    ]
}
