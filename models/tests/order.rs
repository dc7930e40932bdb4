//! Lock order: a waiter that holds a lock recovers only what it waits for and what lies below.

use commonhold_models::explorer::{Bounds, explore};
use commonhold_models::order::Break;
use commonhold_models::order::scenarios::{all, stopping};

#[test]
fn nobody_waits_forever() {
    for (name, model) in all() {
        let explored = explore(&model, Bounds::kills(2)).unwrap_or_else(|c| panic!("{name}: {c}"));
        println!("{name}: {explored:?}");
    }
}

/// Found by reading and then by this model: with the recovery of whole participants three
/// single-threaded processes and one kill are enough for two of them to wait for each other.
#[test]
fn recovering_whole_participants_deadlocks() {
    let caught = all().into_iter().filter(|(_, model)| {
        explore(&model.broken(Break::WholeRecovery), Bounds::kills(1)).is_err()
    });
    let caught: Vec<_> = caught.map(|(name, _)| name).collect();
    assert_eq!(caught, ["make, split, drop", "double with threads", "drop with threads"]);
}

#[test]
fn nobody_waits_forever_for_one_that_is_stopped() {
    for (name, model) in stopping() {
        let explored = explore(&model, Bounds::kills(1)).unwrap_or_else(|c| panic!("{name}: {c}"));
        println!("{name}: {explored:?}");
        assert!(explored.states > 1000, "{name}: {explored:?}");
    }
}

/// The recoverer of the dead one waits for the stopped one, whatever the patience of the call that
/// made it one; or it gives up and lets a segment go in the middle of its split.
#[test]
fn recoverers_without_patience_or_with_too_little_care_are_caught() {
    for broken in [Break::EndlessRecovery, Break::ErrorUnlocks] {
        let caught = stopping()
            .into_iter()
            .filter(|(_, model)| explore(&model.broken(broken), Bounds::kills(1)).is_err());
        assert!(caught.count() > 0, "{broken:?} is not caught");
    }
}
