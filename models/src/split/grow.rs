//! Steps of a split: make the child, fill it, publish it in the directory, clear what moved.
//!
//! Invariant: from PUBLISHING on a split is only ever finished, by whoever acts as its owner; before
//! that it is only ever rolled back, by its splitter when a wait fails. What a splitter can fail to get, the
//! directory's lock last, it gets before PUBLISHING. Called by the split model for splitters and recoverers.

use super::state::{HASHES, KEYS, MAX_DEPTH, Phase, State, StateWord, index};
use super::{At, Break, Splits, WriteAt};
use crate::participants::Who;

/// Steps of the splitter alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SplitAt {
    /// Own an extent with a free segment.
    Adopt,
    /// Store WRITING in the child's first word.
    State,
    /// List the child's lock.
    List,
    /// Take the child's lock.
    Lock,
    /// Prepare the child's header and slots.
    Init,
    /// Store phase COPYING.
    Copying,
    /// Copy this key's slot if it moves.
    Copy(u8),
    /// The child's memory is in use.
    Live,
    /// (broken) Give the extent up.
    Give,
    /// Take the directory lock, or fail.
    Directory,
    /// Store phase PUBLISHING.
    Publishing,
    /// A wait failed: release the child.
    RollBackUnlock,
    /// Store RETIRED in the child's first word.
    RollBackState,
    /// Store FREE.
    RollBackFree,
    /// Store phase NONE.
    RollBackPhase,
    /// Release the child.
    Unlock,
    /// Clear the lane's list of the child.
    Unlist,
    /// Give the extent up.
    GiveUp,
}

/// Steps from PUBLISHING to NONE, the splitter's or its successor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FinishAt {
    /// (broken) Copy this key's slot again.
    Copy(u8),
    /// (broken) Read the depth.
    DepthEarly,
    /// Take the directory lock; with the depth already read, if broken.
    Lock(Option<u8>),
    /// Read the depth.
    Depth,
    /// Zero this entry of the new chunk: depth, entry.
    Zero(u8, u8),
    /// Store the new depth; then zero the chunk, if broken.
    Double(u8),
    /// Store this entry if the child covers it: depth, entry.
    Entry(u8, u8),
    /// Release the directory lock.
    Unlock,
    /// Clear this key's slot if it moved.
    Clear(u8),
    /// (broken) Release the child.
    ReleaseChild,
    /// One store: local depth + 1, phase NONE.
    None,
    /// (broken) Clear this key's slot if it moved to this child, phase NONE being stored already.
    ClearLate(u8, u8),
}

impl Splits {
    pub(super) fn step_split(&self, state: &mut State, process: usize, at: SplitAt) -> bool {
        use SplitAt as S;
        match at {
            S::Adopt | S::State | S::List | S::Lock | S::Init => self.make(state, process, at),
            S::Copying | S::Copy(_) | S::Live | S::Give | S::Directory | S::Publishing => {
                self.fill(state, process, at)
            }
            S::RollBackUnlock | S::RollBackState | S::RollBackFree | S::RollBackPhase => {
                self.roll_back_split(state, process, at)
            }
            S::Unlock | S::Unlist | S::GiveUp => self.release(state, process, at),
        }
    }

    fn make(&self, state: &mut State, process: usize, at: SplitAt) -> bool {
        let (me, parent) = (state.procs[process].who, state.procs[process].own.segment);
        let (child, lane) = (state.procs[process].own.child, me.slot as usize);
        let next = match at {
            SplitAt::Adopt => {
                let free =
                    |s: &&super::Segment| s.owner.is_none() && s.state_word == StateWord::Free;
                let Some(found) = state.segments.iter().skip(1).position(|s| free(&s)) else {
                    return state.procs.go(process, WriteAt::Unlock(false));
                };
                state.segments[found + 1].owner = Some(me);
                state.procs[process].own.child = u8::try_from(found + 1).expect("few segments");
                SplitAt::State
            }
            SplitAt::State => {
                state.segment(child).state_word = StateWord::Writing(me);
                if self.breaks(Break::ChildUnlocked) { SplitAt::Init } else { SplitAt::List }
            }
            SplitAt::List => {
                state.lanes[lane].child = child;
                SplitAt::Lock
            }
            SplitAt::Lock => match state.segments[child as usize].lock {
                Some(_) if self.breaks(Break::ChildLockStored) => {
                    state.segment(child).lock = Some(me);
                    SplitAt::Init
                }
                None => {
                    state.segment(child).lock = Some(me);
                    SplitAt::Init
                }
                Some(owner) => return self.wait(state, process, owner),
            },
            _ => {
                let (local, prefix) = (state.segment(parent).local, state.segment(parent).prefix);
                let new = state.segment(child);
                (new.local, new.prefix) = (local + 1, prefix | 1 << local);
                (new.phase, new.values) = (Phase::None, [0; KEYS]);
                SplitAt::Copying
            }
        };
        state.procs.go(process, next)
    }

