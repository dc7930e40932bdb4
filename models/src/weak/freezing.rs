//! The freeze lock: who freezes the hold against writers (`hold/freeze.rs`,
//! `map/engine/locked.rs`).
//!
//! A writer takes the segment's lock and then looks at the freeze lock; who freezes takes the
//! freeze lock and then looks at the lock (Dekker). In the product the lock and the freeze lock are
//! SeqCst accesses; loom knows only SeqCst fences, so the fences here stand for them. A lock that
//! has changed hands since the first look under the freeze lock is as good as a free one. If it
//! stays, the freeze lock is released again. Invariant: who has found the lock free or passed on
//! under the freeze lock sees whole changes, and nobody begins one.

use super::{Rules, explore};
use Ordering::{AcqRel, Acquire, Relaxed};
use loom::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// A way to get the orderings wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The writer's lock is not ordered before its look at the freeze lock.
    NoWriterFence,
    /// The taking of the freeze lock is not ordered before the look at the lock.
    NoFreezerFence,
    /// The writer looks at the freeze lock before it takes the lock.
    FreezeLockFirst,
    /// The lock is released with a relaxed store.
    UnlockRelaxed,
    /// The lock is looked at before the freeze lock is taken.
    LockFirst,
    /// The holder that must have changed is the one seen before the freeze lock was taken.
    HolderFromBefore,
}

/// Every break.
pub const BREAKS: [Break; 6] = [
    Break::NoWriterFence,
    Break::NoFreezerFence,
    Break::FreezeLockFirst,
    Break::UnlockRelaxed,
    Break::LockFirst,
    Break::HolderFromBefore,
];

struct Shared {
    freeze_lock: AtomicUsize,
    lock: AtomicUsize,
    /// What the lock protects: both are always equal when it is free.
    halves: [AtomicUsize; 2],
    rules: Rules<Break>,
}

/// Runs the model.
///
/// # Errors
/// What failed.
pub fn check(broken: Option<Break>, preemptions: Option<usize>) -> Result<usize, String> {
    explore(preemptions, move || {
        let [freeze_lock, lock, first, second] = [0; 4].map(AtomicUsize::new);
        let shared =
            Arc::new(Shared { freeze_lock, lock, halves: [first, second], rules: Rules(broken) });
        let writers = [1, 2].map(|number| {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || shared.write(number))
        });
        let frozen = shared.freeze();
        for writer in writers {
            writer.join().expect("the writer does not panic");
        }
        if let Some([first, second, again]) = frozen {
            assert!(first == second && first == again, "a change while the hold is frozen");
        }
    })
}

impl Shared {
    /// Signs the lock with the writer's number, and writes that.
    fn write(&self, value: usize) {
        if self.rules.is(Break::FreezeLockFirst) && self.freeze_lock.load(Acquire) != 0 {
            return;
        }
        if self.lock.compare_exchange(0, value, AcqRel, Relaxed).is_err() {
            return;
        }
        self.rules.fence(Break::NoWriterFence, Ordering::SeqCst);
        if self.rules.is(Break::FreezeLockFirst) || self.freeze_lock.load(Acquire) == 0 {
            self.halves.iter().for_each(|half| half.store(value, Relaxed));
        }
        self.lock.swap(0, if self.rules.is(Break::UnlockRelaxed) { Relaxed } else { AcqRel });
    }

    /// What it sees while frozen; `None` if the lock stayed the same writer's when it looked.
    fn freeze(&self) -> Option<[usize; 3]> {
        let before = self.lock.load(Acquire);
        if self.rules.is(Break::LockFirst) && before != 0 {
            return None;
        }
        self.freeze_lock.compare_exchange(0, 1, AcqRel, Relaxed).ok()?;
        self.rules.fence(Break::NoFreezerFence, Ordering::SeqCst);
        let stays = !self.rules.is(Break::LockFirst) && self.stays(before);
        if stays {
            self.freeze_lock.store(0, Ordering::Release);
            return None;
        }
        Some([0, 1, 0].map(|half: usize| self.halves[half].load(Relaxed)))
    }

    /// Under the freeze lock: true if who holds the lock does not let it go.
    fn stays(&self, before: usize) -> bool {
        let early = self.rules.is(Break::HolderFromBefore);
        let first = if early { before } else { self.lock.load(Acquire) };
        first != 0 && self.lock.load(Acquire) == first
    }
}
