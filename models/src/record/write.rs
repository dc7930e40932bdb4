//! A writer's steps: allocate, write, lock, arm, publish, retire, disarm, unlock. A value that is
//! replaced in place takes one store between lock and unlock.
//!
//! Invariant: until the lock is taken only the record being written is touched, and only its owner
//! touches it. Called by the record model for processes in [`At::Set`](super::At::Set).

use super::state::{PER_EXTENT, RECORDS, State, StateWord, TORN};
use super::{At, Break, Op, Records, RecoverAt, RetireAt};

/// Steps of set and delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetAt {
    /// Load the slot of the pair to be stored again.
    Copy,
    /// Load the sequence of its record: word.
    CopySequence(u8),
    /// Load its value: word.
    CopyValue(u8),
    /// Find a free record in an own extent, or take another extent.
    Adopt,
    /// Store WRITING.
    State,
    /// Set the bit.
    Bit,
    /// (broken) Give the extent up.
    Give,
    /// (broken) Store 0 over the state word.
    Zero,
    /// Write the key.
    Key,
    /// Write the value.
    Value,
    /// List the lock in the lane.
    List,
    /// Take the lock.
    Lock,
    /// Read the slot and the old record's sequence.
    Look,
    /// Store the value in place.
    Replace,
    /// (broken) Store the rest of it.
    ReplaceRest,
    /// Store position, old word and old sequence of the pending record.
    Old,
    /// Store its new word.
    New,
    /// Arm it.
    Arm,
    /// Publish the sequence.
    Sequence,
    /// Store the slot.
    Slot,
    /// Retire the old record.
    Retire,
    /// Disarm the pending record.
    Disarm,
    /// Release the lock.
    Unlock,
    /// Clear the lane's list.
    Unlist,
}

impl Records {
    pub(super) fn step_set(&self, state: &mut State, process: usize, at: SetAt) -> bool {
        use SetAt as S;
        match at {
            S::Copy | S::CopySequence(_) | S::CopyValue(_) => self.copy(state, process, at),
            S::Replace | S::ReplaceRest => self.replace(state, process, at),
            S::Adopt => self.adopt(state, process),
            S::State | S::Bit | S::Give | S::Zero | S::Key | S::Value => {
                self.prepare(state, process, at)
            }
            S::List | S::Lock | S::Look | S::Disarm | S::Unlock | S::Unlist => {
                self.locking(state, process, at)
            }
            S::Old | S::New | S::Arm | S::Sequence | S::Slot | S::Retire => {
                self.publish(state, process, at)
            }
        }
    }

    /// What is copied counts only if slot, sequence and value are the same under the lock.
    fn copy(&self, state: &mut State, process: usize, at: SetAt) -> bool {
        let record = |word: u8| state.records[usize::from(word) - 1];
        let next = match at {
            SetAt::CopySequence(word) => match record(word).state_word {
                StateWord::Sequence(sequence) => {
                    state.procs[process].own.copy_sequence = sequence;
                    SetAt::CopyValue(word)
                }
                _ => return self.finish(state, process),
            },
            SetAt::CopyValue(word) => {
                state.procs[process].own.copy = record(word).value;
                SetAt::Adopt
            }
            _ => match state.words[self.key(state, process) as usize] {
                0 => return self.finish(state, process),
                word => SetAt::CopySequence(word),
            },
        };
        state.procs.go(process, next)
    }

    /// One store: the commit point.
    fn replace(&self, state: &mut State, process: usize, at: SetAt) -> bool {
        let Some(Op::Replace(key, value)) = self.op(state, process) else { unreachable!() };
        let record = usize::from(state.procs[process].own.old) - 1;
        if at == SetAt::Replace && self.breaks(Break::TornReplace) {
            state.records[record].value = TORN;
            return state.procs.go(process, SetAt::ReplaceRest);
        }
        state.records[record].value = value;
        self.commit(state, key, value);
        if self.breaks(Break::ReplaceUnlocked) {
            return self.finish(state, process);
        }
        state.procs.go(process, SetAt::Unlock)
    }

    fn commit(&self, state: &mut State, key: u8, value: u8) {
        let reading = state.procs.clone();
        state.commit(key, value, |p| match reading[p].stack.last() {
            Some(At::Get(_)) => Some(self.key_of(reading[p].op, p)),
            _ => None,
        });
    }

