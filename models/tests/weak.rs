//! Memory orderings: loom finds nothing in the sound models, and something in every break.

use commonhold_models::weak::{
    self, cells, freezing, moving, passing, reading, reuse, splitting, waking,
};

/// Enough for every break to be found.
const PREEMPTIONS: Option<usize> = Some(3);

#[test]
fn the_orderings_are_sound() {
    for (name, check) in weak::all() {
        let runs = check(PREEMPTIONS).unwrap_or_else(|found| panic!("{name}: {found}"));
        println!("{name}: {runs} executions");
    }
}

/// What is ordered twice stays ordered when one of the two goes: so the models say which is needed.
#[test]
fn either_of_two_orderings_is_enough() {
    all_sound(&reading::SPARE, reading::check);
    all_sound(&splitting::SPARE, splitting::check);
    all_sound(&reuse::SPARE, reuse::check);
}

fn all_sound<B: Copy + std::fmt::Debug>(
    spare: &[B],
    check: fn(Option<B>, Option<usize>) -> Result<usize, String>,
) {
    for &spare in spare {
        let found = check(Some(spare), PREEMPTIONS);
        assert!(found.is_ok(), "{spare:?}: {found:?}");
    }
}

fn all_caught<B: Copy + std::fmt::Debug>(
    breaks: &[B],
    check: fn(Option<B>, Option<usize>) -> Result<usize, String>,
) {
    for &broken in breaks {
        match check(Some(broken), PREEMPTIONS) {
            Ok(runs) => panic!("{broken:?} was not caught in {runs} executions"),
            Err(found) => println!("{broken:?}: {}", found.lines().next().unwrap_or_default()),
        }
    }
}

#[test]
fn every_break_of_reading_is_caught() {
    all_caught(&reading::BREAKS, reading::check);
}

#[test]
fn every_break_of_splitting_is_caught() {
    all_caught(&splitting::BREAKS, splitting::check);
}

#[test]
fn every_break_of_waking_is_caught() {
    all_caught(&waking::BREAKS, waking::check);
}

#[test]
fn every_break_of_reuse_is_caught() {
    all_caught(&reuse::BREAKS, reuse::check);
}

#[test]
fn every_break_of_freezing_is_caught() {
    all_caught(&freezing::BREAKS, freezing::check);
}

#[test]
fn every_break_of_cells_is_caught() {
    all_caught(&cells::BREAKS, cells::check);
}

#[test]
fn every_break_of_passing_is_caught() {
    all_caught(&passing::BREAKS, passing::check);
}

#[test]
fn every_break_of_moving_is_caught() {
    all_caught(&moving::BREAKS, moving::check);
}
