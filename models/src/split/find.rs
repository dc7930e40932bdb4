//! Steps of readers and writers: find the segment, lock it, look again, fill the entry, store.
//!
//! Invariant: a writer changes a slot or an entry only under the lock of the segment that the directory
//! names for its hash at that time. Called by the split model.

use super::state::{State, index};
use super::{At, Break, Op, SplitAt, Splits};

/// Steps of get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GetAt {
    /// Load the depth.
    Depth,
    /// Load the entry: depth, bits still used.
    Entry(u8, u8),
    /// Load the slot: depth, segment.
    Slot(u8, u8),
    /// Missed: load the depth again.
    AgainDepth(u8, u8),
    /// Missed: load the entry again: depth, segment, bits still used.
    AgainEntry(u8, u8, u8),
}

/// Steps of set and delete, and those before a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteAt {
    /// Load the depth.
    Depth,
    /// Load the entry, with this many bits.
    Entry(u8),
    /// (broken) Fill the zero entry.
    FillUnlocked,
    /// List the lock in the lane.
    List,
    /// Take the lock.
    Lock,
    /// Load the depth again.
    AgainDepth,
    /// Load the entry again, with this many bits.
    AgainEntry(u8),
    /// Fill the zero entry.
    Fill,
    /// Store the slot: the commit point.
    Store,
    /// Release the lock; start again if true.
    Unlock(bool),
    /// Clear the lane's list; start again if true.
    Unlist(bool),
}

impl Splits {
    pub(super) fn step_get(&self, state: &mut State, process: usize, at: GetAt) -> bool {
        let hash = self.hash(state, process);
        let next = match at {
            GetAt::Depth => GetAt::Entry(state.depth, state.depth),
            GetAt::Entry(depth, bits) => match state.entries[index(hash, bits)] {
                0 => GetAt::Entry(depth, bits - 1),
                segment => GetAt::Slot(depth, segment),
            },
            GetAt::Slot(depth, segment) => {
                let Some(Op::Get(key)) = self.op(state, process) else { unreachable!() };
                match (state.segments[segment as usize].values[key as usize], self.broken) {
                    (0, Some(Break::MissAtOnce)) => return self.answer(state, process, 0),
                    (0, Some(Break::MissWithoutDepth)) => GetAt::AgainEntry(depth, segment, depth),
                    (0, _) => GetAt::AgainDepth(depth, segment),
                    (value, _) => return self.answer(state, process, value),
                }
            }
            GetAt::AgainDepth(depth, _) if state.depth != depth => GetAt::Depth,
            GetAt::AgainDepth(depth, segment) => GetAt::AgainEntry(depth, segment, depth),
            GetAt::AgainEntry(depth, segment, bits) => match state.entries[index(hash, bits)] {
                0 => GetAt::AgainEntry(depth, segment, bits - 1),
                same if same == segment => return self.answer(state, process, 0),
                _ => GetAt::Depth,
            },
        };
        state.procs.go(process, next)
    }

    fn answer(&self, state: &mut State, process: usize, value: u8) -> bool {
        if state.ghost.legal[process] & (1 << value) == 0 {
            state.ghost.illegal = Some((u8::try_from(process).expect("few processes"), value));
        }
        self.finish(state, process)
    }

    pub(super) fn step_write(&self, state: &mut State, process: usize, at: WriteAt) -> bool {
        use WriteAt as W;
        match at {
            W::Depth | W::Entry(_) | W::FillUnlocked => self.find(state, process, at),
            W::List | W::Lock | W::Unlock(_) | W::Unlist(_) => self.locking(state, process, at),
            W::AgainDepth | W::AgainEntry(_) => self.validate(state, process, at),
            W::Fill => {
                let entry = index(self.hash(state, process), state.procs[process].own.depth);
                state.entries[entry] = state.procs[process].own.segment;
                self.change(state, process)
            }
            W::Store => self.store(state, process),
        }
    }