    /// Only the owner allocates from an extent, so what it finds free stays free.
    fn adopt(&self, state: &mut State, process: usize) -> bool {
        let me = state.procs[process].who;
        let mine =
            |r: usize| state.owners[r / PER_EXTENT] == Some(me) || self.breaks(Break::SharedExtent);
        let free =
            |r: usize| !state.records[r].bit && state.records[r].state_word == StateWord::Free;
        if let Some(r) = (0..RECORDS).find(|&r| mine(r) && free(r)) {
            state.procs[process].own.new = u8::try_from(r + 1).expect("few records");
            let first = if self.breaks(Break::BitBeforeState) { SetAt::Bit } else { SetAt::State };
            return state.procs.go(process, first);
        }
        let alien = |e: usize| state.records[e * PER_EXTENT].state_word == StateWord::Alien;
        match (0..state.owners.len()).find(|&e| state.owners[e].is_none() && !alien(e)) {
            Some(extent) => state.owners[extent] = Some(me),
            // Full: the operation fails and has changed nothing.
            None => return self.finish(state, process),
        }
        true
    }

    fn prepare(&self, state: &mut State, process: usize, at: SetAt) -> bool {
        let me = state.procs[process].who;
        let record = usize::from(state.procs[process].own.new) - 1;
        let early = self.breaks(Break::BitBeforeState);
        let next = match at {
            SetAt::State => {
                state.records[record].state_word = StateWord::Writing(me);
                if early { SetAt::Key } else { SetAt::Bit }
            }
            SetAt::Bit => {
                state.records[record].bit = true;
                match self.broken {
                    Some(Break::BitBeforeState) => SetAt::State,
                    Some(Break::GiveWhileWriting) => SetAt::Give,
                    Some(Break::ZeroWhileWriting) => SetAt::Zero,
                    _ => SetAt::Key,
                }
            }
            SetAt::Give => {
                state.owners[record / PER_EXTENT] = None;
                SetAt::Key
            }
            SetAt::Zero => {
                state.records[record].state_word = StateWord::Free;
                SetAt::Key
            }
            SetAt::Key => {
                state.records[record].key = self.key(state, process);
                SetAt::Value
            }
            _ => {
                state.records[record].value = match self.op(state, process) {
                    Some(Op::Set(_, value)) => value,
                    _ => state.procs[process].own.copy,
                };
                if self.breaks(Break::ListAfterLock) { SetAt::Lock } else { SetAt::List }
            }
        };
        state.procs.go(process, next)
    }

    fn locking(&self, state: &mut State, process: usize, at: SetAt) -> bool {
        let me = state.procs[process].who;
        let late = self.breaks(Break::ListAfterLock);
        let next = match at {
            SetAt::List => {
                state.listed[me.slot as usize] = true;
                if late { SetAt::Look } else { SetAt::Lock }
            }
            SetAt::Lock => match state.lock {
                None => {
                    state.lock = Some(me);
                    if late { SetAt::List } else { SetAt::Look }
                }
                Some(owner) if state.slots.alive(owner) => return false,
                Some(owner) => {
                    return state.procs.call(process, At::Recover(owner, RecoverAt::Byte));
                }
            },
            SetAt::Look => self.look(state, process),
            SetAt::Disarm => {
                state.pending.armed = false;
                let unlocked = self.breaks(Break::UnlockBeforeDisarm);
                let early = self.breaks(Break::DisarmBeforeRetire);
                match (unlocked, early) {
                    (true, _) => SetAt::Unlist,
                    (_, true) => SetAt::Retire,
                    _ => SetAt::Unlock,
                }
            }
            SetAt::Unlock => {
                state.lock = None;
                if self.breaks(Break::UnlockBeforeDisarm) { SetAt::Disarm } else { SetAt::Unlist }
            }
            _ => {
                state.listed[me.slot as usize] = false;
                return self.leave(state, process);
            }
        };
        state.procs.go(process, next)
    }

    /// Ends the operation. A record that was not published is retired.
    fn leave(&self, state: &mut State, process: usize) -> bool {
        let (me, new) = (state.procs[process].who, state.procs[process].own.new);
        let draft =
            new != 0 && state.records[usize::from(new) - 1].state_word == StateWord::Writing(me);
        let moves = matches!(self.op(state, process), Some(Op::Move(_)));
        self.finish(state, process);
        match draft && moves {
            true => state.procs.call(process, At::Retire(me, new - 1, RetireAt::State)),
            false => true,
        }
    }

