//! Protocol 6: the sound protocol passes every scenario, every break is caught.

use commonhold_models::channel::scenarios;
use commonhold_models::explorer::{Bounds, explore};

#[test]
fn the_protocol_is_sound() {
    for (name, model) in scenarios::all() {
        let explored = explore(&model, Bounds::kills(1)).unwrap_or_else(|c| panic!("{name}: {c}"));
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
