//! The queue: sound scenarios pass, every break is caught.

use commonhold_models::explorer::{Bounds, explore};
use commonhold_models::queue::scenarios;

#[test]
fn the_queue_is_sound() {
    for (name, model, most) in scenarios::all() {
        let explored =
            explore(&model, Bounds::kills(most)).unwrap_or_else(|c| panic!("{name}: {c}"));
        println!("{name}: {explored:?}");
        assert!(explored.rests > 0, "{name}: no run came to rest");
    }
}

#[test]
fn every_break_is_caught() {
    for (what, model, kills) in scenarios::breaks() {
        match explore(&model.broken(what), Bounds::kills(kills)) {
            Ok(explored) => panic!("{what:?} was not caught: {explored:?}"),
            Err(found) => println!("{what:?}: {} ({} steps)", found.reason, found.trace.len()),
        }
    }
}
