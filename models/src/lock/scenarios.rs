//! The scenarios of the lock model, and for each break the one that has to catch it.
//!
//! Invariant: every break is listed once, with a scenario that passes when nothing is broken. Tests and
//! the command of this crate call it.

use super::{Break, Locks, Op};
use Op::{Claim, Lock, Sweep};

/// Three processes that take the lock twice, and nobody dies: no sleep may need its timeout.
#[must_use]
pub fn contention() -> Locks {
    Locks::new(false, &[&[Lock, Lock], &[Lock, Lock], &[Lock, Lock]])
}

/// Three processes, of which some die.
#[must_use]
pub fn waiters() -> Locks {
    Locks::new(true, &[&[Lock], &[Lock], &[Lock]])
}

/// Recoverers meet that wait for the lock and that do not.
#[must_use]
pub fn recoverers() -> Locks {
    Locks::new(true, &[&[Lock], &[Sweep, Lock], &[Sweep, Lock]])
}

/// The owner's slot gets another holder, who takes the same lock, while others wait for it.
#[must_use]
pub fn newcomer() -> Locks {
    Locks::new(true, &[&[Lock], &[Lock], &[Claim(0), Lock]])
}

/// The owner's slot gets another holder, while one process is about to recover the first one, and another one is
/// free to recover both.
#[must_use]
pub fn late_recoverer() -> Locks {
    Locks::new(true, &[&[Lock], &[Sweep, Sweep], &[Sweep], &[Claim(0), Lock]])
}

/// Whoever has the lock, or recovers one that had it, may stand still for ever; the others take it
/// from nobody, and come to their end.
#[must_use]
pub fn one_stands_still() -> Locks {
    Locks::new(true, &[&[Lock], &[Sweep, Lock], &[Lock]]).stops(1)
}

/// Every scenario with its name and the most kills that it bears.
#[must_use]
pub fn all() -> Vec<(&'static str, Locks, u8)> {
    vec![
        ("contention", contention(), 0),
        ("waiters", waiters(), 2),
        ("recoverers", recoverers(), 2),
        ("newcomer", newcomer(), 2),
        ("late recoverer", late_recoverer(), 2),
        ("one stands still", one_stands_still(), 2),
    ]
}

/// Every break with the scenario that catches it and the kills that it takes.
#[must_use]
pub fn breaks() -> Vec<(Break, Locks, u8)> {
    vec![
        (Break::ForgetsWaiters, contention(), 0),
        (Break::SleepsWithoutFlag, contention(), 0),
        (Break::SleepsUncompared, contention(), 0),
        (Break::LooksThenUnlocks, contention(), 0),
        (Break::NoTimeout, waiters(), 1),
        (Break::Steals, recoverers(), 1),
        (Break::NoWord, recoverers(), 1),
        (Break::AsksFirst, newcomer(), 1),
        (Break::NoGenerationCheck, newcomer(), 2),
        (Break::ClearsByStore, late_recoverer(), 2),
        (Break::NoTakeover, recoverers(), 2),
        (Break::ClaimsWithoutLooking, newcomer(), 1),
        (Break::EndsGenerationFirst, recoverers(), 1),
        (Break::ListsAfterLock, recoverers(), 1),
        (Break::UnlistsBeforeUnlock, recoverers(), 1),
        (Break::ClaimsWithoutRecovery, newcomer(), 1),
        (Break::UnlocksBeforeSettling, waiters(), 1),
        (Break::EndlessWait, one_stands_still(), 0),
        (Break::TakesOnGivingUp, one_stands_still(), 0),
        (Break::RecoversOnGivingUp, one_stands_still(), 1),
    ]
}
