//! Protocol 1: a record is retired by one thread and allocated again by another (`memory/slab.rs`).
//!
//! The first thread owns the extent, writes a record, gives the extent up, and retires the record; the other
//! one adopts the extent and looks for a free record. Invariant: whoever gets the record does so after its
//! last use, and the new record's state word and bit stay.

use super::{Rules, explore};
use Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::Arc;

/// A way to get the orderings wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// A clear bit is enough to allocate the record, whatever its state word says.
    ByBitOnly,
    /// Neither the clearing of the bit nor the store of FREE releases.
    RetiredUnordered,
    /// The extent is adopted with a relaxed exchange.
    AdoptedRelaxed,
    /// The extent is used without adopting it.
    NotAdopted,
    /// Not a break: the clearing of the bit still releases.
    FreeRelaxed,
    /// Not a break: the load of the bits still acquires.
    StateRelaxed,
    /// Not a break: the store of FREE still releases.
    BitRelaxed,
    /// Not a break: the release fence behind the record's state word covers the giving up, too.
    GivenUpRelaxed,
}

/// Every break.
pub const BREAKS: [Break; 4] =
    [Break::ByBitOnly, Break::RetiredUnordered, Break::AdoptedRelaxed, Break::NotAdopted];

/// What orders the reuse is there twice, by the bit and by the state word; either of them is enough.
pub const SPARE: [Break; 4] =
    [Break::FreeRelaxed, Break::StateRelaxed, Break::BitRelaxed, Break::GivenUpRelaxed];

const FREE: usize = 0;
const FIRST: usize = 1;
const SECOND: usize = 2;
const SEQUENCE: usize = 3;
const RETIRED: usize = 4;
const LAST_USE: usize = 5;

struct Shared {
    /// Owner of the extent; `FREE` is nobody.
    owner: AtomicUsize,
    bits: AtomicUsize,
    state_word: AtomicUsize,
    /// How the record's bytes were used last.
    bytes: AtomicUsize,
    rules: Rules<Break>,
}

/// Runs the model.
///
/// # Errors
/// What failed.
pub fn check(broken: Option<Break>, preemptions: Option<usize>) -> Result<usize, String> {
    explore(preemptions, move || {
        let shared = Arc::new(Shared {
            owner: AtomicUsize::new(FIRST),
            bits: AtomicUsize::new(0),
            state_word: AtomicUsize::new(FREE),
            bytes: AtomicUsize::new(FREE),
            rules: Rules(broken),
        });
        let other = {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || if shared.adopt() { shared.allocate(SECOND) } else { None })
        };
        if shared.allocate(FIRST).is_some() {
            shared.state_word.store(SEQUENCE, Release);
            let given_up = shared.rules.order(Break::GivenUpRelaxed, Release);
            shared.owner.store(FREE, given_up);
            shared.retire();
        }
        if let Some(last) = other.join().expect("the other thread does not panic") {
            assert_eq!(last, LAST_USE, "used again before its last use");
            assert_eq!(
                shared.state_word.load(Acquire),
                SECOND,
                "the new record's state word is gone"
            );
            assert_eq!(shared.bits.load(Acquire), 1, "the new record's bit is gone");
        }
    })
}

impl Shared {
    fn adopt(&self) -> bool {
        let order = self.rules.order(Break::AdoptedRelaxed, AcqRel);
        self.rules.is(Break::NotAdopted)
            || self.owner.compare_exchange(FREE, SECOND, order, Relaxed).is_ok()
    }

    /// Takes the record if it is free, and writes its bytes. Returns how they were used before.
    fn allocate(&self, me: usize) -> Option<usize> {
        if self.bits.load(Acquire) & 1 != 0 {
            return None;
        }
        let order = self.rules.order(Break::StateRelaxed, Acquire);
        if !self.rules.is(Break::ByBitOnly) && self.state_word.load(order) != FREE {
            return None;
        }
        self.state_word.store(me, Relaxed);
        fence(Release);
        self.bits.fetch_or(1, Release);
        let last = self.bytes.load(Relaxed);
        self.bytes.store(me, Relaxed);
        Some(last)
    }

    fn retire(&self) {
        // In the product the last use is a read; a store stands for it, because it can be seen from elsewhere.
        self.bytes.store(LAST_USE, Relaxed);
        self.state_word.store(RETIRED, Release);
        let unordered = self.rules.is(Break::RetiredUnordered);
        let bit = if unordered { Relaxed } else { self.rules.order(Break::BitRelaxed, AcqRel) };
        self.bits.fetch_and(!1, bit);
        let free = if unordered { Relaxed } else { self.rules.order(Break::FreeRelaxed, Release) };
        self.state_word.store(FREE, free);
    }
}