    fn look(&self, state: &mut State, process: usize) -> SetAt {
        let old = state.words[self.key(state, process) as usize];
        let proc = &mut state.procs[process].own;
        proc.old = old;
        if old != 0
            && let StateWord::Sequence(sequence) = state.records[usize::from(old) - 1].state_word
        {
            proc.old_sequence = sequence;
        }
        let (old, copy, copy_sequence) = (proc.old, proc.copy, proc.copy_sequence);
        let same_value = || {
            state.records[usize::from(old) - 1].value == copy || self.breaks(Break::MoveBySequence)
        };
        let proc = &state.procs[process].own;
        match self.op(state, process) {
            Some(Op::Replace(..)) if old != 0 => return SetAt::Replace,
            Some(Op::Replace(..)) if self.breaks(Break::ReplaceUnlocked) => return SetAt::Unlist,
            Some(Op::Move(_))
                if old == 0 || proc.old_sequence != copy_sequence || !same_value() =>
            {
                return SetAt::Unlock;
            }
            _ => {}
        }
        match (proc.old, proc.new, self.broken) {
            (0, 0, _) => SetAt::Unlock,
            (_, _, Some(Break::ArmedFirst)) => SetAt::Arm,
            (_, _, Some(Break::NoPending)) => SetAt::Sequence,
            _ => SetAt::Old,
        }
    }

    fn publish(&self, state: &mut State, process: usize, at: SetAt) -> bool {
        let next = match at {
            SetAt::Old => {
                let key = self.key(state, process);
                let proc = &state.procs[process].own;
                state.pending.position = key;
                (state.pending.old, state.pending.old_sequence) = (proc.old, proc.old_sequence);
                SetAt::New
            }
            SetAt::New => {
                state.pending.new = state.procs[process].own.new;
                if self.breaks(Break::ArmedFirst) { SetAt::Sequence } else { SetAt::Arm }
            }
            SetAt::Arm => {
                state.pending.armed = true;
                if self.breaks(Break::ArmedFirst) { SetAt::Old } else { SetAt::Sequence }
            }
            SetAt::Sequence => self.store_sequence(state, process),
            SetAt::Slot => self.store_slot(state, process),
            _ => return self.retire_old(state, process),
        };
        state.procs.go(process, next)
    }

    fn store_sequence(&self, state: &mut State, process: usize) -> SetAt {
        let new = state.procs[process].own.new;
        if new != 0 {
            state.records[usize::from(new) - 1].state_word = StateWord::Sequence(state.sequence);
            state.sequence += 1;
        }
        match self.broken {
            Some(Break::SlotBeforeSequence) | Some(Break::RetireBeforeSlot) => SetAt::Retire,
            _ => SetAt::Slot,
        }
    }

    fn store_slot(&self, state: &mut State, process: usize) -> SetAt {
        let key = self.key(state, process);
        state.words[key as usize] = state.procs[process].own.new;
        match self.op(state, process) {
            Some(Op::Set(_, value)) => self.commit(state, key, value),
            // The same pair in another record.
            Some(Op::Move(_)) => {}
            _ => self.commit(state, key, 0),
        }
        match self.broken {
            Some(Break::SlotBeforeSequence) if state.procs[process].own.new != 0 => SetAt::Sequence,
            Some(Break::RetireBeforeSlot) | Some(Break::DisarmBeforeRetire) => SetAt::Disarm,
            _ => SetAt::Retire,
        }
    }

    fn key_of(&self, op: u8, process: usize) -> u8 {
        match self.parts[process][usize::from(op)] {
            Op::Get(key) => key,
            other => unreachable!("{other:?} does not read"),
        }
    }

    fn retire_old(&self, state: &mut State, process: usize) -> bool {
        let (me, old) = (state.procs[process].who, state.procs[process].own.old);
        let next = match self.broken {
            Some(Break::RetireBeforeSlot) => SetAt::Slot,
            Some(Break::UnlockBeforeDisarm) | Some(Break::DisarmBeforeRetire) => SetAt::Unlock,
            _ => SetAt::Disarm,
        };
        state.procs.go(process, next);
        match old {
            0 => true,
            old => state.procs.call(process, At::Retire(me, old - 1, RetireAt::State)),
        }
    }
}
