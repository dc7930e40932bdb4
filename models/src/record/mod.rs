//! Protocols 1 and 2: records in extents with one allocator each, publishing under a pending record,
//! lock-free readers, and recovery by reincarnation.
//!
//! Processes run scripts of [`Op`]s over four records in two extents and one segment with two keys.
//! Each step is one access to shared memory. A killed process drops its bytes; whoever meets its lock,
//! or sweeps, acts as the dead participant until everything of it is recovered.
//!
//! Invariants: a slot names only the published record of its committed value; nothing names a
//! generation that has ended; readers return a value that their key had while they read; at rest
//! exactly the reachable records are allocated.

mod checks;
mod extents;
mod read;
mod recover;
pub mod scenarios;
mod state;
mod write;

pub use read::GetAt;
pub use recover::{RecoverAt, RetireAt};
pub use state::*;
pub use write::SetAt;

use crate::explorer::{Model, Status, run_alone};
use crate::participants::Who;
use crate::scenario::Scenario;

/// One thing that a process is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Gives the key a value; every value of a scenario is different, from 2 on.
    Set(u8, u8),
    /// Empties the key's slot.
    Delete(u8),
    /// Gives the key a value in place, if it is there: one store into its record.
    Replace(u8, u8),
    /// Stores the pair again in another record, as compaction does, if it is unchanged since.
    Move(u8),
    /// Reads the key.
    Get(u8),
    /// Recovers whoever is dead.
    Sweep,
    /// Waits until this slot is to be had, recovers what its holder left, and becomes its holder.
    Claim(u8),
    /// Gives up every extent.
    Give,
    /// Takes an extent that nobody owns and that is empty for another class.
    Recycle(u8),
}

/// A way to get the protocol wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The bit is set before the state word is stored.
    BitBeforeState,
    /// FREE is stored before the bit is cleared.
    FreeBeforeBit,
    /// 0 is stored in the first word while the record is written.
    ZeroWhileWriting,
    /// Extents are taken without asking whether they have an owner.
    SharedExtent,
    /// Recoverers do without the byte (or two threads of a process share its description).
    NoByte,
    /// A process gives its extent up while a record is being written there.
    GiveWhileWriting,
    /// A recoverer gives the extent up before it finishes the state words.
    GiveBeforeStates,
    /// A recoverer ends the generation before it recovers anything.
    BumpFirst,
    /// A recoverer trusts the byte and does not compare the generation again.
    NoGenerationCheck,
    /// A newcomer takes the slot over without recovering what its holder left.
    ClaimWithoutRecovery,
    /// No pending record.
    NoPending,
    /// The pending record is armed before its fields are stored.
    ArmedFirst,
    /// The pending record is disarmed before the old record is retired.
    DisarmBeforeRetire,
    /// The lock is released before the pending record is disarmed.
    UnlockBeforeDisarm,
    /// The slot is stored before the sequence.
    SlotBeforeSequence,
    /// The old record is retired before the slot is stored.
    RetireBeforeSlot,
    /// A recoverer retires the victim whatever its first word says.
    VictimUnchecked,
    /// The lock is listed after it was taken.
    ListAfterLock,
    /// Readers do not look at the slot again.
    NoSlotAgain,
    /// Readers do not look at the sequence again.
    NoSequenceAgain,
    /// Readers look at the sequence again, and then at the slot.
    SequenceAgainFirst,
    /// A value is replaced in place by two stores.
    TornReplace,
    /// A value is replaced in place without the lock.
    ReplaceUnlocked,
    /// Readers take a value from two loads.
    ReadTwice,
    /// A pair is stored again if its record still has its sequence, whatever value it has.
    MoveBySequence,
    /// An extent counts as empty when its bits are clear, whatever the first words say.
    RecycleByBitmap,
}

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Between two entries of its script.
    Next,
    /// Writing.
    Set(SetAt),
    /// Reading.
    Get(GetAt),
    /// Retiring a record as somebody.
    Retire(Who, u8, RetireAt),
    /// Recovering somebody.
    Recover(Who, RecoverAt),
    /// Looking for the dead, from this slot on.
    Sweep(u8),
    /// Becoming a slot's holder.
    Claim(u8, ClaimAt),
    /// Giving up extents, from this one on.
    Give(u8),
    /// Taking an extent for another class.
    Recycle(u8, RecycleAt),
    /// Leaving, as the last thing.
    Exit(ExitAt),
}

/// Steps of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimAt {
    /// Take the byte.
    Byte,
    /// Recover what the previous holder left.
    Recover,
    /// Bump the generation.
    Generation,
    /// Store USED.
    Used,
}

