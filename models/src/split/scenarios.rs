//! The scenarios of the split model, and for each break the one that has to catch it.
//!
//! Invariant: every break is listed once, with a scenario that passes when nothing is broken. Tests and
//! the command of this crate call it.

use super::{Break, Op, Splits};
use Op::{Delete, Fault, Get, Set, Split, Stale, Sweep};

/// One split, a writer and a reader of a key that moves.
#[must_use]
pub fn split_under_use() -> Splits {
    Splits::scripts(&[&[Split(0)], &[Delete(0), Set(0, 4)], &[Get(0)]])
}

/// Two processes split the same segment, then the child; a third one writes a key that moves twice.
#[must_use]
pub fn two_splits() -> Splits {
    Splits::scripts(&[&[Split(0b010)], &[Split(0b010), Split(0b110)], &[Set(1, 4)]])
}

/// Two segments split at once, so that one doubles the directory under the other; entries stay zero.
#[must_use]
pub fn concurrent_doubling() -> Splits {
    Splits::scripts(&[&[Split(0)], &[Split(1), Split(1)], &[Get(0)]])
}

/// Like that, with a writer that fills entries, and a reader that misses.
#[must_use]
pub fn filling() -> Splits {
    Splits::scripts(&[&[Split(1), Split(0)], &[Set(0, 4), Delete(0)], &[Get(1)]])
}

/// A process comes with a stale offset to the segment that is about to be the child.
#[must_use]
pub fn stale_offset() -> Splits {
    Splits::scripts(&[&[Split(0), Set(0, 5)], &[Stale(3)], &[Sweep, Set(0, 4)]])
}

/// Two sweepers meet the leftovers of a splitter, and go on working.
#[must_use]
pub fn two_recoverers() -> Splits {
    Splits::scripts(&[&[Split(0)], &[Sweep, Set(0, 4)], &[Sweep, Split(0)]])
}

/// A stale offset once more: if the child comes to be unlocked, it is split before its parent is done.
#[must_use]
pub fn stale_offset_and_a_second_split() -> Splits {
    Splits::scripts(&[&[Split(0b010)], &[Stale(3), Sweep], &[Split(0b010)]])
}

/// A second splitter needs memory while the first one's leftovers are being recovered.
#[must_use]
pub fn second_splitter() -> Splits {
    Splits::scripts(&[&[Split(0)], &[Sweep], &[Split(1), Sweep, Set(0, 4)]])
}

/// Two splitters, one of whose waits fails, and a writer of a key that moves.
#[must_use]
pub fn a_wait_fails() -> Splits {
    Splits::scripts(&[&[Split(0), Sweep], &[Split(1)], &[Fault, Set(0, 4), Set(0, 5)]])
}

/// A split that fails, and then others that die with the parent's lock.
#[must_use]
pub fn a_wait_fails_and_is_forgotten() -> Splits {
    Splits::scripts(&[&[Fault, Split(0)], &[Split(1), Split(0)], &[Sweep, Set(0, 4)]])
}

/// A recovery fails, and another one goes on.
#[must_use]
pub fn a_recovery_fails() -> Splits {
    Splits::scripts(&[&[Split(0)], &[Fault, Split(1)], &[Sweep, Set(0, 4), Sweep]])
}

/// Every scenario with its name and the most kills that it bears.
#[must_use]
pub fn all() -> Vec<(&'static str, Splits, u8)> {
    vec![
        ("split under use", split_under_use(), 2),
        ("two splits", two_splits(), 2),
        ("concurrent doubling", concurrent_doubling(), 2),
        ("filling", filling(), 2),
        ("stale offset", stale_offset(), 2),
        ("stale offset and a second split", stale_offset_and_a_second_split(), 2),
        ("two recoverers", two_recoverers(), 2),
        ("second splitter", second_splitter(), 2),
        ("a wait fails", a_wait_fails(), 2),
        ("a wait fails and is forgotten", a_wait_fails_and_is_forgotten(), 2),
        ("a recovery fails", a_recovery_fails(), 2),
    ]
}

/// Every break with the scenario that catches it and the kills that it takes.
#[must_use]
pub fn breaks() -> Vec<(Break, Splits, u8)> {
    vec![
        (Break::ChildUnlocked, two_splits(), 1),
        (Break::ChildLockStored, stale_offset_and_a_second_split(), 1),
        (Break::ChildReleasedEarly, two_splits(), 1),
        (Break::ChildRecoveredFirst, two_splits(), 1),
        (Break::CopyAgain, two_recoverers(), 2),
        (Break::ClearsFirst, split_under_use(), 0),
        (Break::NoneBeforeClears, two_recoverers(), 1),
        (Break::PublishingLate, two_recoverers(), 1),
        (Break::DepthBeforeLock, concurrent_doubling(), 0),
        (Break::ZeroSkipped, concurrent_doubling(), 0),
        (Break::DepthBeforeZero, filling(), 0),
        (Break::FillUnlocked, filling(), 0),
        (Break::NoRevalidation, split_under_use(), 0),
        (Break::MissAtOnce, split_under_use(), 0),
        (Break::MissWithoutDepth, split_under_use(), 0),
        (Break::GiveWhileCopying, second_splitter(), 2),
        (Break::RollBackPhaseFirst, two_recoverers(), 2),
        (Break::DirectoryLockKept, two_recoverers(), 1),
        (Break::NoByte, two_recoverers(), 1),
        (Break::PublishingBeforeLock, a_wait_fails(), 1),
        (Break::ErrorLeavesCopying, a_wait_fails(), 1),
        (Break::ErrorUnlocks, a_recovery_fails(), 2),
    ]
}
