//! What must hold in the split model at every state, and what must hold at rest.
//!
//! Invariant: the checks read everything at once, which no process can. Called by the split model.

use super::state::{HASHES, KEYS, Phase, State, StateWord, index};
use crate::participants::Who;

/// At every state: lookups are right, nothing names a generation that ended, readers were right.
pub fn always(state: &State) -> Result<(), String> {
    if let Some((process, value)) = state.ghost.illegal {
        return Err(format!("P{process} read {value}, which its key did not have"));
    }
    for (key, hash) in HASHES.iter().enumerate().take(KEYS) {
        let segment = state.resolve(*hash);
        let found = state.segments[segment as usize].values[key];
        if found != state.ghost.committed[key] {
            let committed = state.ghost.committed[key];
            return Err(format!("key {key} has {found} in segment {segment}, not {committed}"));
        }
    }
    match owners(state).find(|&who| state.slots.ended(who)) {
        Some(who) => Err(format!("{who:?} has ended and is still named")),
        None => Ok(()),
    }
}

fn owners(state: &State) -> impl Iterator<Item = Who> {
    let of_segment = |s: &super::Segment| {
        let state_word = match s.state_word {
            StateWord::Writing(who) | StateWord::Retired(who) => Some(who),
            _ => None,
        };
        [state_word, s.owner, s.lock].into_iter().flatten()
    };
    state.segments.iter().flat_map(of_segment).chain(state.directory_lock)
}

/// At rest, after a sweep: allocated = reachable, nobody holds anything, no key is anywhere else.
pub fn at_rest(state: &State) -> Result<(), String> {
    if let Some(who) = owners(state).next() {
        return Err(format!("{who:?} still holds something at rest"));
    }
    if state.slots.0.iter().any(|slot| slot.used || slot.byte.is_some()) {
        return Err("a slot is in use at rest".into());
    }
    for (number, segment) in state.segments.iter().enumerate().skip(1) {
        let reachable = (0..8).any(|hash| usize::from(state.resolve(hash)) == number);
        if (segment.state_word == StateWord::Live) != reachable {
            return Err(format!("segment {number}: reachable is {reachable}, yet {segment:?}"));
        }
        if reachable {
            segment_is_right(state, number)?;
        }
    }
    Ok(())
}

fn segment_is_right(state: &State, number: usize) -> Result<(), String> {
    let segment = &state.segments[number];
    if segment.phase != Phase::None {
        return Err(format!("segment {number} is being split at rest"));
    }
    for hash in 0..8 {
        let covered = index(hash, segment.local) == usize::from(segment.prefix);
        if covered != (usize::from(state.resolve(hash)) == number) {
            return Err(format!("hash {hash:03b} and segment {number} disagree: {segment:?}"));
        }
    }
    for (key, hash) in HASHES.iter().enumerate().take(KEYS) {
        let covered = index(*hash, segment.local) == usize::from(segment.prefix);
        if !covered && segment.values[key] != 0 {
            return Err(format!("key {key} is left behind in segment {number}"));
        }
    }
    Ok(())
}
