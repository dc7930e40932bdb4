//! Recovery by reincarnation: who holds a dead participant's byte acts as that participant, finishes
//! what it left, and ends its generation.
//!
//! Invariant: at most one process acts as a dead participant, and what it does can be done again by
//! the next one. Called by the record model for waiters, sweepers and claimers.

use super::state::{EXTENTS, PER_EXTENT, State, StateWord};
use super::{At, Break, ClaimAt, Records};
use crate::participants::Who;

/// Steps of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecoverAt {
    /// Take the byte.
    Byte,
    /// Is the generation still the one meant, and the slot still in use?
    Check,
    /// Does the lane list the segment?
    Listed,
    /// Does the lock word name the dead?
    LockWord,
    /// Is the pending record armed?
    Armed,
    /// Does the slot hold the new word?
    Compare,
    /// Is the victim still the one meant? Its number, and for an old record the sequence recorded.
    Victim(u8, Option<u8>),
    /// Disarm the pending record.
    Disarm,
    /// Release the lock.
    Unlock,
    /// Does the dead own this extent?
    Extent(u8),
    /// Look at this record of an extent of the dead.
    Scan(u8),
    /// Give this extent up.
    Give(u8),
    /// Clear the lane's list.
    Unlist,
    /// Bump the generation.
    Generation,
    /// Store FREE.
    Used,
    /// Release the byte.
    Release,
}

/// Steps of retiring a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetireAt {
    /// Store RETIRED.
    State,
    /// Clear the bit.
    Bit,
    /// Store FREE.
    Free,
}

impl Records {
    pub(super) fn step_retire(
        &self,
        state: &mut State,
        process: usize,
        who: Who,
        record: u8,
        at: RetireAt,
    ) -> bool {
        let early = self.breaks(Break::FreeBeforeBit);
        let victim = &mut state.records[record as usize];
        let next = match at {
            RetireAt::State => {
                victim.state_word = StateWord::Retired(who);
                if early { RetireAt::Free } else { RetireAt::Bit }
            }
            RetireAt::Bit => {
                victim.bit = false;
                if early {
                    return state.procs.done(process);
                }
                RetireAt::Free
            }
            RetireAt::Free => {
                victim.state_word = StateWord::Free;
                if !early {
                    return state.procs.done(process);
                }
                RetireAt::Bit
            }
        };
        state.procs.go(process, At::Retire(who, record, next))
    }

    pub(super) fn step_recover(
        &self,
        state: &mut State,
        process: usize,
        who: Who,
        at: RecoverAt,
    ) -> bool {
        use RecoverAt as R;
        match at {
            R::Byte | R::Check | R::Unlist | R::Generation | R::Used | R::Release => {
                self.reincarnate(state, process, who, at)
            }
            R::Extent(_) | R::Scan(_) | R::Give(_) => self.recover_extents(state, process, who, at),
            _ => self.recover_lock(state, process, who, at),
        }
    }

    /// Begins and ends being the dead participant.
    fn reincarnate(&self, state: &mut State, process: usize, who: Who, at: RecoverAt) -> bool {
        let slot = who.slot as usize;
        let next = match at {
            RecoverAt::Byte if self.breaks(Break::NoByte) => RecoverAt::Check,
            RecoverAt::Byte if state.slots.try_byte(who.slot, process) => RecoverAt::Check,
            RecoverAt::Byte => return state.procs.done(process),
            RecoverAt::Check if state.slots.needs_recovery(who) => match self.broken {
                Some(Break::BumpFirst) => RecoverAt::Generation,
                _ => RecoverAt::Listed,
            },
            RecoverAt::Check if self.breaks(Break::NoGenerationCheck) => RecoverAt::Listed,
            RecoverAt::Check => RecoverAt::Release,
            RecoverAt::Unlist => {
                state.listed[slot] = false;
                if self.breaks(Break::BumpFirst) { RecoverAt::Used } else { RecoverAt::Generation }
            }
            RecoverAt::Generation => {
                state.slots.0[slot].generation += 1;
                if self.breaks(Break::BumpFirst) { RecoverAt::Listed } else { RecoverAt::Used }
            }
            RecoverAt::Used => {
                state.slots.0[slot].used = false;
                RecoverAt::Release
            }
            _ => {
                // A claimer keeps the byte: the slot is to be its own.
                if !state.procs[process].stack.iter().any(|at| matches!(at, At::Claim(..))) {
                    state.slots.release_byte(who.slot, process);
                }
                return state.procs.done(process);
            }
        };
        state.procs.go(process, At::Recover(who, next))
    }

