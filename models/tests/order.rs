//! Lock order: a waiter that holds a lock settles only what it waits for and what lies below.

use commonhold_models::explorer::{Bounds, explore};
use commonhold_models::order::{Break, scenarios};

#[test]
fn nobody_waits_forever() {
    for (name, model) in scenarios() {
        let explored = explore(&model, Bounds::kills(2)).unwrap_or_else(|c| panic!("{name}: {c}"));
        println!("{name}: {explored:?}");
    }
}

/// Found by reading and then by this model: with the recovery of whole participants three
/// single-threaded processes and one kill are enough for two of them to wait for each other.
#[test]
fn recovering_whole_participants_deadlocks() {
    let caught = scenarios().into_iter().filter(|(_, model)| {
        explore(&model.broken(Break::WholeRecovery), Bounds::kills(1)).is_err()
    });
    let caught: Vec<_> = caught.map(|(name, _)| name).collect();
    assert_eq!(caught, ["make, split, drop", "double beside threads", "drop beside threads"]);
}
