//! Protocol 3: a split and a doubling against a reader's miss (`map/engine/split.rs`,
//! `map/engine/directory.rs`, `map/engine/read.rs`).
//!
//! A key moves from the parent to the child while the directory grows from one entry to two, whose
//! memory held garbage. Invariant: the key is always there, so no reader misses it.

use super::{Rules, explore};
use Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::Arc;

/// A way to get the orderings wrong, to be caught; the last three are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The child's entry is stored with a relaxed store.
    EntryRelaxed,
    /// The moved slot is cleared with a relaxed store.
    ClearRelaxed,
    /// The moved slot is cleared before the entry is stored.
    ClearFirst,
    /// The depth is stored with a relaxed store.
    DepthRelaxed,
    /// The depth is stored before the new chunk is zeroed.
    DepthBeforeZero,
    /// A reader that misses does not look at the directory again.
    NoLookAgain,
    /// Neither an acquire load of the slot nor a fence orders the second look at the directory.
    MissUnordered,
    /// Not a break: only the fence orders it.
    SlotRelaxed,
    /// Not a break: only the acquire load of the slot orders it.
    NoFence,
    /// Not a break: what garbage names is missed, and the fence shows the entry as it is.
    DepthLoadedRelaxed,
}

/// Every break.
pub const BREAKS: [Break; 7] = [
    Break::EntryRelaxed,
    Break::ClearRelaxed,
    Break::ClearFirst,
    Break::DepthRelaxed,
    Break::DepthBeforeZero,
    Break::NoLookAgain,
    Break::MissUnordered,
];

/// What orders a miss is there twice; either of them is enough.
pub const SPARE: [Break; 3] = [Break::SlotRelaxed, Break::NoFence, Break::DepthLoadedRelaxed];

const PARENT: usize = 1;
const CHILD: usize = 2;
const GARBAGE: usize = 3;

struct Shared {
    depth: AtomicUsize,
    entries: [AtomicUsize; 2],
    /// The key's slot in parent, child, and whatever the garbage names.
    slots: [AtomicUsize; 3],
    rules: Rules<Break>,
}

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Found,
    Missed,
    LookAgain,
}

/// Runs the model.
///
/// # Errors
/// What failed.
pub fn check(broken: Option<Break>, preemptions: Option<usize>) -> Result<usize, String> {
    explore(preemptions, move || {
        let shared = Arc::new(Shared {
            depth: AtomicUsize::new(0),
            entries: [AtomicUsize::new(PARENT), AtomicUsize::new(GARBAGE)],
            slots: [AtomicUsize::new(7), AtomicUsize::new(0), AtomicUsize::new(0)],
            rules: Rules(broken),
        });
        let reader = {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || shared.read())
        };
        shared.split();
        let seen = reader.join().expect("the reader does not panic");
        assert!(seen != Seen::Missed, "a key was missed that was there all the time");
    })
}

impl Shared {
    fn split(&self) {
        let late = self.rules.is(Break::DepthBeforeZero);
        if !late {
            self.entries[1].store(0, Relaxed);
        }
        self.depth.store(1, self.rules.order(Break::DepthRelaxed, Release));
        if late {
            self.entries[1].store(0, Relaxed);
        }
        self.slots[CHILD - 1].store(7, Relaxed);
        if self.rules.is(Break::ClearFirst) {
            self.slots[PARENT - 1].store(0, Release);
        }
        self.entries[1].store(CHILD, self.rules.order(Break::EntryRelaxed, Release));
        self.slots[PARENT - 1].store(0, self.rules.order(Break::ClearRelaxed, Release));
    }

    fn lookup(&self) -> usize {
        let depth = self.depth.load(self.rules.order(Break::DepthLoadedRelaxed, Acquire));
        let found = self.entries[depth].load(Acquire);
        if found == 0 { self.entries[0].load(Acquire) } else { found }
    }

    fn read(&self) -> Seen {
        let segment = self.lookup();
        let relaxed = self.rules.is(Break::SlotRelaxed) || self.rules.is(Break::MissUnordered);
        if self.slots[segment - 1].load(if relaxed { Relaxed } else { Acquire }) != 0 {
            return Seen::Found;
        }
        if !self.rules.is(Break::NoFence) && !self.rules.is(Break::MissUnordered) {
            fence(Acquire);
        }
        if self.rules.is(Break::NoLookAgain) || self.lookup() == segment {
            return Seen::Missed;
        }
        Seen::LookAgain
    }
}
