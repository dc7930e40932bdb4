//! Recovery by reincarnation in the split model: the directory lock, the listed segment and its split,
//! the listed child, the extents, and then the generation.
//!
//! Invariant: at most one process acts as a dead participant, and what it does can be done again by
//! the next one. While it waits for the directory lock it holds no other lock as itself that the lock's
//! owner could need. Called by the split model for waiters and sweepers.

use super::state::{Phase, SEGMENTS, State, StateWord};
use super::{At, Break, FinishAt, Splits};
use crate::participants::Who;

/// Steps of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecoverAt {
    /// Take the byte.
    Byte,
    /// Is the generation still the one meant, and the slot still in use?
    Check,
    /// Release the directory lock if the dead holds it.
    Directory,
    /// Does the lane list a segment, and does its lock word name the dead?
    Segment,
    /// What was it doing? Of this segment.
    Phase(u8),
    /// Roll back: release the child (parent, child).
    RollBackUnlock(u8, u8),
    /// Roll back: store RETIRED in the child's first word.
    RollBackState(u8, u8),
    /// Roll back: store FREE.
    RollBackFree(u8, u8),
    /// Roll back: store phase NONE.
    RollBackPhase(u8, u8),
    /// Release the segment.
    Unlock(u8),
    /// Does the lane list a child, and does its lock word name the dead? Release it.
    Child,
    /// Does the dead own this segment's extent? Store RETIRED if it left a state word.
    Extent(u8),
    /// Store FREE.
    ExtentFree(u8),
    /// Give the extent up.
    ExtentGive(u8),
    /// Clear the lane's list.
    Unlist,
    /// Bump the generation.
    Generation,
    /// Store FREE.
    Used,
    /// Release the byte.
    Release,
}

