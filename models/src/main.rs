//! The command: explores every sound scenario further than the tests do.
//!
//! Without arguments it repeats what the tests explore and prints the numbers of states; `--deep` takes
//! minutes and gigabytes.

use commonhold_models::explorer::{Bounds, Model, explore};
use commonhold_models::{channel, charge, lock, order, queue, record, split, stream, wake, weak};
use std::process::ExitCode;

fn main() -> ExitCode {
    let deep = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [argument] if argument == "--deep" => true,
        _ => {
            eprintln!("usage: commonhold-models [--deep]");
            return ExitCode::from(2);
        }
    };
    let mut sound = true;
    let kills = if deep { 2 } else { 1 };
    macro_rules! protocols {
        ($($protocol:ident),+) => {$(
            for (name, model, most) in $protocol::scenarios::all() {
                let name = format!("{}: {name}", stringify!($protocol));
                sound &= report(&name, &model, kills.min(most));
            }
        )+};
    }
    protocols!(record, split, stream, lock, queue, wake, channel, charge);
    for (name, model) in order::scenarios::all().into_iter().chain(order::scenarios::stopping()) {
        sound &= report(&format!("order: {name}"), &model, kills);
    }
    for (name, check) in weak::all() {
        sound &= report_orderings(name, check(if deep { None } else { Some(3) }));
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report<M: Model>(name: &str, model: &M, kills: u8) -> bool {
    match explore(model, Bounds::kills(kills)) {
        Ok(explored) => {
            let (states, rests) = (explored.states, explored.rests);
            println!("{name}, {kills} kills: {states} states, {rests} at rest");
            true
        }
        Err(found) => {
            println!("{name}, {kills} kills: {found}");
            false
        }
    }
}

fn report_orderings(name: &str, result: Result<usize, String>) -> bool {
    match result {
        Ok(runs) => println!("orderings: {name}: {runs} executions"),
        Err(ref found) => println!("orderings: {name}: {found}"),
    }
    result.is_ok()
}
