//! The gate: who freezes the hold against writers (`hold/freeze.rs`, `map/locked.rs`).
//!
//! A writer takes the segment's lock and then looks at the gate; who freezes closes the gate and then looks at
//! the lock (Dekker). In the product lock and gate are SeqCst accesses; loom knows only SeqCst fences, so the
//! fences here stand for them. Invariant: who has found the lock free behind its closed gate sees whole changes,
//! and nobody begins one.

use super::explore;
use Ordering::{AcqRel, Acquire, Relaxed};
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::Arc;

/// A way to get the orderings wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The writer's lock is not ordered before its look at the gate.
    NoWriterFence,
    /// The closing of the gate is not ordered before the look at the lock.
    NoFreezerFence,
    /// The writer looks at the gate before it takes the lock.
    GateFirst,
    /// The lock is released with a relaxed store.
    UnlockRelaxed,
    /// The lock is looked at before the gate is closed.
    LockFirst,
}

/// Every break.
pub const BREAKS: [Break; 5] = [
    Break::NoWriterFence,
    Break::NoFreezerFence,
    Break::GateFirst,
    Break::UnlockRelaxed,
    Break::LockFirst,
];

struct Shared {
    gate: AtomicUsize,
    lock: AtomicUsize,
    /// What the lock protects: both are always equal when it is free.
    halves: [AtomicUsize; 2],
    broken: Option<Break>,
}

/// Runs the model.
///
/// # Errors
/// What failed.
pub fn check(broken: Option<Break>, preemptions: Option<usize>) -> Result<usize, String> {
    explore(preemptions, move || {
        let [gate, lock, first, second] = [0; 4].map(AtomicUsize::new);
        let shared = Arc::new(Shared { gate, lock, halves: [first, second], broken });
        let writer = {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || {
                shared.write(1);
                shared.write(2);
            })
        };
        let frozen = shared.freeze();
        writer.join().expect("the writer does not panic");
        if let Some([first, second, again]) = frozen {
            assert!(first == second && first == again, "a change while the hold is frozen");
        }
    })
}

impl Shared {
    fn is(&self, broken: Break) -> bool {
        self.broken == Some(broken)
    }

    fn write(&self, value: usize) {
        if self.is(Break::GateFirst) && self.gate.load(Acquire) != 0 {
            return;
        }
        if self.lock.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
            return;
        }
        if !self.is(Break::NoWriterFence) {
            fence(Ordering::SeqCst);
        }
        if self.is(Break::GateFirst) || self.gate.load(Acquire) == 0 {
            self.halves.iter().for_each(|half| half.store(value, Relaxed));
        }
        self.lock.swap(0, if self.is(Break::UnlockRelaxed) { Relaxed } else { AcqRel });
    }

    /// What it sees while frozen; `None` if the lock was taken when it looked.
    fn freeze(&self) -> Option<[usize; 3]> {
        let early = self.is(Break::LockFirst);
        if early && self.lock.load(Acquire) != 0 {
            return None;
        }
        self.gate.compare_exchange(0, 1, AcqRel, Relaxed).ok()?;
        if !self.is(Break::NoFreezerFence) {
            fence(Ordering::SeqCst);
        }
        if !early && self.lock.load(Acquire) != 0 {
            return None;
        }
        Some([0, 1, 0].map(|half: usize| self.halves[half].load(Relaxed)))
    }
}
