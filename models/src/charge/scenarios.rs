//! The scenarios of the charge's model, and for each break the one that has to catch it.
//!
//! Invariant: every break is listed once, with a scenario that passes when nothing is broken. Tests
//! and the command of this crate call it.

use super::{Break, Charging, Role};

fn writer(changes: &[(u8, i8)]) -> Role {
    Role::Writer(changes.to_vec())
}

/// Two writers of one map, one of them twice; somebody recovers.
#[must_use]
pub fn one_map() -> Charging {
    Charging::roles(&[writer(&[(0, 1), (0, 3)]), writer(&[(0, 5)]), Role::Recoverer])
}

/// Writers of the map that one changes before and after another map.
#[must_use]
pub fn two_maps() -> Charging {
    Charging::roles(&[writer(&[(0, 1), (1, 3), (0, 9)]), writer(&[(0, 5)]), Role::Recoverer])
}

/// Three writers, and nobody who recovers them until all have ended.
#[must_use]
pub fn three_writers() -> Charging {
    Charging::roles(&[writer(&[(0, 1)]), writer(&[(0, 3), (0, -3)]), writer(&[(0, 9)])])
}

/// Two recoverers, either of which may die.
#[must_use]
pub fn two_recoverers() -> Charging {
    Charging::roles(&[writer(&[(0, 1)]), writer(&[(0, 3)]), Role::Recoverer, Role::Recoverer])
}

/// Every scenario with its name and the most kills that it bears.
#[must_use]
pub fn all() -> Vec<(&'static str, Charging, u8)> {
    vec![
        ("one map", one_map(), 2),
        ("two maps", two_maps(), 2),
        ("three writers", three_writers(), 2),
        ("two recoverers", two_recoverers(), 2),
    ]
}

/// Every break with the scenario that catches it and the kills that it takes.
#[must_use]
pub fn breaks() -> Vec<(Break, Charging, u8)> {
    vec![
        (Break::Unmarked, one_map(), 1),
        (Break::NotAgain, two_maps(), 1),
        (Break::AnyMap, two_maps(), 1),
        (Break::SameNumber, two_maps(), 1),
        (Break::AddedFirst, one_map(), 1),
        (Break::DisarmedFirst, one_map(), 1),
        (Break::AnnouncementFirst, one_map(), 1),
        (Break::NotAsked, one_map(), 1),
        (Break::Uncommitted, one_map(), 1),
    ]
}