    fn fill(&self, state: &mut State, process: usize, at: SplitAt) -> bool {
        let (me, parent) = (state.procs[process].who, state.procs[process].own.segment);
        let child = state.procs[process].own.child;
        let next = match at {
            SplitAt::Copying => {
                state.segment(parent).phase = Phase::Copying(child);
                SplitAt::Copy(0)
            }
            SplitAt::Copy(key) => {
                copy(state, parent, child, key);
                match usize::from(key) + 1 < KEYS {
                    true => SplitAt::Copy(key + 1),
                    false => SplitAt::Live,
                }
            }
            SplitAt::Live => {
                state.segment(child).state_word = StateWord::Live;
                match self.broken {
                    Some(Break::GiveWhileCopying) => SplitAt::Give,
                    _ if self.locks_late() => SplitAt::Publishing,
                    _ => SplitAt::Directory,
                }
            }
            SplitAt::Give => {
                state.segment(child).owner = None;
                SplitAt::Directory
            }
            SplitAt::Directory => match state.directory_lock {
                None => {
                    state.directory_lock = Some(me);
                    match self.breaks(Break::PublishingLate) {
                        true => return self.publish(state, process, me),
                        false => SplitAt::Publishing,
                    }
                }
                Some(owner) => return self.wait(state, process, owner),
            },
            _ => {
                state.segment(parent).phase = Phase::Publishing(child);
                return self.publish(state, process, me);
            }
        };
        state.procs.go(process, next)
    }

    fn publish(&self, state: &mut State, process: usize, me: Who) -> bool {
        let parent = state.procs[process].own.segment;
        state.procs.go(process, SplitAt::Unlock);
        let first = if self.locks_late() { self.first_finish() } else { FinishAt::Depth };
        state.procs.call(process, At::Finish(me, parent, first))
    }

    /// (broken) The directory lock is taken only when PUBLISHING is stored.
    fn locks_late(&self) -> bool {
        let late = [Break::PublishingBeforeLock, Break::ClearsFirst, Break::DepthBeforeLock];
        self.broken.is_some_and(|broken| late.contains(&broken))
    }

    /// A wait failed before PUBLISHING: the split has not happened. As a recoverer of COPYING does.
    fn roll_back_split(&self, state: &mut State, process: usize, at: SplitAt) -> bool {
        let (me, parent) = (state.procs[process].who, state.procs[process].own.segment);
        let child = state.procs[process].own.child;
        let next = match at {
            SplitAt::RollBackUnlock => {
                state.segment(child).lock = None;
                SplitAt::RollBackState
            }
            SplitAt::RollBackState => {
                state.segment(child).state_word = StateWord::Retired(me);
                SplitAt::RollBackFree
            }
            SplitAt::RollBackFree => {
                state.segment(child).state_word = StateWord::Free;
                SplitAt::RollBackPhase
            }
            _ => {
                if !self.breaks(Break::ErrorLeavesCopying) {
                    state.segment(parent).phase = Phase::None;
                }
                SplitAt::Unlist
            }
        };
        state.procs.go(process, next)
    }

    fn release(&self, state: &mut State, process: usize, at: SplitAt) -> bool {
        let (me, child) = (state.procs[process].who, state.procs[process].own.child);
        let next = match at {
            SplitAt::Unlock => {
                if state.segment(child).lock == Some(me) {
                    state.segment(child).lock = None;
                }
                SplitAt::Unlist
            }
            SplitAt::Unlist => {
                state.lanes[me.slot as usize].child = 0;
                SplitAt::GiveUp
            }
            _ => {
                if state.segment(child).owner == Some(me) {
                    state.segment(child).owner = None;
                }
                return state.procs.go(process, WriteAt::Unlock(false));
            }
        };
        state.procs.go(process, next)
    }

    /// Where finishing a split begins.
    pub(super) fn first_finish(&self) -> FinishAt {
        match self.broken {
            Some(Break::ClearsFirst) => FinishAt::Clear(0),
            Some(Break::DepthBeforeLock) => FinishAt::DepthEarly,
            _ => FinishAt::Lock(None),
        }
    }

