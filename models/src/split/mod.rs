//! Protocol 3: splits, doubling, lazy filling, readers that miss, and recovery by reincarnation.
//!
//! Processes run scripts of [`Op`]s over a directory of depth 1 to 3 and up to five segments. Values
//! stand in the slots directly; how records are published is the record model's part. Each step is one
//! access to shared memory.
//!
//! Invariants: at every state a lookup that saw everything at once finds each key's committed value;
//! readers return a value that their key had while they read; nothing names a generation that has
//! ended; at rest every key is in one segment only and the segments in use are the reachable ones.

mod checks;
mod find;
mod grow;
mod recover;
pub mod scenarios;
mod state;

pub use find::{GetAt, WriteAt};
pub use grow::{FinishAt, SplitAt};
pub use recover::RecoverAt;
pub use state::*;

use crate::explorer::{Model, Status, run_alone};
use crate::participants::Who;
use crate::scenario::Scenario;

/// One thing that a process is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Gives the key a value.
    Set(u8, u8),
    /// Empties the key's slot.
    Delete(u8),
    /// Reads the key.
    Get(u8),
    /// Splits the segment that this hash is in.
    Split(u8),
    /// Locks this segment because it once was the one for key 0, finds that it is not, and unlocks.
    Stale(u8),
    /// Recovers whoever is dead.
    Sweep,
    /// From now on the next wait for a lock fails: a timeout, or a recovery that meets an error.
    Fault,
}

/// A way to get the protocol wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The child is not locked while it is published.
    ChildUnlocked,
    /// The child's lock word is stored, not taken: a process with a stale offset may hold it.
    ChildLockStored,
    /// The child is released before the parent's phase is NONE.
    ChildReleasedEarly,
    /// A recoverer releases the child before it finishes the parent.
    ChildRecoveredFirst,
    /// A recoverer copies again after PUBLISHING.
    CopyAgain,
    /// The moved slots are cleared before the directory is changed.
    ClearsFirst,
    /// Phase NONE is stored before the moved slots are cleared.
    NoneBeforeClears,
    /// PUBLISHING is stored after the directory was changed.
    PublishingLate,
    /// The depth is read before the directory lock is taken.
    DepthBeforeLock,
    /// Covered entries that are zero are not stored.
    ZeroSkipped,
    /// The depth is stored before the new chunk is zeroed.
    DepthBeforeZero,
    /// A zero entry is filled as soon as it is met, without the segment's lock.
    FillUnlocked,
    /// A writer does not look at the directory again after locking.
    NoRevalidation,
    /// A reader that misses does not look at the directory again.
    MissAtOnce,
    /// A reader that misses looks at the entry again, but not at the depth.
    MissWithoutDepth,
    /// The extent of the child is given up while the child is being filled.
    GiveWhileCopying,
    /// A recoverer stores phase NONE before it frees the rolled-back child.
    RollBackPhaseFirst,
    /// A recoverer does not release the directory lock of the dead first.
    DirectoryLockKept,
    /// Recoverers do without the byte.
    NoByte,
    /// The directory lock is taken behind PUBLISHING; a wait for it that fails releases child and parent.
    PublishingBeforeLock,
    /// A split that fails leaves COPYING behind.
    ErrorLeavesCopying,
    /// A recoverer that cannot have the directory lock releases the parent.
    ErrorUnlocks,
}

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Between two entries of its script.
    Next,
    /// Reading.
    Get(GetAt),
    /// Writing, or about to split.
    Write(WriteAt),
    /// Splitting.
    Split(SplitAt),
    /// Finishing the split of this segment as somebody.
    Finish(Who, u8, FinishAt),
    /// Recovering somebody.
    Recover(Who, RecoverAt),
    /// Looking for the dead, from this slot on.
    Sweep(u8),
    /// Leaving, as the last thing: store FREE, then release the byte.
    Exit(bool),
}

/// A scenario: a script for each process.
pub type Splits = Scenario<Vec<Op>, Break>;

impl Splits {
    fn op(&self, state: &State, process: usize) -> Option<Op> {
        // Number PROCESSES - 1 is the sweeper that only the check at rest starts.
        let script = self.parts.get(process).map_or(&[Op::Sweep][..], Vec::as_slice);
        script.get(usize::from(state.procs[process].op)).copied()
    }

