//! A reader's steps: slot, sequence, key, value, slot again, sequence again.
//!
//! Invariant: a reader writes nothing but its own private state. Called by the record model for
//! processes in [`At::Get`](super::At::Get).

use super::state::{State, StateWord, TORN};
use super::{At, Break, Records};

/// Steps of get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GetAt {
    /// Load the slot.
    Slot,
    /// Load the sequence of the record that the slot names.
    Sequence(u8),
    /// Load the key: word, sequence.
    Key(u8, u8),
    /// Copy the value: word, sequence.
    Value(u8, u8),
    /// (broken) Copy the rest of the value: word, sequence, the first part.
    ValueRest(u8, u8, u8),
    /// Load the slot again: word, sequence, value.
    SlotAgain(u8, u8, u8),
    /// Load the sequence again: word, sequence, value.
    SequenceAgain(u8, u8, u8),
}

impl Records {
    pub(super) fn step_get(&self, state: &mut State, process: usize, at: GetAt) -> bool {
        let key = self.key(state, process);
        let record = |word: u8| &state.records[usize::from(word) - 1];
        let next = match at {
            GetAt::Slot => match state.words[key as usize] {
                0 => return self.answer(state, process, 0),
                word => GetAt::Sequence(word),
            },
            GetAt::Sequence(word) => match record(word).state_word {
                StateWord::Sequence(sequence) => GetAt::Key(word, sequence),
                _ => GetAt::Slot,
            },
            GetAt::Key(word, sequence) if record(word).key == key => GetAt::Value(word, sequence),
            GetAt::Key(..) => GetAt::Slot,
            GetAt::Value(word, sequence) if self.breaks(Break::ReadTwice) => {
                GetAt::ValueRest(word, sequence, record(word).value)
            }
            GetAt::ValueRest(word, sequence, first) => {
                let value = if record(word).value == first { first } else { TORN };
                self.re_check(word, sequence, value)
            }
            GetAt::Value(word, sequence) => self.re_check(word, sequence, record(word).value),
            GetAt::SlotAgain(word, ..) if state.words[key as usize] != word => GetAt::Slot,
            GetAt::SlotAgain(word, sequence, value) => match self.broken {
                Some(Break::NoSequenceAgain) | Some(Break::SequenceAgainFirst) => {
                    return self.answer(state, process, value);
                }
                _ => GetAt::SequenceAgain(word, sequence, value),
            },
            GetAt::SequenceAgain(word, sequence, value) => {
                match (record(word).state_word == StateWord::Sequence(sequence), self.broken) {
                    (false, _) => GetAt::Slot,
                    (true, Some(Break::SequenceAgainFirst)) => {
                        GetAt::SlotAgain(word, sequence, value)
                    }
                    (true, _) => return self.answer(state, process, value),
                }
            }
        };
        state.procs.go(process, At::Get(next))
    }

    fn re_check(&self, word: u8, sequence: u8, value: u8) -> GetAt {
        match self.broken {
            Some(Break::NoSlotAgain) | Some(Break::SequenceAgainFirst) => {
                GetAt::SequenceAgain(word, sequence, value)
            }
            _ => GetAt::SlotAgain(word, sequence, value),
        }
    }

    fn answer(&self, state: &mut State, process: usize, value: u8) -> bool {
        if state.ghost.legal[process] & (1 << value) == 0 {
            state.ghost.illegal = Some((u8::try_from(process).expect("few processes"), value));
        }
        self.finish(state, process)
    }
}
