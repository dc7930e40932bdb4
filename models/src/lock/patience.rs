//! A process that stands still, and the end of the others' patience.
//!
//! Two events may happen, at any moment each: the process that may be stopped is; and patience ends,
//! so that whoever waits for one that lives gives up. It unlists the lock and has done nothing; a
//! waiters' bit that it has set may stay. At rest the stopped one goes on to its end, or dies: either
//! way everything is recovered then.

use super::state::State;
use super::{At, Break, Locks, PROCESSES};

/// How many events there are.
pub(super) const EVENTS: usize = 2;
/// The first: a process is stopped. The other one: patience ends.
const STOP: usize = 0;

/// The event that stands for this number of a process.
pub(super) fn event(process: usize) -> Option<usize> {
    process.checked_sub(PROCESSES)
}

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
pub(super) fn describe(event: usize) -> String {
    if event == STOP { "a process is stopped".into() } else { "patience ends".into() }
}

impl Locks {
    /// Whether the process stands still.
    pub(super) fn is_stopped(&self, state: &State, process: usize) -> bool {
        state.stopped && self.stops == Some(process)
    }

    /// Whether one that is about to sleep gives up.
    pub(super) fn is_over(&self, state: &State) -> bool {
        state.late && !self.breaks(Break::EndlessWait)
    }

    /// Ends the wait for the lock with nothing done.
    pub(super) fn give_up(&self, state: &mut State, process: usize) -> bool {
        let me = state.procs[process].who;
        state.listed[me.slot as usize] = false;
        Self::finish(state, process)
    }

    /// What may become of one that stands still, when all others have come to rest.
    pub(super) fn afterwards(&self, state: &State) -> Result<Vec<State>, String> {
        let Some(process) = self.stops.filter(|_| state.stopped) else {
            return Ok(vec![state.clone()]);
        };
        let (mut dies, mut goes_on) = (state.clone(), state.clone());
        (dies.stopped, goes_on.stopped) = (false, false);
        if !dies.procs[process].gone {
            dies.kill(process);
        }
        while !goes_on.procs[process].gone {
            let at: Option<At> = goes_on.procs[process].stack.last().copied();
            if !self.step_on(&mut goes_on, process) {
                return Err(format!("P{process} went on, and waits forever at {at:?}"));
            }
            goes_on.judge()?;
        }
        Ok(vec![dies, goes_on])
    }
}