/// Steps of a recycling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecycleAt {
    /// Take the ownership.
    Adopt,
    /// Look whether this record of the extent is in use.
    Look(u8),
    /// Overwrite this record of the extent.
    Fill(u8),
}

/// Steps of a clean exit, after the extents were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitAt {
    /// Give up the extents.
    Give,
    /// Store FREE.
    Used,
    /// Release the byte.
    Byte,
}

/// A scenario: a script for each process. Processes of the same number as a slot are participants
/// from the start unless their script begins with a claim.
pub type Records = Scenario<Vec<Op>, Break>;

impl Records {
    fn op(&self, state: &State, process: usize) -> Option<Op> {
        // Number PROCESSES - 1 is the sweeper that only checks start.
        let script = self.parts.get(process).map_or(&[Op::Sweep][..], Vec::as_slice);
        script.get(usize::from(state.procs[process].op)).copied()
    }

    fn key(&self, state: &State, process: usize) -> u8 {
        match self.op(state, process) {
            Some(
                Op::Set(key, _)
                | Op::Replace(key, _)
                | Op::Delete(key)
                | Op::Move(key)
                | Op::Get(key),
            ) => key,
            other => unreachable!("{other:?} has no key"),
        }
    }

    fn begin(&self, state: &mut State, process: usize) -> bool {
        state.procs[process].own = Own::default();
        let at = match self.op(state, process) {
            Some(Op::Set(..)) => At::Set(SetAt::Adopt),
            Some(Op::Replace(..)) if self.breaks(Break::ReplaceUnlocked) => At::Set(SetAt::Look),
            Some(Op::Delete(_) | Op::Replace(..)) => At::Set(SetAt::List),
            Some(Op::Move(_)) => At::Set(SetAt::Copy),
            Some(Op::Get(key)) => {
                state.ghost.legal[process] = 1 << state.ghost.committed[key as usize];
                At::Get(GetAt::Slot)
            }
            Some(Op::Sweep) => At::Sweep(0),
            Some(Op::Claim(slot)) => At::Claim(slot, ClaimAt::Byte),
            Some(Op::Give) => At::Give(0),
            Some(Op::Recycle(extent)) => At::Recycle(extent, RecycleAt::Adopt),
            None => At::Exit(ExitAt::Give),
        };
        state.procs.go(process, at)
    }

    /// Ends the entry of the script.
    fn finish(&self, state: &mut State, process: usize) -> bool {
        state.procs[process].op += 1;
        state.ghost.legal[process] = 0;
        state.procs.go(process, At::Next)
    }
}

impl Model for Records {
    type State = State;

    fn initial(&self) -> State {
        let claims = |s: &&Vec<Op>| matches!(s.first(), Some(Op::Claim(_)));
        let live = self.parts.iter().take_while(|s| !claims(s)).count();
        State::new(live, self.parts.len())
    }

    fn processes(&self) -> usize {
        self.parts.len()
    }

    fn status(&self, state: &State, process: usize) -> Status {
        if state.procs[process].gone { Status::Gone } else { Status::Running }
    }

    fn step(&self, state: &mut State, process: usize) -> bool {
        match state.procs.now(process) {
            At::Next => self.begin(state, process),
            At::Set(at) => self.step_set(state, process, at),
            At::Get(at) => self.step_get(state, process, at),
            At::Retire(who, record, at) => self.step_retire(state, process, who, record, at),
            At::Recover(who, at) => self.step_recover(state, process, who, at),
            At::Sweep(slot) => self.step_sweep(state, process, slot),
            At::Claim(slot, at) => self.step_claim(state, process, slot, at),
            At::Give(extent) => self.step_give(state, process, extent),
            At::Recycle(extent, at) => self.step_recycle(state, process, extent, at),
            At::Exit(at) => self.step_exit(state, process, at),
        }
    }

    fn kill(&self, state: &mut State, process: usize) -> bool {
        state.slots.release_bytes_of(process);
        state.procs[process].kill();
        state.ghost.legal[process] = 0;
        true
    }

    fn invariant(&self, state: &State) -> Result<(), String> {
        checks::always(state)
    }

    fn at_rest(&self, state: &State) -> Result<(), String> {
        let mut state = state.clone();
        let sweeper = PROCESSES - 1;
        state.procs[sweeper].gone = false;
        run_alone(self, &mut state, sweeper, |state| state.procs[sweeper].op > 0)?;
        checks::at_rest(&state)
    }

    fn describe(&self, state: &State, process: usize) -> String {
        let at = state.procs[process].stack.last();
        format!("{at:?} in {:?}", self.op(state, process))
    }
}

impl From<SetAt> for At {
    fn from(at: SetAt) -> At {
        At::Set(at)
    }
}

impl From<GetAt> for At {
    fn from(at: GetAt) -> At {
        At::Get(at)
    }
}
