//! Recovery in the lock model: who is named in the word of a dead participant acts as it, finishes its change,
//! releases the lock, wakes a sleeper, and ends its generation. A claimant of its slot does so with its byte.
//!
//! Invariant: at most one process acts as a dead participant, and what it does can be done again by
//! the next one. Called by the lock model for waiters, sweepers and claimers.

use super::state::{Said, State};
use super::{At, Break, Locks};
use crate::participants::Who;

/// Steps of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecoverAt {
    /// Look at the word: is somebody at it who lives?
    Look,
    /// Is it dead, and not recovered? The word was this.
    Ask(Said),
    /// Swap the word, which was this, for oneself.
    Name(Said),
    /// Once more: is the byte free, and the generation still the one meant? The word was this.
    Check(Said),
    /// It is not: swap the word back.
    Withdraw(Said),
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
    /// Swap oneself in the word for nobody.
    Clear,
}

/// Steps of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimAt {
    /// Is the holder dead, and nobody at it? Say that it is.
    Say,
    /// Take the byte.
    Byte,
    /// Look at the word: is somebody at it who lives?
    Look,
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
            R::Look | R::Ask(_) | R::Name(_) | R::Check(_) | R::Withdraw(_) => {
                return self.begin_recovery(state, process, who, at);
            }
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
            R::Enter | R::Leave | R::Swap | R::Wake => self.recover(state, process, who, at),
            R::Unlist => {
                state.listed[who.slot as usize] = false;
                if self.breaks(Break::EndsGenerationFirst) { R::Clear } else { R::End }
            }
            R::End => {
                state.end_generation(who.slot as usize);
                R::Clear
            }
            R::Clear => {
                let claims = self.claims(state, process);
                let own = Some((who.generation, Some(state.procs[process].who)));
                let word = &mut state.said[who.slot as usize];
                if *word == own || self.breaks(Break::ClearsByStore) && !claims {
                    *word = Some((who.generation, None));
                }
                return state.procs.done(process);
            }
        };
        state.procs.go(process, At::Recover(who, next))
    }

    /// Gets the right to act as the dead, or not.
    fn begin_recovery(&self, state: &mut State, process: usize, who: Who, at: RecoverAt) -> bool {
        use RecoverAt as R;
        let slot = who.slot as usize;
        let own = Some((who.generation, Some(state.procs[process].who)));
        let next = match at {
            R::Look => {
                let respected = match self.breaks(Break::NoTakeover) {
                    true => matches!(state.said[slot], Some((g, Some(_))) if g == who.generation),
                    false => state.recoverer(who).is_some(),
                };
                match respected {
                    true => return state.procs.done(process),
                    false => R::Ask(state.said[slot]),
                }
            }
            R::Ask(_) if !state.left(who) => return state.procs.done(process),
            R::Ask(before) if self.breaks(Break::NoWord) => R::Check(before),
            R::Ask(before) => R::Name(before),
            R::Name(before) if state.said[slot] != before => return state.procs.done(process),
            R::Name(before) => {
                state.said[slot] = own;
                if self.breaks(Break::AsksFirst) { self.first() } else { R::Check(before) }
            }
            R::Check(_) if self.claims(state, process) && state.slots.needs_recovery(who) => {
                self.first()
            }
            R::Check(_) if state.left(who) => self.first(),
            R::Check(_)
                if self.breaks(Break::NoGenerationCheck) && state.slots.0[slot].byte.is_none() =>
            {
                self.first()
            }
            R::Check(before) => R::Withdraw(before),
            R::Withdraw(before) => {
                if state.said[slot] == own {
                    state.said[slot] = before;
                }
                return state.procs.done(process);
            }
            _ => unreachable!("{at:?} does not begin"),
        };
        state.procs.go(process, At::Recover(who, next))
    }

    /// Where recovering begins.
    fn first(&self) -> RecoverAt {
        match self.broken {
            Some(Break::EndsGenerationFirst) => RecoverAt::EndEarly,
            _ => RecoverAt::Listed,
        }
    }

    /// A claimer has the byte, and keeps it: the slot is to be its own.
    fn claims(&self, state: &State, process: usize) -> bool {
        state.procs[process].stack.iter().any(|at| matches!(at, At::Claim(..)))
    }

    /// The change of the dead, and then its lock.
    fn recover(&self, state: &mut State, process: usize, who: Who, at: RecoverAt) -> RecoverAt {
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
        if usize::from(slot) == state.slots.0.len() {
            return Self::finish(state, process);
        }
        state.procs.go(process, At::Sweep(slot + 1));
        match state.slots.dead(slot) {
            Some(dead) => state.procs.call(process, At::Recover(dead, RecoverAt::Look)),
            None => true,
        }
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
            ClaimAt::Say => {
                let who = state.slots.who(index);
                if state.slots.0[index].used {
                    if !state.left(who) || state.recoverer(who).is_some() {
                        return false;
                    }
                    if state.said[index].is_none_or(|(generation, _)| generation != who.generation)
                    {
                        state.said[index] = Some((who.generation, None));
                    }
                }
                ClaimAt::Byte
            }
            ClaimAt::Byte if !state.slots.try_byte(slot, process) => ClaimAt::Say,
            ClaimAt::Byte if self.breaks(Break::ClaimsWithoutRecovery) => ClaimAt::Tag,
            ClaimAt::Byte if self.breaks(Break::ClaimsWithoutLooking) => ClaimAt::Recover,
            ClaimAt::Byte => ClaimAt::Look,
            ClaimAt::Look => {
                let who = state.slots.who(index);
                match state.slots.0[index].used && state.recoverer(who).is_some() {
                    true => {
                        state.slots.release_byte(slot, process);
                        ClaimAt::Say
                    }
                    false => ClaimAt::Recover,
                }
            }
            ClaimAt::Recover => {
                state.procs.go(process, At::Claim(slot, ClaimAt::Tag));
                if state.slots.0[index].used {
                    let who = state.slots.who(index);
                    return state.procs.call(process, At::Recover(who, RecoverAt::Check(None)));
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
        state.procs.go(process, At::Claim(slot, next))
    }
}
