//! Protocol 2: a reader against publishing and reuse (`map/engine/read.rs`, `map/engine/locked.rs`,
//! `memory/slab.rs`).
//!
//! A key's slot names record 1. Then it names record 2; record 1 is used again for a change that
//! never commits, and once more for one that does, so that the slot holds its first word again.
//! Invariant: a reader returns a committed value.

use super::{Rules, explore};
use Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// A way to get the orderings wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The slot is loaded again with a relaxed load.
    SlotAgainRelaxed,
    /// The sequence is loaded again before the slot is.
    SequenceAgainFirst,
    /// The slot is not loaded again.
    NoSlotAgain,
    /// The sequence is not loaded again.
    NoSequenceAgain,
    /// No acquire fence between the copy and the second look.
    NoAcquireFence,
    /// No release fence between the state word and the bytes.
    NoReleaseFence,
    /// The sequence is first loaded with a relaxed load.
    FirstSequenceRelaxed,
    /// The sequence is published with neither a release store nor a release fence.
    SequencePublishedRelaxed,
    /// Not a break: the release fence before the sequence covers the slot, too.
    SlotPublishedRelaxed,
}

/// Every break.
pub const BREAKS: [Break; 8] = [
    Break::SlotAgainRelaxed,
    Break::SequenceAgainFirst,
    Break::NoSlotAgain,
    Break::NoSequenceAgain,
    Break::NoAcquireFence,
    Break::NoReleaseFence,
    Break::FirstSequenceRelaxed,
    Break::SequencePublishedRelaxed,
];

/// The publishing of the slot is ordered twice; either is enough.
pub const SPARE: [Break; 1] = [Break::SlotPublishedRelaxed];

const WRITING: usize = 0;
const NEVER_COMMITTED: usize = 66;

/// A record; `WRITING` stands for every state word that is not a sequence.
struct Record {
    state_word: AtomicUsize,
    value: AtomicUsize,
}

struct Shared {
    slot: AtomicUsize,
    records: [Record; 2],
    rules: Rules<Break>,
}

/// Runs the model.
///
/// # Errors
/// What failed.
pub fn check(broken: Option<Break>, preemptions: Option<usize>) -> Result<usize, String> {
    explore(preemptions, move || {
        let record = |sequence, value| Record {
            state_word: AtomicUsize::new(sequence),
            value: AtomicUsize::new(value),
        };
        let records = [record(1, 11), record(2, 22)];
        let shared = Arc::new(Shared { slot: AtomicUsize::new(1), records, rules: Rules(broken) });
        let reader = {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || shared.read())
        };
        shared.publish(2);
        shared.write(NEVER_COMMITTED, 3);
        shared.write(44, 4);
        shared.publish(1);
        let read = reader.join().expect("the reader does not panic");
        assert!(read != Some(NEVER_COMMITTED), "a value was read that was never committed");
    })
}

impl Shared {
    fn publish(&self, word: usize) {
        self.slot.store(word, self.rules.order(Break::SlotPublishedRelaxed, Release));
    }

    /// Uses record 1 again.
    fn write(&self, value: usize, sequence: usize) {
        let record = &self.records[0];
        record.state_word.store(WRITING, Relaxed);
        self.rules.fence(Break::NoReleaseFence, Release);
        record.value.store(value, Relaxed);
        self.rules.fence(Break::SequencePublishedRelaxed, Release);
        record
            .state_word
            .store(sequence, self.rules.order(Break::SequencePublishedRelaxed, Release));
    }

    /// One try; `None` stands for "look again".
    fn read(&self) -> Option<usize> {
        let word = self.slot.load(Acquire);
        let record = &self.records[word - 1];
        let sequence =
            record.state_word.load(self.rules.order(Break::FirstSequenceRelaxed, Acquire));
        if sequence == WRITING {
            return None;
        }
        let value = record.value.load(Relaxed);
        self.rules.fence(Break::NoAcquireFence, Acquire);
        if self.rules.is(Break::SequenceAgainFirst) && record.state_word.load(Relaxed) != sequence {
            return None;
        }
        let again = self.rules.order(Break::SlotAgainRelaxed, Acquire);
        if !self.rules.is(Break::NoSlotAgain) && self.slot.load(again) != word {
            return None;
        }
        let skip =
            self.rules.is(Break::NoSequenceAgain) || self.rules.is(Break::SequenceAgainFirst);
        if !skip && record.state_word.load(Relaxed) != sequence {
            return None;
        }
        Some(value)
    }
}