    pub(super) fn step_finish(
        &self,
        state: &mut State,
        process: usize,
        who: Who,
        parent: u8,
        at: FinishAt,
    ) -> bool {
        use FinishAt as F;
        let child = match (state.segment(parent).phase, at) {
            (_, F::ClearLate(child, _)) => child,
            (Phase::Publishing(child) | Phase::Copying(child), _) => child,
            // Only after a break: there is nothing left to finish.
            (Phase::None, _) => return state.procs.done(process),
        };
        let next = match at {
            F::Copy(key) => {
                copy(state, parent, child, key);
                if usize::from(key) + 1 < KEYS { F::Copy(key + 1) } else { F::Lock(None) }
            }
            F::DepthEarly => F::Lock(Some(state.depth)),
            F::Lock(early) => match state.directory_lock {
                None => {
                    state.directory_lock = Some(who);
                    early.map_or(F::Depth, |depth| F::Entry(depth, 0))
                }
                Some(owner) => return self.wait(state, process, owner),
            },
            F::Depth | F::Zero(..) | F::Double(_) | F::Entry(..) | F::Unlock => {
                self.change_directory(state, parent, child, at)
            }
            F::Clear(_) | F::ReleaseChild => self.clear(state, parent, child, at),
            F::None => {
                state.segment(parent).local = state.segments[child as usize].local;
                state.segment(parent).phase = Phase::None;
                if !self.breaks(Break::NoneBeforeClears) {
                    return state.procs.done(process);
                }
                F::ClearLate(child, 0)
            }
            F::ClearLate(_, key) => {
                clear(state, parent, child, key);
                if usize::from(key) + 1 == KEYS {
                    return state.procs.done(process);
                }
                F::ClearLate(child, key + 1)
            }
        };
        state.procs.go(process, At::Finish(who, parent, next))
    }

    /// Under the directory lock. A depth that is too small means: double first.
    fn change_directory(&self, state: &mut State, parent: u8, child: u8, at: FinishAt) -> FinishAt {
        use FinishAt as F;
        let late = self.breaks(Break::DepthBeforeZero);
        match at {
            F::Depth if state.depth > state.segment(parent).local => F::Entry(state.depth, 0),
            F::Depth if late => F::Double(state.depth),
            F::Depth => F::Zero(state.depth, 1 << state.depth),
            F::Zero(depth, entry) => {
                state.entries[entry as usize] = 0;
                match (u32::from(entry) + 1 < 2 << depth, late) {
                    (true, _) => F::Zero(depth, entry + 1),
                    (false, false) => F::Double(depth),
                    (false, true) => F::Entry(depth + 1, 0),
                }
            }
            F::Double(depth) => {
                state.depth = depth + 1;
                if late { F::Zero(depth, 1 << depth) } else { F::Entry(depth + 1, 0) }
            }
            F::Entry(depth, entry) => {
                self.store_entry(state, child, entry);
                match u32::from(entry) + 1 < 1 << depth {
                    true => F::Entry(depth, entry + 1),
                    false => F::Unlock,
                }
            }
            _ => {
                state.directory_lock = None;
                let cleared = matches!(self.broken, Some(Break::ClearsFirst));
                let early = matches!(self.broken, Some(Break::ChildReleasedEarly));
                match (cleared || self.breaks(Break::NoneBeforeClears), early) {
                    (true, _) => F::None,
                    (_, true) => F::ReleaseChild,
                    _ => F::Clear(0),
                }
            }
        }
    }

    fn store_entry(&self, state: &mut State, child: u8, entry: u8) {
        let new = state.segments[child as usize];
        let covered = index(entry, new.local) == usize::from(new.prefix);
        let skipped = self.breaks(Break::ZeroSkipped) && state.entries[entry as usize] == 0;
        // An entry that has just been added by doubling is always stored, whatever is broken.
        let own = entry == new.prefix && state.depth == new.local;
        if covered && (!skipped || own) {
            state.entries[entry as usize] = child;
        }
    }

    fn clear(&self, state: &mut State, parent: u8, child: u8, at: FinishAt) -> FinishAt {
        let FinishAt::Clear(key) = at else {
            state.segment(child).lock = None;
            return FinishAt::Clear(0);
        };
        clear(state, parent, child, key);
        match (usize::from(key) + 1 < KEYS, self.breaks(Break::ClearsFirst)) {
            (true, _) => FinishAt::Clear(key + 1),
            (false, true) => FinishAt::Lock(None),
            (false, false) => FinishAt::None,
        }
    }
}

fn moves(state: &State, child: u8, key: u8) -> bool {
    let new = &state.segments[child as usize];
    index(HASHES[key as usize], new.local) == usize::from(new.prefix)
}

fn copy(state: &mut State, parent: u8, child: u8, key: u8) {
    if moves(state, child, key) {
        let value = state.segment(parent).values[key as usize];
        state.segment(child).values[key as usize] = value;
    }
}

fn clear(state: &mut State, parent: u8, child: u8, key: u8) {
    if moves(state, child, key) {
        state.segment(parent).values[key as usize] = 0;
    }
}

const _: () = assert!(MAX_DEPTH <= 3, "hashes have three bits");
