//! Pulling and pushing, by a thread for itself or in the name of a dead participant.
//!
//! Invariant: as in `queue/moves.rs` of the library: list, lock, arm, holders' words, index, unlock, unlist.

use super::state::{ELEMENTS, Ids, Lock, Place, State};
use super::{At, Break, Queues, RecoverAt};
use crate::participants::Who;

/// A move: who does it (in whose name), in which lane it lists the lock, and the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    /// In whose name.
    pub who: Who,
    /// The lane.
    pub lane: u8,
    /// At which end; of the tail it is a push.
    pub lock: Lock,
    /// The most elements of a pull.
    pub max: u8,
}

/// Steps of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MoveAt {
    /// List the lock.
    List,
    /// Take it, or wait, or recover who is dead.
    Lock,
    /// Pull: read the indices and entries.
    Look,
    /// Push: write the entries.
    Write,
    /// Arm the intent.
    Arm,
    /// Store the holder's word of the element with this number.
    Holder(u8),
    /// Store the index.
    Commit,
    /// Release the lock.
    Unlock,
    /// Clear the list.
    Unlist,
}

impl Queues {
    /// In what order a move of this kind takes its steps, once it has the lock and the elements.
    fn order(&self, push: bool) -> [MoveAt; 4] {
        use MoveAt::{Arm, Commit, Holder, Write};
        let holder = Holder(0);
        match (self.broken, push) {
            (Some(Break::ArmsBeforeEntries), true) => [Arm, Write, holder, Commit],
            (Some(Break::ArmsAfterHolders), true) => [Write, holder, Arm, Commit],
            (Some(Break::ArmsAfterHolders), false) => [Write, holder, Arm, Commit],
            (Some(Break::ClearsAfterCommit), true) => [Write, Arm, Commit, holder],
            (Some(Break::HoldsAfterCommit), false) => [Write, Arm, Commit, holder],
            _ => [Write, Arm, holder, Commit],
        }
    }

    fn after(&self, push: bool, at: MoveAt) -> MoveAt {
        let order = self.order(push);
        let same = |step: &MoveAt| std::mem::discriminant(step) == std::mem::discriminant(&at);
        let next = order.iter().position(same).map_or(0, |n| n + 1);
        match order.get(next) {
            // A pull finds its entries written.
            Some(MoveAt::Write) if !push => self.after(push, MoveAt::Write),
            Some(MoveAt::Arm) if self.breaks(Break::NoIntent) => self.after(push, MoveAt::Arm),
            Some(step) => *step,
            None => MoveAt::Unlock,
        }
    }

    pub(super) fn begin_move(&self, state: &mut State, thread: usize, mv: Move) -> bool {
        let first = if self.breaks(Break::ListsAfterLock) { MoveAt::Lock } else { MoveAt::List };
        state.threads.call(thread, At::Move(mv, first))
    }

    pub(super) fn step_move(&self, state: &mut State, thread: usize, mv: Move, at: MoveAt) -> bool {
        let (queue, push) = mv.lock;
        let late = self.breaks(Break::ListsAfterLock);
        let inside = if push { self.after(true, MoveAt::List) } else { MoveAt::Look };
        let owner = state.end(mv.lock).lock;
        let next = match at {
            MoveAt::List => {
                state.lists[usize::from(mv.lane)] = Some(mv.lock);
                if late { inside } else { MoveAt::Lock }
            }
            MoveAt::Lock => match owner {
                None => {
                    state.end(mv.lock).lock = Some(mv.who);
                    if push {
                        state.take_up(thread, mv.who);
                    }
                    if late { MoveAt::List } else { inside }
                }
                Some(owner) if owner == mv.who || state.slots.alive(owner) => {
                    return self.give_up(state, thread, mv);
                }
                Some(_) if self.breaks(Break::Steals) => {
                    state.end(mv.lock).lock = Some(mv.who);
                    if push {
                        state.take_up(thread, mv.who);
                    }
                    inside
                }
                Some(owner) => {
                    return state.threads.call(thread, At::Recover(owner, RecoverAt::Byte));
                }
            },
            MoveAt::Look => {
                let (head, tail) = (state.end(mv.lock).index, state.end((queue, true)).index);
                let count = tail.saturating_sub(head).min(mv.max).min(ELEMENTS as u8);
                let ids: Ids = (head..head + count).map(|at| *state.entry(queue, at)).collect();
                let none = ids.is_empty();
                state.threads[thread].own.moving = ids;
                if none { MoveAt::Unlock } else { self.after(false, MoveAt::Write) }
            }
            MoveAt::Write => {
                let tail = state.end(mv.lock).index;
                let ids = state.threads[thread].own.moving.clone();
                (tail..).zip(ids).for_each(|(at, id)| *state.entry(queue, at) = id);
                self.after(push, at)
            }
            MoveAt::Arm => {
                let count = state.threads[thread].own.moving.len() as u8;
                let end = state.end(mv.lock);
                end.intent = end.index + count;
                self.after(push, at)
            }
            MoveAt::Holder(n) => {
                let id = state.threads[thread].own.moving[usize::from(n)];
                let holder = &mut state.holders[usize::from(id)];
                match (push, self.breaks(Break::ClearsAfterCommit)) {
                    (true, true) if *holder != Some(mv.who) => {}
                    (true, _) => *holder = None,
                    (false, _) => *holder = Some(mv.who),
                }
                let more = usize::from(n) + 1 < state.threads[thread].own.moving.len();
                if more { MoveAt::Holder(n + 1) } else { self.after(push, at) }
            }
            MoveAt::Commit => {
                let ids = state.threads[thread].own.moving.clone();
                state.end(mv.lock).index += ids.len() as u8;
                let (ring, in_flight) = (Place::Ring(queue), Place::InFlight(mv.who));
                let (from, to) = if push { (in_flight, ring) } else { (ring, in_flight) };
                state.commit(&ids, from, to);
                self.after(push, at)
            }
            MoveAt::Unlock if self.breaks(Break::UnlistsBeforeUnlock) => {
                if state.lists[usize::from(mv.lane)].take().is_some() {
                    return true;
                }
                MoveAt::Unlist
            }
            MoveAt::Unlock => MoveAt::Unlist,
            MoveAt::Unlist => {
                state.lists[usize::from(mv.lane)] = None;
                return state.threads.done(thread);
            }
        };
        if at == MoveAt::Unlock && next == MoveAt::Unlist {
            state.end(mv.lock).lock = None;
        }
        state.threads.go(thread, At::Move(mv, next))
    }
}
