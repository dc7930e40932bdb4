//! [`InFlight`]: this process's record of elements in flight that have no
//! [`Element`](crate::queue::Element) value.
//!
//! Such an element was either turned into a number
//! ([`Element::into_raw`](crate::queue::Element::into_raw)), which may be turned back once; or it
//! was dropped when it could not be pushed to the orphans, and will be pushed there later. One word
//! per element records which of the two, and the owner. After a fork, copied words name the parent
//! and do not count in the child.
//!
//! All handles of a process on one queue through one handle on the hold share it. It outlives them
//! while it knows an element (memory/private_records.rs).

use crate::memory::arena::Arena;
use crate::memory::block::Block;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The element was dropped and must go to the orphans. Owners have 31 bits.
const DROPPED: u32 = 1 << 31;

/// The state of each element.
pub(crate) struct InFlight {
    /// Per element: 0, or its owner, perhaps with [`DROPPED`].
    words: Box<[AtomicU32]>,
    /// The number of dropped elements.
    dropped: AtomicU32,
}

impl InFlight {
    fn new(elements: u32) -> InFlight {
        let words = (0..elements).map(|_| AtomicU32::new(0)).collect();
        InFlight { words, dropped: AtomicU32::new(0) }
    }

    /// The record of a queue that is open through this arena.
    pub(crate) fn of(arena: &Arena, block: &Block, elements: u32) -> Arc<InFlight> {
        let key = (block.id, block.incarnation);
        arena.records.of(key, || InFlight::new(elements), InFlight::is_in_use)
    }

    /// True if it knows an element that is in flight.
    fn is_in_use(&self) -> bool {
        // Relaxed: no handle is left that could change it.
        self.words.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// The elements as numbers.
    #[inline]
    pub(crate) fn numbers(&self) -> Numbers<'_> {
        Numbers(&self.words)
    }

    /// The elements were dropped and are still in flight.
    #[cold]
    pub(crate) fn note_dropped(&self, ids: &[u32], owner: u32) {
        for word in ids.iter().filter_map(|id| self.words.get(*id as usize)) {
            // Release: as in `give_away`.
            word.store(owner | DROPPED, Ordering::Release);
            // Relaxed: a hint.
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True if there may be elements that were dropped and are still in flight.
    #[inline]
    pub(crate) fn has_dropped(&self) -> bool {
        // Relaxed: a hint; the thread that dropped them, or the next one, looks again.
        self.dropped.load(Ordering::Relaxed) != 0
    }

    /// Takes the elements that `owner` dropped. Those that another owner dropped are copies from
    /// before a fork.
    #[cold]
    pub(crate) fn take_dropped(&self, owner: u32) -> Vec<u32> {
        let mut ids = Vec::new();
        for (id, word) in (0..).zip(&self.words) {
            let seen = word.load(Ordering::Relaxed);
            if seen & DROPPED != 0
                && word.compare_exchange(seen, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                self.dropped.fetch_sub(1, Ordering::Relaxed);
                ids.extend((seen == owner | DROPPED).then_some(id));
            }
        }
        ids
    }
}

/// The elements in flight as numbers.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a>(&'a [AtomicU32]);

impl Numbers<'_> {
    /// The element was turned into a number.
    #[inline]
    pub(crate) fn give_away(self, id: u32, owner: u32) {
        if let Some(word) = self.0.get(id as usize) {
            // Release: covers everything done with the element before; pairs with the acquire in
            // `take_back`.
            word.store(owner, Ordering::Release);
        }
    }

    /// True, once, if the element was turned into a number.
    #[inline]
    pub(crate) fn take_back(self, id: u32, owner: u32) -> bool {
        let word = self.0.get(id as usize).filter(|_| owner != 0 && owner & DROPPED == 0);
        word.is_some_and(|word| {
            word.compare_exchange(owner, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    /// True if the element was turned into a number, for the owner, and not turned back.
    pub(crate) fn is_away(self, id: u32, owner: u32) -> bool {
        // Relaxed: for a message.
        self.0.get(id as usize).is_some_and(|word| word.load(Ordering::Relaxed) == owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_given_away_comes_back_once_and_to_its_owner() {
        let in_flight = InFlight::new(4);
        assert!(
            !in_flight.numbers().take_back(2, 7)
                && !in_flight.numbers().take_back(2, 0)
                && !in_flight.numbers().take_back(9, 7)
        );
        in_flight.numbers().give_away(2, 7);
        assert!(
            !in_flight.numbers().take_back(2, 8)
                && !in_flight.numbers().take_back(1, 7)
                && !in_flight.numbers().take_back(2, 0)
        );
        assert!(in_flight.is_in_use() && in_flight.numbers().take_back(2, 7));
        assert!(!in_flight.numbers().take_back(2, 7) && !in_flight.is_in_use());
    }

    #[test]
    fn a_dropped_element_is_taken_once_and_by_its_owner() {
        let in_flight = InFlight::new(4);
        assert!(!in_flight.has_dropped() && in_flight.take_dropped(7).is_empty());
        in_flight.note_dropped(&[3, 1], 7);
        assert!(in_flight.has_dropped());
        assert!(
            !in_flight.numbers().take_back(3, 7) && !in_flight.numbers().take_back(3, 7 | DROPPED)
        );
        assert_eq!(in_flight.take_dropped(7), [1, 3]);
        assert!(!in_flight.has_dropped() && in_flight.take_dropped(7).is_empty());
        // In a forked child.
        in_flight.note_dropped(&[0], 7);
        assert!(in_flight.take_dropped(8).is_empty() && !in_flight.has_dropped());
    }
}
