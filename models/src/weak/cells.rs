//! A reader against changes of a bucket whose pairs lie in cells (`map/layout/cells.rs`).
//!
//! One position over two cells of two words each; of a real cell the tag is one more. The head
//! names cell 0, then 1, then 0 again; the change after that never commits. Invariant: a reader
//! returns a pair that was committed, whole.

use super::{Rules, explore};
use Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// A way to get it wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The head is first loaded with a relaxed load.
    FirstHeadRelaxed,
    /// The head is not loaded again.
    NoHeadAgain,
    /// No acquire fence between the copy and the second look.
    NoAcquireFence,
    /// No release fence between giving a cell up and writing to it.
    NoReleaseFence,
    /// The head is published with a relaxed store, after the fence.
    HeadPublishedRelaxed,
    /// The head does not count its changes.
    NotCounted,
    /// The cell that the head names is written.
    InPlace,
}

/// Every break.
pub const BREAKS: [Break; 7] = [
    Break::FirstHeadRelaxed,
    Break::NoHeadAgain,
    Break::NoAcquireFence,
    Break::NoReleaseFence,
    Break::HeadPublishedRelaxed,
    Break::NotCounted,
    Break::InPlace,
];

const NEVER_COMMITTED: usize = 66;

struct Bucket {
    /// The cell, and twice the number of changes.
    head: AtomicUsize,
    cells: [[AtomicUsize; 2]; 2],
    rules: Rules<Break>,
}

/// Runs the model.
///
/// # Errors
/// What failed.
pub fn check(broken: Option<Break>, preemptions: Option<usize>) -> Result<usize, String> {
    explore(preemptions, move || {
        let cell = |value| [AtomicUsize::new(value), AtomicUsize::new(value)];
        let bucket =
            Bucket { head: AtomicUsize::new(0), cells: [cell(11), cell(0)], rules: Rules(broken) };
        let bucket = Arc::new(bucket);
        let reader = {
            let bucket = Arc::clone(&bucket);
            loom::thread::spawn(move || bucket.read())
        };
        for value in [22, 33] {
            let head = bucket.write(value);
            let order = bucket.rules.order(Break::HeadPublishedRelaxed, Release);
            bucket.head.store(head, order);
        }
        bucket.write(NEVER_COMMITTED);
        if let Some([first, second]) = reader.join().expect("the reader does not panic") {
            assert!(first == second, "a torn pair was read: {first} and {second}");
            assert!(first != NEVER_COMMITTED, "a pair was read that was never committed");
            assert!(first != 0, "a pair was read before it was written");
        }
    })
}

impl Bucket {
    /// Writes the spare cell; returns the head that names it.
    fn write(&self, value: usize) -> usize {
        let head = self.head.load(Relaxed);
        let spare = if self.rules.is(Break::InPlace) { head & 1 } else { !head & 1 };
        self.rules.fence(Break::NoReleaseFence, Release);
        for word in &self.cells[spare] {
            word.store(value, Relaxed);
        }
        let count = if self.rules.is(Break::NotCounted) { 0 } else { (head | 1) + 1 };
        count | spare
    }

    /// One try; `None` stands for "look again".
    fn read(&self) -> Option<[usize; 2]> {
        let head = self.head.load(self.rules.order(Break::FirstHeadRelaxed, Acquire));
        let [first, second] = &self.cells[head & 1];
        let pair = [first.load(Relaxed), second.load(Relaxed)];
        self.rules.fence(Break::NoAcquireFence, Acquire);
        let again = self.rules.is(Break::NoHeadAgain) || self.head.load(Relaxed) == head;
        again.then_some(pair)
    }
}
