//! Recovery in the lock model: who holds a dead participant's byte acts as it, finishes its change,
//! releases the lock, wakes a sleeper, and ends its generation.
//!
//! Invariant: at most one process acts as a dead participant, and what it does can be done again by
//! the next one. Called by the lock model for waiters, sweepers and claimers.

use super::state::State;
use super::{At, Break, Locks};
use crate::participants::Who;

/// Steps of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecoverAt {
    /// Take the byte.
    Byte,
    /// Is the generation still the one meant, and the slot still in use?
    Check,
    /// (broken) End the generation.
    EndEarly,
    /// Does the lane list the lock?
    Listed,
    /// Does the word name the dead?
    Owner,
    /// Begin to finish the change.
    Enter,
    /// End it.
    Leave,
    /// Swap the word for 0.
    Swap,
    /// Wake one sleeper.
    Wake,
    /// Clear the lane's list.
    Unlist,
    /// End the generation.
    End,
    /// Release the byte.
    Release,
}

/// Steps of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimAt {
    /// Take the byte.
    Byte,
    /// Recover what the previous holder left.
    Recover,
    /// One store: the next generation, in use.
    Tag,
}

impl Locks {
    pub(super) fn step_recover(
        &self,
        state: &mut State,
        process: usize,
        who: Who,
        at: RecoverAt,
    ) -> bool {
        use RecoverAt as R;
        let next = match at {
            R::Byte if self.breaks(Break::NoByte) => R::Check,
            R::Byte if state.slots.try_byte(who.slot, process) => R::Check,
            R::Byte => return state.done(process),
            R::Check if state.slots.unsettled(who) => match self.broken {
                Some(Break::EndsGenerationFirst) => R::EndEarly,
                _ => R::Listed,
            },
            R::Check if self.breaks(Break::NoGenerationCheck) => R::Listed,
            R::Check => R::Release,
            R::EndEarly => {
                state.end_generation(who.slot as usize);
                R::Listed
            }
            R::Listed if state.listed[who.slot as usize] => R::Owner,
            R::Owner if state.word.owner == Some(who) => match self.broken {
                Some(Break::UnlocksBeforeSettling) => R::Swap,
                _ => R::Enter,
            },
            R::Listed | R::Owner => R::Unlist,
            R::Enter | R::Leave | R::Swap | R::Wake => self.settle(state, process, who, at),
            R::Unlist => {
                state.listed[who.slot as usize] = false;
                if self.breaks(Break::EndsGenerationFirst) { R::Release } else { R::End }
            }
            R::End => {
                state.end_generation(who.slot as usize);
                R::Release
            }
            R::Release => {
                // A claimer keeps the byte: the slot is to be its own.
                if !state.procs[process].stack.iter().any(|at| matches!(at, At::Claim(..))) {
                    state.slots.release_byte(who.slot, process);
                }
                return state.done(process);
            }
        };
        state.go(process, At::Recover(who, next))
    }

    /// The change of the dead, and then its lock.
    fn settle(&self, state: &mut State, process: usize, who: Who, at: RecoverAt) -> RecoverAt {
        let early = self.breaks(Break::UnlocksBeforeSettling);
        match at {
            RecoverAt::Enter => {
                state.enter(process, who);
                RecoverAt::Leave
            }
            RecoverAt::Leave => {
                state.leave(process, who);
                if early { RecoverAt::Unlist } else { RecoverAt::Swap }
            }
            RecoverAt::Swap => match (state.release(process, who), early) {
                (true, _) => RecoverAt::Wake,
                (false, true) => RecoverAt::Enter,
                (false, false) => RecoverAt::Unlist,
            },
            _ => {
                state.wake_one();
                if early { RecoverAt::Enter } else { RecoverAt::Unlist }
            }
        }
    }

    pub(super) fn step_sweep(state: &mut State, process: usize, slot: u8) -> bool {
        let Some(entry) = state.slots.0.get(slot as usize).copied() else {
            return Self::finish(state, process);
        };
        state.go(process, At::Sweep(slot + 1));
        if entry.used && entry.byte.is_none() {
            let who = Who { slot, generation: entry.generation };
            return state.call(process, At::Recover(who, RecoverAt::Byte));
        }
        true
    }

    pub(super) fn step_claim(
        &self,
        state: &mut State,
        process: usize,
        slot: u8,
        at: ClaimAt,
    ) -> bool {
        let index = slot as usize;
        let next = match at {
            ClaimAt::Byte if !state.slots.try_byte(slot, process) => return false,
            ClaimAt::Byte if self.breaks(Break::ClaimsWithoutRecovery) => ClaimAt::Tag,
            ClaimAt::Byte => ClaimAt::Recover,
            ClaimAt::Recover => {
                state.go(process, At::Claim(slot, ClaimAt::Tag));
                if state.slots.0[index].used {
                    let who = state.slots.who(index);
                    return state.call(process, At::Recover(who, RecoverAt::Check));
                }
                return true;
            }
            ClaimAt::Tag => {
                state.listed[index] = false;
                state.slots.0[index].generation += 1;
                state.slots.0[index].used = true;
                state.procs[process].who = state.slots.who(index);
                return Self::finish(state, process);
            }
        };
        state.go(process, At::Claim(slot, next))
    }
}
