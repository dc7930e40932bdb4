//! A participant that stands still, and the end of the others' patience.
//!
//! Two events may happen, at any moment each: the participant that may be stopped is; and patience
//! ends, so that whoever waits for one that lives gives up. A recoverer that gives up leaves what
//! it could not give back in flight in the dead one's name, its lists clear, and lets the byte go.

use super::moves::Move;
use super::state::State;
use super::{At, Break, Queues, RecoverAt, finish};

/// How many events there are.
pub(super) const EVENTS: usize = 2;
/// The first: a participant is stopped. The other one: patience ends.
const STOP: usize = 0;

/// Whether an event has happened.
pub(super) fn has_happened(state: &State, event: usize) -> bool {
    if event == STOP { state.stopped } else { state.late }
}

/// Lets an event happen.
pub(super) fn happens(state: &mut State, event: usize) -> bool {
    let word = if event == STOP { &mut state.stopped } else { &mut state.late };
    !std::mem::replace(word, true)
}

/// The event in words.
pub(super) fn describe(event: usize) -> &'static str {
    if event == STOP { "a participant is stopped" } else { "patience ends" }
}

impl Queues {
    /// Whether the thread stands still.
    pub(super) fn is_stopped(&self, state: &State, thread: usize) -> bool {
        state.stopped && self.stops == Some(state.threads[thread].who.slot)
    }

    /// Ends the wait for the lock of a move, if patience has ended; false if it goes on.
    pub(super) fn give_up(&self, state: &mut State, thread: usize, mv: Move) -> bool {
        let recovers =
            matches!(state.threads[thread].stack.iter().rev().nth(1), Some(At::Recover(..)));
        if !state.late || (recovers && self.breaks(Break::EndlessRecovery)) {
            return false;
        }
        state.lists[usize::from(mv.lane)] = None;
        state.threads.done(thread);
        let moving = std::mem::take(&mut state.threads[thread].own.moving);
        if !recovers {
            // Its own pull or push: nothing was moved.
            return finish(state, thread);
        }
        if self.breaks(Break::DropsOnGiveUp) {
            moving.iter().for_each(|id| state.holders[usize::from(*id)] = None);
        }
        let ends = self.breaks(Break::EndsOnGiveUp);
        let next = if ends { RecoverAt::Generation } else { RecoverAt::Release };
        state.threads.go(thread, At::Recover(mv.who, next))
    }
}