    /// The listed segment lock, if the dead holds it.
    fn recover_lock(&self, state: &mut State, process: usize, who: Who, at: RecoverAt) -> bool {
        let next = match at {
            RecoverAt::Listed if state.listed[who.slot as usize] => RecoverAt::LockWord,
            RecoverAt::LockWord if state.lock == Some(who) => RecoverAt::Armed,
            RecoverAt::Listed | RecoverAt::LockWord => RecoverAt::Extent(0),
            RecoverAt::Armed if state.pending.armed => RecoverAt::Compare,
            RecoverAt::Armed => RecoverAt::Unlock,
            RecoverAt::Compare => self.choose_victim(state),
            RecoverAt::Victim(record, sequence) => {
                let meant = self.is_meant(state.records[record as usize].state_word, who, sequence);
                state.procs.go(process, At::Recover(who, RecoverAt::Disarm));
                if meant {
                    state.procs.call(process, At::Retire(who, record, RetireAt::State));
                }
                return true;
            }
            RecoverAt::Disarm => {
                state.pending.armed = false;
                RecoverAt::Unlock
            }
            _ => {
                state.lock = None;
                RecoverAt::Extent(0)
            }
        };
        state.procs.go(process, At::Recover(who, next))
    }

    fn choose_victim(&self, state: &State) -> RecoverAt {
        let pending = &state.pending;
        let published = state.words[pending.position as usize] == pending.new;
        match (published, pending.old, pending.new) {
            (true, 0, _) | (false, _, 0) => RecoverAt::Disarm,
            (true, old, _) => RecoverAt::Victim(old - 1, Some(pending.old_sequence)),
            (false, _, new) => RecoverAt::Victim(new - 1, None),
        }
    }

    /// A new record is the one meant unless it is free: its extent is still owned by the dead, so
    /// nobody else can have used it again.
    fn is_meant(&self, state_word: StateWord, who: Who, sequence: Option<u8>) -> bool {
        if self.breaks(Break::VictimUnchecked) {
            return true;
        }
        match state_word {
            StateWord::Retired(owner) => owner == who,
            StateWord::Writing(owner) => owner == who && sequence.is_none(),
            StateWord::Sequence(found) => sequence.is_none_or(|sequence| sequence == found),
            StateWord::Free | StateWord::Alien => false,
        }
    }

    /// The extents of the dead: first their state words, then the ownership.
    fn recover_extents(&self, state: &mut State, process: usize, who: Who, at: RecoverAt) -> bool {
        let early = self.breaks(Break::GiveBeforeStates);
        let next = match at {
            RecoverAt::Extent(e) if usize::from(e) == EXTENTS => RecoverAt::Unlist,
            RecoverAt::Extent(e) if state.owners[e as usize] != Some(who) => {
                RecoverAt::Extent(e + 1)
            }
            RecoverAt::Extent(e) if early => RecoverAt::Give(e),
            RecoverAt::Extent(e) => RecoverAt::Scan(e * PER_EXTENT as u8),
            RecoverAt::Scan(record) => {
                let ours = |m| m == StateWord::Writing(who) || m == StateWord::Retired(who);
                let left = ours(state.records[record as usize].state_word);
                let (extent, last) =
                    (record / PER_EXTENT as u8, (record + 1) % PER_EXTENT as u8 == 0);
                let next = match (last, early) {
                    (false, _) => RecoverAt::Scan(record + 1),
                    (true, false) => RecoverAt::Give(extent),
                    (true, true) => RecoverAt::Extent(extent + 1),
                };
                state.procs.go(process, At::Recover(who, next));
                if left {
                    state.procs.call(process, At::Retire(who, record, RetireAt::State));
                }
                return true;
            }
            RecoverAt::Give(e) => {
                state.owners[e as usize] = None;
                if early { RecoverAt::Scan(e * PER_EXTENT as u8) } else { RecoverAt::Extent(e + 1) }
            }
            _ => unreachable!("{at:?} does not concern extents"),
        };
        state.procs.go(process, At::Recover(who, next))
    }

    pub(super) fn step_sweep(&self, state: &mut State, process: usize, slot: u8) -> bool {
        if usize::from(slot) == state.slots.0.len() {
            return self.finish(state, process);
        }
        state.procs.go(process, At::Sweep(slot + 1));
        match state.slots.dead(slot) {
            Some(dead) => state.procs.call(process, At::Recover(dead, RecoverAt::Byte)),
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
            ClaimAt::Byte if !state.slots.try_byte(slot, process) => return false,
            ClaimAt::Byte if self.breaks(Break::ClaimWithoutRecovery) => ClaimAt::Generation,
            ClaimAt::Byte => ClaimAt::Recover,
            ClaimAt::Recover => {
                state.procs.go(process, At::Claim(slot, ClaimAt::Generation));
                if state.slots.0[index].used {
                    let who = state.slots.who(index);
                    return state.procs.call(process, At::Recover(who, RecoverAt::Check));
                }
                return true;
            }
            ClaimAt::Generation => {
                state.slots.0[index].generation += 1;
                ClaimAt::Used
            }
            ClaimAt::Used => {
                state.slots.0[index].used = true;
                state.procs[process].who = state.slots.who(index);
                return self.finish(state, process);
            }
        };
        state.procs.go(process, At::Claim(slot, next))
    }
}
