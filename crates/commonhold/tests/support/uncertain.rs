//! Scripts that go on after errors, and what may be found after them.
//!
//! An operation that returned an error may have happened wholly or not at all, each key of a batch
//! by itself; one that returned `Ok` has happened. So a key may have one of several versions, until
//! an answer or a later operation decides.

use super::process::Board;
use super::scenario::Scenario;
use super::script::{Answer, Expected, Model, Op, put};
use super::shape::Shape;
use commonhold::map::Map;
use commonhold::{Error, ErrorKind, Hold, Result};
use std::collections::HashMap;
use std::path::Path;

/// Operations that a board has room to note.
pub const ROOM: usize = 6000;

/// How an operation ended, as it is noted on the board; 0 if it never began.
const BEGUN: u64 = 1;
const DONE: u64 = 2;
const FAILED: u64 = 3;

/// What each key may have.
#[derive(Default)]
struct Possible(HashMap<u32, Vec<Option<u64>>>);

impl Possible {
    /// An operation was done; false if this answer is none that it can have had.
    fn done(&mut self, op: &Op, answer: Option<&Answer>) -> bool {
        op.keys().into_iter().all(|key| {
            let before = self.of(key).into_iter();
            let after: Vec<_> = before
                .filter_map(|now| {
                    let mut model = Model::new();
                    put(&mut model, key, now);
                    let wanted = op.apply(&mut model);
                    answer.is_none_or(|answer| *answer == wanted).then(|| model.get(&key).copied())
                })
                .collect();
            self.put(key, after)
        })
    }

    /// An operation was done or not.
    fn perhaps(&mut self, op: &Op) {
        let before: Vec<_> = op.keys().into_iter().map(|key| (key, self.of(key))).collect();
        self.done(op, None);
        for (key, before) in before {
            let after = self.of(key);
            self.put(key, before.into_iter().chain(after).collect());
        }
    }

    fn of(&self, key: u32) -> Vec<Option<u64>> {
        self.0.get(&key).cloned().unwrap_or_else(|| vec![None])
    }

    fn put(&mut self, key: u32, mut versions: Vec<Option<u64>>) -> bool {
        versions.sort_unstable();
        versions.dedup();
        let some = !versions.is_empty();
        self.0.insert(key, versions);
        some
    }
}

/// Runs a script to its end whatever fails, checking every answer, and notes on the board how each
/// operation ended, from word `at` on. Returns how many failed.
pub fn run(map: &Map, shape: Shape, script: &[Op], board: &Board, at: usize) -> u64 {
    run_with(|op| op.perform(map, shape), shape, script, board, at)
}

/// The same with another way to do an operation.
pub fn run_with(
    perform: impl Fn(&Op) -> Result<Answer>,
    shape: Shape,
    script: &[Op],
    board: &Board,
    at: usize,
) -> u64 {
    let (mut possible, mut failed) = (Possible::default(), 0);
    for (i, op) in script.iter().enumerate() {
        board.put(at + i, BEGUN);
        match perform(op) {
            Ok(answer) => {
                let fits = possible.done(op, Some(&answer));
                assert!(shape.forgets() || fits, "operation {i}, {op:?}: {answer:?}");
                board.put(at + i, DONE);
            }
            Err(error) => {
                plausible(&error);
                possible.perhaps(op);
                board.put(at + i, FAILED);
                failed += 1;
            }
        }
    }
    failed
}

/// A call that failed says so, and not that the hold is broken.
#[track_caller]
pub fn plausible(error: &Error) {
    let kinds = [ErrorKind::Damaged, ErrorKind::Reentrant, ErrorKind::Mismatch];
    assert!(!kinds.contains(&error.kind()), "an error that blames the hold: {error:?}");
}

/// What may be found, from what [`run`] noted.
pub fn expected(shape: Shape, script: &[Op], board: &Board, at: usize) -> Expected {
    let mut possible = Possible::default();
    for (i, op) in script.iter().enumerate() {
        match board.get(at + i) {
            0 => break,
            DONE => drop(possible.done(op, None)),
            _ => possible.perhaps(op),
        }
    }
    Expected::of(shape, possible.0)
}

/// Runs a scenario whatever fails: a script to its end, anything else to its first error. Returns the
/// handles of a script, and whether anything failed.
pub fn attempt(
    scenario: &Scenario,
    path: &Path,
    actor: u32,
    board: &Board,
    at: usize,
    notes: usize,
) -> (Option<(Hold, Map)>, bool) {
    let Some(script) = scenario.script(actor) else {
        let result = scenario.run_whole(path, board, at);
        let failed = result.inspect_err(plausible).is_err();
        return (None, failed);
    };
    let mut failed = false;
    for _ in 0..3 {
        match open(path, scenario) {
            Ok((hold, map)) => {
                failed |= run(&map, scenario.shape, &script, board, notes) > 0;
                return (Some((hold, map)), failed);
            }
            Err(error) => {
                plausible(&error);
                failed = true;
            }
        }
    }
    (None, failed)
}

/// The common map through a handle of one's own, if that can be had.
pub fn open(path: &Path, scenario: &Scenario) -> Result<(Hold, Map)> {
    let hold = Hold::open_or_create(path)?;
    let map = hold.maps().open_or_create(scenario.map, scenario.shape.options())?;
    Ok((hold, map))
}

/// Checks what [`attempt`] left.
#[track_caller]
pub fn verify(
    scenario: &Scenario,
    hold: &Hold,
    actor: u32,
    board: &Board,
    at: usize,
    notes: usize,
    when: &str,
) {
    let Some(script) = scenario.script(actor) else {
        return scenario.verify(hold, actor, board, at, when);
    };
    let map = hold.maps().open_or_create(scenario.map, scenario.shape.options()).unwrap();
    if scenario.streams {
        super::scenario::stream_agrees(&map, when);
    }
    expected(scenario.shape, &script, board, notes).verify(&map, when);
}
