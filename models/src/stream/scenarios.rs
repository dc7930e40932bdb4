//! The scenarios of the stream's model, and for each break the one that has to catch it.
//!
//! Invariant: every break is listed once, with a scenario that passes when nothing is broken. Tests and
//! the command of this crate call it.

use super::{Break, Role, Streaming};
use Role::{Dropper, Follower};

fn writer(slots: &[u8]) -> Role {
    Role::Writer(slots.to_vec())
}

/// Two writers of one slot.
#[must_use]
pub fn one_slot() -> Streaming {
    Streaming::roles(&[writer(&[0, 0]), writer(&[0])])
}

/// Writers of both slots, which meet at the stream only.
#[must_use]
pub fn two_slots() -> Streaming {
    Streaming::roles(&[writer(&[0, 1]), writer(&[1]), writer(&[0])])
}

/// A pair is set anew elsewhere, which is no change to tell.
#[must_use]
pub fn moved() -> Streaming {
    Streaming::roles(&[writer(&[0, 0]), writer(&[0]), Role::Mover(0)])
}

/// Somebody asks where the stream ends.
#[must_use]
pub fn followed() -> Streaming {
    Streaming::roles(&[writer(&[0, 1]), writer(&[1]), Follower])
}

/// The map is dropped meanwhile.
#[must_use]
pub fn dropped() -> Streaming {
    Streaming::roles(&[writer(&[0]), writer(&[1]), Dropper])
}

/// Every scenario with its name and the most kills that it bears.
#[must_use]
pub fn all() -> Vec<(&'static str, Streaming, u8)> {
    vec![
        ("one slot", one_slot(), 2),
        ("two slots", two_slots(), 2),
        ("moved", moved(), 2),
        ("followed", followed(), 2),
        ("dropped", dropped(), 2),
    ]
}

/// Every break with the scenario that catches it and the kills that it takes.
#[must_use]
pub fn breaks() -> Vec<(Break, Streaming, u8)> {
    vec![
        (Break::ArmedFirst, one_slot(), 1),
        (Break::Unarmed, one_slot(), 1),
        (Break::AnnouncedFirst, one_slot(), 1),
        (Break::PositionLate, one_slot(), 1),
        (Break::FreedEarly, dropped(), 0),
        (Break::NotRecovered, one_slot(), 1),
        (Break::SegmentFirst, moved(), 1),
        (Break::DisarmedFirst, one_slot(), 1),
        (Break::EndUnlocked, followed(), 0),
    ]
}
