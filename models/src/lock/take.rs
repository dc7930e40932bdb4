//! Taking the lock, being inside, releasing it: the steps of `sync/robust_lock.rs`.
//!
//! Invariant: the word changes hands only from 0; whoever leaves sleepers behind leaves the waiters' bit
//! with them. Called by the lock model.

use super::state::{State, Word};
use super::{At, Break, Locks, RecoverAt};

/// Steps of taking the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockAt {
    /// List the lock.
    List,
    /// Swap 0 for oneself.
    Fast,
    /// Load the word.
    Look,
    /// It was free, but others may sleep: swap it for oneself with the waiters' bit.
    Take(Word),
    /// Does the owner's slot still have this generation?
    AskTag(Word),
    /// Is the owner's byte locked?
    AskByte(Word),
    /// The owner was recovered, or somebody is doing it: does the word still name it?
    Again(Word),
    /// Set the waiters' bit.
    Flag(Word),
    /// Ask the kernel to sleep while the word is this.
    Wait(Word),
    /// In the kernel's queue.
    Asleep,
    /// (broken) List the lock.
    ListLate,
}

/// Steps after taking the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnlockAt {
    /// Begin to change what the lock protects.
    Enter,
    /// End the change.
    Leave,
    /// (broken) Load the word.
    Look,
    /// Swap the word for 0; (broken) having seen this waiters' bit.
    Swap(Option<bool>),
    /// Wake one sleeper.
    Wake,
    /// Unlist the lock.
    Unlist,
    /// (broken) Unlist the lock, still holding it.
    UnlistEarly,
}

impl Locks {
    pub(super) fn step_lock(&self, state: &mut State, process: usize, at: LockAt) -> bool {
        let me = state.procs[process].who;
        match at {
            LockAt::List => {
                state.listed[me.slot as usize] = true;
                state.procs.go(process, LockAt::Fast)
            }
            LockAt::Fast => self.exchange(state, process, Word::default(), false),
            LockAt::Take(seen) => {
                self.exchange(state, process, seen, !self.breaks(Break::ForgetsWaiters))
            }
            LockAt::Look | LockAt::AskTag(_) | LockAt::AskByte(_) | LockAt::Again(_) => {
                self.ask(state, process, at)
            }
            LockAt::Flag(_) | LockAt::Wait(_) | LockAt::Asleep => self.sleep(state, process, at),
            LockAt::ListLate => {
                state.listed[me.slot as usize] = true;
                state.procs.go(process, UnlockAt::Enter)
            }
        }
    }

    /// Compare-and-swap of the word for oneself.
    fn exchange(&self, state: &mut State, process: usize, seen: Word, waiters: bool) -> bool {
        if state.word != seen {
            return state.procs.go(process, LockAt::Look);
        }
        state.word = Word { owner: Some(state.procs[process].who), waiters };
        match self.breaks(Break::ListsAfterLock) {
            true => state.procs.go(process, LockAt::ListLate),
            false => state.procs.go(process, UnlockAt::Enter),
        }
    }

    fn ask(&self, state: &mut State, process: usize, at: LockAt) -> bool {
        let next = match at {
            LockAt::Look => match state.word.owner {
                None => LockAt::Take(state.word),
                Some(_) => LockAt::AskTag(state.word),
            },
            LockAt::AskTag(seen) if state.slots.needs_recovery(owner(seen)) => {
                LockAt::AskByte(seen)
            }
            LockAt::AskByte(seen) if state.slots.0[owner(seen).slot as usize].byte.is_some() => {
                LockAt::Flag(seen)
            }
            LockAt::AskTag(seen) | LockAt::AskByte(seen) if self.breaks(Break::Steals) => {
                LockAt::Take(seen)
            }
            LockAt::AskTag(seen) | LockAt::AskByte(seen) => {
                state.procs.go(process, LockAt::Again(seen));
                return state.procs.call(process, At::Recover(owner(seen), RecoverAt::Look));
            }
            LockAt::Again(seen) if state.word.owner == seen.owner => LockAt::Flag(seen),
            _ => LockAt::Look,
        };
        state.procs.go(process, next)
    }

    fn sleep(&self, state: &mut State, process: usize, at: LockAt) -> bool {
        let next = match at {
            LockAt::Flag(seen) if self.is_over(state) => {
                return match self.broken {
                    Some(Break::TakesOnGivingUp) => self.exchange(state, process, seen, true),
                    Some(Break::RecoversOnGivingUp) if state.left(owner(seen)) => {
                        state.procs.go(process, LockAt::Look);
                        state.procs.call(process, At::Recover(owner(seen), RecoverAt::Listed))
                    }
                    _ => self.give_up(state, process),
                };
            }
            LockAt::Flag(seen) if seen.waiters || self.breaks(Break::SleepsWithoutFlag) => {
                LockAt::Wait(seen)
            }
            LockAt::Flag(seen) if state.word == seen => {
                state.word.waiters = true;
                LockAt::Wait(state.word)
            }
            LockAt::Wait(seen) if state.word == seen || self.breaks(Break::SleepsUncompared) => {
                state.sleepers.push(u8::try_from(process).expect("few processes"));
                LockAt::Asleep
            }
            LockAt::Asleep if !self.timed || self.breaks(Break::NoTimeout) => return false,
            LockAt::Asleep => {
                state.sleepers.retain(|p| usize::from(*p) != process);
                LockAt::Look
            }
            _ => LockAt::Look,
        };
        state.procs.go(process, next)
    }

    pub(super) fn step_unlock(&self, state: &mut State, process: usize, at: UnlockAt) -> bool {
        let me = state.procs[process].who;
        let next = match at {
            UnlockAt::Enter => {
                state.enter(process, me);
                UnlockAt::Leave
            }
            UnlockAt::Leave => {
                state.leave(process, me);
                match self.broken {
                    Some(Break::LooksThenUnlocks) => UnlockAt::Look,
                    Some(Break::UnlistsBeforeUnlock) => UnlockAt::UnlistEarly,
                    _ => UnlockAt::Swap(None),
                }
            }
            UnlockAt::Look => UnlockAt::Swap(Some(state.word.waiters)),
            UnlockAt::Swap(seen) => {
                let fetched = state.release(process, me);
                match seen.unwrap_or(fetched) {
                    true => UnlockAt::Wake,
                    false => UnlockAt::Unlist,
                }
            }
            UnlockAt::Wake => {
                state.wake_one();
                UnlockAt::Unlist
            }
            UnlockAt::UnlistEarly => {
                state.listed[me.slot as usize] = false;
                UnlockAt::Swap(None)
            }
            UnlockAt::Unlist => {
                state.listed[me.slot as usize] = false;
                return Self::finish(state, process);
            }
        };
        state.procs.go(process, next)
    }
}

fn owner(seen: Word) -> crate::participants::Who {
    seen.owner.expect("only a word with an owner is asked about")
}
