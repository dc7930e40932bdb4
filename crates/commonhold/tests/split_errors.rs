//! A split that meets an error loses nothing.
//!
//! A process is killed while it holds the directory's lock in the middle of a split. A second one, which cannot
//! recover it, or cannot have the lock, splits segments of its own and fails. Then the fault ends, and others
//! are killed with the lock of a segment whose split had failed. What was acknowledged must be there.

use crate::support::process::{Board, Child, End, until};
use crate::support::scenario;
use crate::support::script;
use crate::support::shape::Shape;
use crate::support::test_dir::TestDir;
use commonhold::{Hold, steps};
use nix::sys::signal::Signal;
use std::path::Path;

/// Keys of the survivor: more than a new map has room for without splits.
const KEYS: u32 = 6_000;
const FIRST: u32 = 1 << 20;
/// Words of the board: whether the survivor is there, whether the victim is dead, how many sets failed; then one for
/// each key.
const THERE: usize = 0;
const DEAD: usize = 1;
const FAILED: usize = 2;
const ACKNOWLEDGED: usize = 8;

/// Splits until it is killed with the directory's lock.
fn die_in_a_split(path: &Path, shape: Shape) {
    let (_hold, map) = scenario::open(path, shape);
    steps::arm("split.entries-locked:kill").unwrap();
    for id in 0.. {
        map.set(shape.key(id), shape.value(id, 1)).unwrap();
    }
}

/// Writes while there is the fault, and notes what was acknowledged.
fn write_with(fault: &str, path: &Path, shape: Shape, board: &Board) {
    let (_hold, map) = scenario::open(path, shape);
    board.put(THERE, 1);
    until("the victim is dead", || board.get(DEAD) == 1);
    steps::arm_fault(fault).unwrap();
    for n in 0..KEYS {
        match map.set(shape.key(FIRST + n), shape.value(FIRST + n, 1)) {
            Ok(_) => board.put(ACKNOWLEDGED + n as usize, 1),
            Err(_) => drop(board.count(FAILED, 1)),
        }
    }
    assert_ne!(board.get(FAILED), 0, "the fault does nothing");
    steps::arm_fault("").unwrap();
    // What a stale child would have copied is replaced.
    for n in (0..KEYS).filter(|n| board.get(ACKNOWLEDGED + *n as usize) == 1) {
        map.set(shape.key(FIRST + n), shape.value(FIRST + n, 2)).unwrap();
        board.put(ACKNOWLEDGED + n as usize, 2);
    }
}

/// Every key that was acknowledged has its value.
fn verify(path: &Path, shape: Shape, board: &Board) {
    let (hold, map) = scenario::open(path, shape);
    hold.sweep().unwrap();
    let mut missing = 0;
    let acknowledged = (0..KEYS).filter(|n| board.get(ACKNOWLEDGED + *n as usize) != 0);
    for id in acknowledged.clone().map(|n| FIRST + n) {
        let found = map.get(shape.key(id)).unwrap().map(|value| script::read(shape, id, &value));
        missing += u32::from(found != Some(2));
    }
    assert_eq!(missing, 0, "of {} acknowledged keys", acknowledged.count());
    sound(&hold);
}

#[track_caller]
fn sound(hold: &Hold) {
    let report = hold.check().unwrap();
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.allocated, report.reachable, "{report:?}");
    assert_eq!(report.in_flight, 0, "{report:?}");
}

fn lose_nothing(shape: Shape, fault: &str) {
    let test_dir = TestDir::memory();
    let path = test_dir.path("it.hold");
    let board = Board::new(ACKNOWLEDGED + KEYS as usize);
    drop(scenario::open(&path, shape));
    let survivor = Child::run("survivor", || write_with(fault, &path, shape, &board));
    until("the survivor is there", || board.get(THERE) == 1 || survivor.is_gone());
    let mut victim = Child::run("victim", || die_in_a_split(&path, shape));
    assert_eq!(victim.wait(), End::By(Signal::SIGKILL));
    board.put(DEAD, 1);
    survivor.finish();
    // Whoever comes next recovers what is left, and is killed with the segment of a key whose split had failed.
    for n in (0..KEYS).filter(|n| board.get(ACKNOWLEDGED + *n as usize) == 0).take(40) {
        let mut next = Child::run("killed with a lock", || {
            let (_hold, map) = scenario::open(&path, shape);
            steps::arm("write.locked:kill").unwrap();
            let _ = map.set(shape.key(FIRST + n), shape.value(FIRST + n, 1));
        });
        next.wait();
    }
    Child::run("judge", || verify(&path, shape, &board)).finish();
}

/// Without descriptors, for example.
const RECOVERY: &str = "recover.begin:EMFILE:always";
const LOCK: &str = "lock.directory:ETIMEDOUT:always";

#[test]
fn a_split_whose_recovery_fails_loses_nothing() {
    lose_nothing(Shape::General, RECOVERY);
}

#[test]
fn a_split_of_words_whose_recovery_fails_loses_nothing() {
    lose_nothing(Shape::Fixed(4, 4), RECOVERY);
}

#[test]
fn a_split_of_cells_whose_recovery_fails_loses_nothing() {
    lose_nothing(Shape::Fixed(16, 16), RECOVERY);
}

#[test]
fn a_split_that_cannot_lock_the_directory_loses_nothing() {
    lose_nothing(Shape::General, LOCK);
}
