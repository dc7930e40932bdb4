//! Recovery by reincarnation: first every listed lock of the dead, then what it has in flight.
//!
//! Invariant: at most one thread acts as a dead participant, and what it does can be done again by the next one.

use super::moves::Move;
use super::state::{ELEMENTS, Ids, Lock, State, THREADS};
use super::{At, Break, Queues};
use crate::participants::Who;

/// Steps of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecoverAt {
    /// Take the byte.
    Byte,
    /// Is the generation still the one meant?
    Check,
    /// Look at the list of this lane.
    Lane(u8),
    /// Roll back the n-th entry behind this lock's index.
    RollBack(u8, Lock, u8),
    /// The index is the intent again.
    Disarm(u8, Lock),
    /// Release it.
    Unlock(u8, Lock),
    /// Clear all lists.
    Unlist,
    /// Look for something in flight, and push it.
    GiveBack,
    /// Bump the generation.
    Generation,
    /// Release the byte.
    Release,
}

impl Queues {
    pub(super) fn step_recover(
        &self,
        state: &mut State,
        thread: usize,
        who: Who,
        at: RecoverAt,
    ) -> bool {
        use RecoverAt as R;
        let me = usize::from(state.threads[thread].who.slot);
        let first = if self.breaks(Break::GivesBackFirst) { R::GiveBack } else { R::Lane(0) };
        let next = match at {
            R::Byte if self.breaks(Break::NoByte) || state.slots.try_byte(who.slot, me) => R::Check,
            R::Byte => return state.threads.done(thread),
            R::Check if !state.slots.needs_recovery(who) => R::Release,
            R::Check if self.breaks(Break::EndsGenerationFirst) => R::Generation,
            R::Check => first,
            R::Lane(lane) if usize::from(lane) == THREADS => R::Unlist,
            R::Lane(lane) => {
                // Lanes are the participant's own; an acting recoverer uses those of the dead.
                let own = state.threads[usize::from(lane)].who.slot == who.slot;
                match state.lists[usize::from(lane)].filter(|_| own) {
                    Some(lock) if state.end(lock).lock == Some(who) => {
                        if self.breaks(Break::UnlocksBeforeRollBack) {
                            R::Unlock(lane, lock)
                        } else {
                            R::RollBack(lane, lock, 0)
                        }
                    }
                    _ => R::Lane(lane + 1),
                }
            }
            R::RollBack(lane, lock, n) => {
                let end = *state.end(lock);
                let at = end.index + n;
                if self.breaks(Break::NoRollBack) || at >= end.intent {
                    if self.breaks(Break::ClearsAfterCommit) && lock.1 && n == 0 {
                        self.clear_committed(state, who, lock);
                    }
                    R::Disarm(lane, lock)
                } else {
                    let id = usize::from(*state.entry(lock.0, at));
                    let after = self.breaks(Break::ClearsAfterCommit) && lock.1;
                    let (from, to) = if lock.1 { (None, Some(who)) } else { (Some(who), None) };
                    if state.holders[id] == from && !after {
                        state.holders[id] = to;
                    }
                    R::RollBack(lane, lock, n + 1)
                }
            }
            R::Disarm(lane, lock) => {
                let end = state.end(lock);
                end.intent = end.index;
                match self.breaks(Break::UnlocksBeforeRollBack) {
                    true => R::Lane(lane + 1),
                    false => R::Unlock(lane, lock),
                }
            }
            R::Unlock(lane, lock) => {
                if state.end(lock).lock == Some(who) {
                    state.end(lock).lock = None;
                }
                match self.breaks(Break::UnlocksBeforeRollBack) {
                    true => R::RollBack(lane, lock, 0),
                    false => R::Lane(lane + 1),
                }
            }
            R::Unlist => {
                for lane in 0..THREADS {
                    if state.threads[lane].who.slot == who.slot {
                        state.lists[lane] = None;
                    }
                }
                if self.breaks(Break::GivesBackFirst) { R::Generation } else { R::GiveBack }
            }
            R::GiveBack => {
                let held =
                    (0..ELEMENTS as u8).filter(|id| state.holders[usize::from(*id)] == Some(who));
                let ids: Ids = held.collect();
                if !ids.is_empty() {
                    state.threads[thread].own.moving = ids;
                    let lane = (0..THREADS).find(|n| state.threads[*n].who.slot == who.slot);
                    let lane = lane.expect("a thread of its own") as u8;
                    let mv = Move { who, lane, lock: (0, true), max: 0 };
                    return self.begin_move(state, thread, mv);
                }
                if self.breaks(Break::GivesBackFirst) { R::Lane(0) } else { R::Generation }
            }
            R::Generation => {
                let slot = &mut state.slots.0[usize::from(who.slot)];
                let early =
                    self.breaks(Break::EndsGenerationFirst) && slot.generation == who.generation;
                slot.generation = who.generation + 1;
                slot.used = false;
                if early { R::Lane(0) } else { R::Release }
            }
            R::Release => {
                state.slots.release_byte(who.slot, me);
                return state.threads.done(thread);
            }
        };
        state.threads.go(thread, At::Recover(who, next))
    }

    /// What the broken order needs: a push that was committed is finished by clearing the words.
    fn clear_committed(&self, state: &mut State, who: Who, lock: Lock) {
        let end = *state.end(lock);
        for at in end.index.saturating_sub(ELEMENTS as u8)..end.index.min(end.intent) {
            let id = usize::from(*state.entry(lock.0, at));
            if state.holders[id] == Some(who) && at + 1 == end.intent {
                state.holders[id] = None;
            }
        }
    }
}
