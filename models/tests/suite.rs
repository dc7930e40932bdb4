//! What the models show: the sound protocols pass every scenario, every break of their rules is caught.
//!
//! One binary for all of them: to link another takes longer than most of them run.

mod order;
mod ties;
mod weak;

/// The two tests of a protocol, with at most this many kills.
macro_rules! protocol {
    ($protocol:ident, $kills:literal) => {
        mod $protocol {
            use commonhold_models::explorer::{Bounds, explore};
            use commonhold_models::$protocol::scenarios;

            #[test]
            fn the_protocol_is_sound() {
                for (name, model, most) in scenarios::all() {
                    let explored = explore(&model, Bounds::kills(most.min($kills)))
                        .unwrap_or_else(|counterexample| panic!("{name}: {counterexample}"));
                    println!("{name}: {explored:?}");
                    assert!(explored.rests > 0, "{name}: no run came to rest");
                }
            }

            #[test]
            fn every_break_is_caught() {
                for (what, model, kills) in scenarios::breaks() {
                    match explore(&model.broken(what), Bounds::kills(kills)) {
                        Ok(explored) => panic!("{what:?} was not caught: {explored:?}"),
                        Err(found) => {
                            println!("{what:?}: {} ({} steps)", found.reason, found.trace.len());
                        }
                    }
                }
            }
        }
    };
}

protocol!(record, 1);
protocol!(split, 1);
protocol!(stream, 2);
protocol!(lock, 2);
protocol!(queue, 2);
protocol!(channel, 1);
protocol!(wake, 2);
protocol!(charge, 2);