    fn find(&self, state: &mut State, process: usize, at: WriteAt) -> bool {
        let hash = self.hash(state, process);
        let next = match at {
            WriteAt::Depth => {
                state.procs[process].own.depth = state.depth;
                WriteAt::Entry(state.depth)
            }
            WriteAt::Entry(bits) => match state.entries[index(hash, bits)] {
                0 => WriteAt::Entry(bits - 1),
                segment => {
                    let proc = &mut state.procs[process].own;
                    proc.segment = segment;
                    match self.breaks(Break::FillUnlocked) && bits < proc.depth {
                        true => WriteAt::FillUnlocked,
                        false => WriteAt::List,
                    }
                }
            },
            _ => {
                state.entries[index(hash, state.procs[process].own.depth)] =
                    state.procs[process].own.segment;
                WriteAt::List
            }
        };
        state.procs.go(process, next)
    }

    fn locking(&self, state: &mut State, process: usize, at: WriteAt) -> bool {
        let (me, segment) = (state.procs[process].who, state.procs[process].own.segment);
        let lane = &mut state.lanes[me.slot as usize];
        let next = match at {
            WriteAt::List => {
                lane.segment = segment;
                WriteAt::Lock
            }
            WriteAt::Lock => match state.segments[segment as usize].lock {
                None => {
                    state.segment(segment).lock = Some(me);
                    let stale = matches!(self.op(state, process), Some(Op::Stale(_)));
                    if self.breaks(Break::NoRevalidation) && !stale {
                        return self.change(state, process);
                    }
                    WriteAt::AgainDepth
                }
                Some(owner) => return self.wait(state, process, owner),
            },
            WriteAt::Unlock(again) => {
                state.segment(segment).lock = None;
                WriteAt::Unlist(again)
            }
            _ => {
                lane.segment = 0;
                match at {
                    WriteAt::Unlist(true) => WriteAt::Depth,
                    _ => return self.finish(state, process),
                }
            }
        };
        state.procs.go(process, next)
    }

    /// Under the lock: does the directory still name this segment?
    fn validate(&self, state: &mut State, process: usize, at: WriteAt) -> bool {
        let hash = self.hash(state, process);
        let next = match at {
            WriteAt::AgainEntry(bits) => match state.entries[index(hash, bits)] {
                0 => WriteAt::AgainEntry(bits - 1),
                found if found != state.procs[process].own.segment => {
                    // Whoever came with a stale offset has done what it was to do.
                    let stale = matches!(self.op(state, process), Some(Op::Stale(_)));
                    WriteAt::Unlock(!stale)
                }
                _ if bits < state.procs[process].own.depth => WriteAt::Fill,
                _ => return self.change(state, process),
            },
            _ => {
                state.procs[process].own.depth = state.depth;
                WriteAt::AgainEntry(state.depth)
            }
        };
        state.procs.go(process, next)
    }

    /// The segment is locked and the right one: now to what was asked for.
    fn change(&self, state: &mut State, process: usize) -> bool {
        let segment = state.procs[process].own.segment;
        let at = match self.op(state, process) {
            Some(Op::Split(_)) if state.segment(segment).local < super::MAX_DEPTH => {
                At::Split(SplitAt::Adopt)
            }
            Some(Op::Split(_) | Op::Stale(_)) => At::Write(WriteAt::Unlock(false)),
            _ => At::Write(WriteAt::Store),
        };
        state.procs.go(process, at)
    }

    fn store(&self, state: &mut State, process: usize) -> bool {
        let (key, value) = match self.op(state, process) {
            Some(Op::Set(key, value)) => (key, value),
            Some(Op::Delete(key)) => (key, 0),
            other => unreachable!("{other:?} does not write"),
        };
        let segment = state.procs[process].own.segment;
        state.segment(segment).values[key as usize] = value;
        state.ghost.committed[key as usize] = value;
        for reader in 0..self.parts.len() {
            let reading = matches!(state.procs[reader].stack.last(), Some(At::Get(_)));
            if reading && self.op(state, reader) == Some(Op::Get(key)) {
                state.ghost.legal[reader] |= 1 << value;
            }
        }
        state.procs.go(process, WriteAt::Unlock(false))
    }
}