impl Splits {
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
            R::Directory | R::Segment | R::Phase(_) | R::Unlock(_) | R::Child => {
                self.recover_locks(state, process, who, at)
            }
            R::RollBackUnlock(..)
            | R::RollBackState(..)
            | R::RollBackFree(..)
            | R::RollBackPhase(..) => self.roll_back_child(state, process, who, at),
            R::Extent(_) | R::ExtentFree(_) | R::ExtentGive(_) => {
                self.recover_extents(state, process, who, at)
            }
        }
    }

    /// Begins and ends being the dead participant.
    fn reincarnate(&self, state: &mut State, process: usize, who: Who, at: RecoverAt) -> bool {
        let slot = who.slot as usize;
        let next = match at {
            RecoverAt::Byte if self.breaks(Break::NoByte) => RecoverAt::Check,
            RecoverAt::Byte if state.slots.try_byte(who.slot, process) => RecoverAt::Check,
            RecoverAt::Byte => return state.procs.done(process),
            RecoverAt::Check if state.slots.needs_recovery(who) => RecoverAt::Directory,
            RecoverAt::Check => RecoverAt::Release,
            RecoverAt::Unlist => {
                state.lanes[slot] = super::Lane::default();
                RecoverAt::Generation
            }
            RecoverAt::Generation => {
                state.slots.0[slot].generation += 1;
                RecoverAt::Used
            }
            RecoverAt::Used => {
                state.slots.0[slot].used = false;
                RecoverAt::Release
            }
            _ => {
                state.slots.release_byte(who.slot, process);
                return state.procs.done(process);
            }
        };
        state.procs.go(process, At::Recover(who, next))
    }

    fn recover_locks(&self, state: &mut State, process: usize, who: Who, at: RecoverAt) -> bool {
        let lane = state.lanes[who.slot as usize];
        let next = match at {
            RecoverAt::Directory => {
                if state.directory_lock == Some(who) && !self.breaks(Break::DirectoryLockKept) {
                    state.directory_lock = None;
                }
                match self.breaks(Break::ChildRecoveredFirst) {
                    true => RecoverAt::Child,
                    false => RecoverAt::Segment,
                }
            }
            RecoverAt::Segment => match state.segment(lane.segment).lock == Some(who) {
                true => RecoverAt::Phase(lane.segment),
                false => self.after_segment(),
            },
            RecoverAt::Phase(parent) => return self.recover_phase(state, process, who, parent),
            RecoverAt::Unlock(parent) => {
                state.segment(parent).lock = None;
                self.after_segment()
            }
            _ => {
                if state.segment(lane.child).lock == Some(who) {
                    state.segment(lane.child).lock = None;
                }
                match self.breaks(Break::ChildRecoveredFirst) {
                    true => RecoverAt::Segment,
                    false => RecoverAt::Extent(1),
                }
            }
        };
        state.procs.go(process, At::Recover(who, next))
    }

    fn after_segment(&self) -> RecoverAt {
        if self.breaks(Break::ChildRecoveredFirst) {
            RecoverAt::Extent(1)
        } else {
            RecoverAt::Child
        }
    }

    fn recover_phase(&self, state: &mut State, process: usize, who: Who, parent: u8) -> bool {
        let next = match state.segment(parent).phase {
            Phase::None => RecoverAt::Unlock(parent),
            Phase::Copying(child) => match self.breaks(Break::RollBackPhaseFirst) {
                true => RecoverAt::RollBackPhase(parent, child),
                false => RecoverAt::RollBackUnlock(parent, child),
            },
            Phase::Publishing(_) => {
                state.procs.go(process, At::Recover(who, RecoverAt::Unlock(parent)));
                let first = match self.breaks(Break::CopyAgain) {
                    true => FinishAt::Copy(0),
                    false => self.first_finish(),
                };
                return state.procs.call(process, At::Finish(who, parent, first));
            }
        };
        state.procs.go(process, At::Recover(who, next))
    }

    /// The child's extent is still owned by the dead, so the child cannot be in use for anything else,
    /// however often this is begun.
    fn roll_back_child(&self, state: &mut State, process: usize, who: Who, at: RecoverAt) -> bool {
        let early = self.breaks(Break::RollBackPhaseFirst);
        let next = match at {
            RecoverAt::RollBackUnlock(parent, child) => {
                if state.segment(child).lock == Some(who) {
                    state.segment(child).lock = None;
                }
                match state.segment(child).state_word {
                    StateWord::Free if early => RecoverAt::Unlock(parent),
                    StateWord::Free => RecoverAt::RollBackPhase(parent, child),
                    _ => RecoverAt::RollBackState(parent, child),
                }
            }
            RecoverAt::RollBackState(parent, child) => {
                state.segment(child).state_word = StateWord::Retired(who);
                RecoverAt::RollBackFree(parent, child)
            }
            RecoverAt::RollBackFree(parent, child) => {
                state.segment(child).state_word = StateWord::Free;
                match early {
                    true => RecoverAt::Unlock(parent),
                    false => RecoverAt::RollBackPhase(parent, child),
                }
            }
            RecoverAt::RollBackPhase(parent, child) => {
                state.segment(parent).phase = Phase::None;
                match early {
                    true => RecoverAt::RollBackUnlock(parent, child),
                    false => RecoverAt::Unlock(parent),
                }
            }
            _ => unreachable!("{at:?} does not roll back"),
        };
        state.procs.go(process, At::Recover(who, next))
    }

    fn recover_extents(&self, state: &mut State, process: usize, who: Who, at: RecoverAt) -> bool {
        let next = match at {
            RecoverAt::Extent(e) if usize::from(e) == SEGMENTS => RecoverAt::Unlist,
            RecoverAt::Extent(e) if state.segment(e).owner != Some(who) => RecoverAt::Extent(e + 1),
            RecoverAt::Extent(e) => match state.segment(e).state_word {
                StateWord::Writing(owner) | StateWord::Retired(owner) if owner == who => {
                    state.segment(e).state_word = StateWord::Retired(who);
                    RecoverAt::ExtentFree(e)
                }
                _ => RecoverAt::ExtentGive(e),
            },
            RecoverAt::ExtentFree(e) => {
                state.segment(e).state_word = StateWord::Free;
                RecoverAt::ExtentGive(e)
            }
            RecoverAt::ExtentGive(e) => {
                state.segment(e).owner = None;
                RecoverAt::Extent(e + 1)
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
}
