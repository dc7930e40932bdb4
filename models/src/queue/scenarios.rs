//! The scenarios of the queue model, and for each break the one that has to catch it.
//!
//! Invariant: every break is listed once, with a scenario that passes when nothing is broken.

use super::{Break, Op, Queues};
use Op::{Pull, Push, Sweep};

/// Two processes move elements to and fro.
#[must_use]
pub fn two_ways() -> Queues {
    Queues::new(&[(0, &[Pull(0, 2), Push(1)]), (1, &[Pull(1, 1), Push(0), Pull(0, 1), Push(1)])])
}

/// Two threads of one process and one of another.
#[must_use]
pub fn threads() -> Queues {
    Queues::new(&[
        (0, &[Pull(0, 1), Push(1)]),
        (0, &[Pull(1, 1), Push(0)]),
        (1, &[Pull(0, 1), Push(0)]),
    ])
}

/// Recoverers meet: two that sweep and one that moves.
#[must_use]
pub fn recoverers() -> Queues {
    Queues::new(&[(0, &[Pull(0, 2), Push(0)]), (1, &[Sweep, Pull(0, 1), Push(1)]), (2, &[Sweep])])
}

/// One dies, one is stopped, which pushes to the orphans, and a third one sweeps and moves.
#[must_use]
pub fn one_stopped() -> Queues {
    Queues::new(&[
        (0, &[Pull(0, 1), Push(1)]),
        (1, &[Pull(0, 1), Push(0)]),
        (2, &[Sweep, Pull(1, 1), Push(0)]),
    ])
    .stopping(1)
}

/// The one that is stopped recovers, or moves; the third meets it at both ends.
#[must_use]
pub fn a_stopped_recoverer() -> Queues {
    Queues::new(&[
        (0, &[Pull(0, 2), Push(0)]),
        (1, &[Sweep, Pull(0, 1)]),
        (2, &[Pull(0, 1), Sweep]),
    ])
    .stopping(1)
}

/// Every scenario with its name and the most kills that it bears.
#[must_use]
pub fn all() -> Vec<(&'static str, Queues, u8)> {
    vec![
        ("two ways", two_ways(), 2),
        ("threads", threads(), 2),
        ("recoverers", recoverers(), 2),
        ("one stopped", one_stopped(), 1),
        ("a stopped recoverer", a_stopped_recoverer(), 1),
    ]
}

/// Every break with the scenario that catches it and the kills that it takes.
#[must_use]
pub fn breaks() -> Vec<(Break, Queues, u8)> {
    vec![
        (Break::NoIntent, two_ways(), 1),
        (Break::ArmsBeforeEntries, two_ways(), 1),
        (Break::ArmsAfterHolders, two_ways(), 1),
        (Break::ClearsAfterCommit, threads(), 1),
        (Break::HoldsAfterCommit, two_ways(), 1),
        (Break::ListsAfterLock, two_ways(), 1),
        (Break::UnlistsBeforeUnlock, two_ways(), 1),
        (Break::Steals, two_ways(), 1),
        (Break::NoByte, recoverers(), 1),
        (Break::EndsGenerationFirst, recoverers(), 1),
        (Break::UnlocksBeforeRollBack, recoverers(), 1),
        (Break::NoRollBack, two_ways(), 1),
        (Break::GivesBackFirst, two_ways(), 1),
        (Break::EndlessRecovery, one_stopped(), 1),
        (Break::DropsOnGiveUp, one_stopped(), 1),
        (Break::EndsOnGiveUp, one_stopped(), 1),
    ]
}
