//! What must hold in the record model at every state, and what must hold at rest.
//!
//! Invariant: the checks read everything at once, which no process can. Called by the record model.

use super::state::{PER_EXTENT, State, StateWord};
use crate::participants::Who;

/// At every state: slots are right, nothing names a generation that ended, readers were right.
pub fn always(state: &State) -> Result<(), String> {
    if let Some((process, value)) = state.ghost.illegal {
        return Err(format!("P{process} read {value}, which its key did not have"));
    }
    for (key, &word) in state.words.iter().enumerate() {
        slot_is_right(state, key, word)?;
    }
    for who in owners(state) {
        if state.slots.ended(who) {
            return Err(format!("{who:?} has ended and is still named"));
        }
    }
    for extent in state.records.chunks(PER_EXTENT) {
        // The extent's own filling is the only writer of an alien extent, first record first.
        if extent[0].state_word != StateWord::Alien
            && extent[1..].iter().any(|r| r.state_word == StateWord::Alien)
        {
            return Err("a record's first word was stored in an extent of another class".into());
        }
    }
    Ok(())
}

fn slot_is_right(state: &State, key: usize, word: u8) -> Result<(), String> {
    let committed = state.ghost.committed[key];
    if word == 0 {
        return match committed {
            0 => Ok(()),
            lost => Err(format!("key {key} has lost its value {lost}")),
        };
    }
    let record = &state.records[usize::from(word) - 1];
    let right = record.bit
        && matches!(record.state_word, StateWord::Sequence(_))
        && usize::from(record.key) == key
        && record.value == committed;
    if right {
        return Ok(());
    }
    Err(format!("key {key} should have value {committed}, its slot names {record:?}"))
}

fn owners(state: &State) -> impl Iterator<Item = Who> {
    let state_words = state.records.iter().filter_map(|record| match record.state_word {
        StateWord::Writing(who) | StateWord::Retired(who) => Some(who),
        _ => None,
    });
    state_words.chain(state.owners.iter().copied().flatten()).chain(state.lock)
}

/// At rest, after a sweep: allocated = reachable, and nobody holds anything.
pub fn at_rest(state: &State) -> Result<(), String> {
    if let Some(who) = owners(state).next() {
        return Err(format!("{who:?} still holds something at rest"));
    }
    if state.pending.armed {
        return Err("the pending record is armed at rest".into());
    }
    if state.slots.0.iter().any(|slot| slot.used || slot.byte.is_some()) {
        return Err("a slot is in use at rest".into());
    }
    for (number, record) in state.records.iter().enumerate() {
        let reachable = state.words.iter().any(|&word| usize::from(word) == number + 1);
        let allocated =
            record.bit || !matches!(record.state_word, StateWord::Free | StateWord::Alien);
        if allocated != reachable {
            let what = if allocated { "allocated and not reachable" } else { "lost" };
            return Err(format!("record {number} is {what}: {record:?}"));
        }
    }
    Ok(())
}