    fn hash(&self, state: &State, process: usize) -> u8 {
        match self.op(state, process) {
            Some(Op::Set(key, _) | Op::Delete(key) | Op::Get(key)) => HASHES[key as usize],
            Some(Op::Split(hash)) => hash,
            Some(Op::Stale(_)) => HASHES[0],
            other => unreachable!("{other:?} has no hash"),
        }
    }

    fn begin(&self, state: &mut State, process: usize) -> bool {
        let at = match self.op(state, process) {
            Some(Op::Set(..) | Op::Delete(_) | Op::Split(_)) => At::Write(WriteAt::Depth),
            Some(Op::Get(key)) => {
                state.ghost.legal[process] = 1 << state.ghost.committed[key as usize];
                At::Get(GetAt::Depth)
            }
            Some(Op::Stale(segment)) => {
                state.procs[process].own.segment = segment;
                At::Write(WriteAt::List)
            }
            Some(Op::Sweep) => At::Sweep(0),
            Some(Op::Fault) => {
                state.fault = true;
                return self.finish(state, process);
            }
            None => At::Exit(false),
        };
        state.procs.go(process, at)
    }

    /// Ends the entry of the script.
    fn finish(&self, state: &mut State, process: usize) -> bool {
        let proc = &mut state.procs[process];
        proc.op += 1;
        proc.own = Own::default();
        state.ghost.legal[process] = 0;
        state.procs.go(process, At::Next)
    }

    /// A lock is held by `owner`: waits, or recovers the dead, or fails.
    fn wait(&self, state: &mut State, process: usize, owner: Who) -> bool {
        if state.fault {
            state.fault = false;
            return self.fail(state, process);
        }
        if state.slots.alive(owner) {
            return false;
        }
        state.procs.call(process, At::Recover(owner, RecoverAt::Byte))
    }

    /// The wait failed: recoveries that it was part of end without a further change, and the operation that
    /// began them is rolled back.
    fn fail(&self, state: &mut State, process: usize) -> bool {
        loop {
            match state.procs.now(process) {
                At::Recover(who, _) => {
                    if let (Some(owner), true) =
                        (self.parent_of(state, who), self.breaks(Break::ErrorUnlocks))
                    {
                        state.segment(owner).lock = None;
                    }
                    state.slots.release_byte(who.slot, process);
                    state.procs.done(process);
                }
                // A splitter that is publishing: only where the lock is taken too late.
                At::Finish(who, ..) if who == state.procs[process].who => {
                    state.procs.done(process);
                    return true;
                }
                At::Finish(..) => {
                    state.procs.done(process);
                }
                At::Split(SplitAt::Lock) => return state.procs.go(process, SplitAt::RollBackState),
                At::Split(_) => return state.procs.go(process, SplitAt::RollBackUnlock),
                At::Write(_) => return state.procs.go(process, WriteAt::Unlist(false)),
                _ => return self.finish(state, process),
            }
        }
    }

    /// The segment that the dead `who` has locked, if it lists one.
    fn parent_of(&self, state: &State, who: Who) -> Option<u8> {
        let segment = state.lanes[who.slot as usize].segment;
        (state.segments[segment as usize].lock == Some(who)).then_some(segment)
    }

    fn step_exit(&self, state: &mut State, process: usize, stored: bool) -> bool {
        let slot = state.procs[process].who.slot as usize;
        if !stored {
            state.slots.0[slot].used = false;
            return state.procs.go(process, At::Exit(true));
        }
        state.slots.release_bytes_of(process);
        state.procs[process].leave();
        true
    }
}

impl Model for Splits {
    type State = State;

    fn initial(&self) -> State {
        State::new(self.parts.len())
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
            At::Get(at) => self.step_get(state, process, at),
            At::Write(at) => self.step_write(state, process, at),
            At::Split(at) => self.step_split(state, process, at),
            At::Finish(who, parent, at) => self.step_finish(state, process, who, parent, at),
            At::Recover(who, at) => self.step_recover(state, process, who, at),
            At::Sweep(slot) => self.step_sweep(state, process, slot),
            At::Exit(stored) => self.step_exit(state, process, stored),
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
        state.fault = false;
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

impl From<GetAt> for At {
    fn from(at: GetAt) -> At {
        At::Get(at)
    }
}

impl From<WriteAt> for At {
    fn from(at: WriteAt) -> At {
        At::Write(at)
    }
}

impl From<SplitAt> for At {
    fn from(at: SplitAt) -> At {
        At::Split(at)
    }
}
