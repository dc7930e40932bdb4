//! Protocol 5: moving elements between rings and participants, with kills anywhere, recoverers too.
//!
//! One participant may be stopped anywhere, for good; then the patience of the others ends at some
//! moment (`patience`).
//!
//! Threads run scripts of [`Op`]s; several may be of one participant, and die together. Each step is one access to
//! shared memory. The elements in flight are one word per element, naming a participant; the intent is a
//! word ahead of the index.
//!
//! Invariants: at every commit the elements are where they are taken from; when nobody can move and who is dead has been
//! swept, every element is in exactly one ring, nothing is locked, and no word names anybody.

pub mod moves;
mod patience;
mod recover;
pub mod scenarios;
mod state;

pub use recover::RecoverAt;
pub use state::*;

use crate::explorer::{Model, Status, run_alone};
use crate::participants::Who;
use crate::processes::Process;
use moves::{Move, MoveAt};

/// One thing that a thread is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Pulls at most this many elements from a queue.
    Pull(u8, u8),
    /// Pushes all that it has in flight to a queue.
    Push(u8),
    /// Recovers whoever is dead.
    Sweep,
}

/// A way to get the protocol wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// No intent is armed.
    NoIntent,
    /// The intent of a push is armed before the entries are there.
    ArmsBeforeEntries,
    /// The intent is armed after the holders' words.
    ArmsAfterHolders,
    /// A push clears the holders' words after its commit.
    ClearsAfterCommit,
    /// A pull stores the holders' words after its commit.
    HoldsAfterCommit,
    /// The lock is listed after it was taken.
    ListsAfterLock,
    /// The lock is unlisted before it is released.
    UnlistsBeforeUnlock,
    /// A waiter takes a dead owner's lock instead of recovering the owner.
    Steals,
    /// Recoverers do without the byte.
    NoByte,
    /// A recoverer ends the generation first.
    EndsGenerationFirst,
    /// A recoverer releases the lock before it has rolled back the move.
    UnlocksBeforeRollBack,
    /// A recoverer rolls back nothing.
    NoRollBack,
    /// A recoverer reads the holders' words before it has recovered the locks.
    GivesBackFirst,
    /// A recoverer waits for the living without a limit.
    EndlessRecovery,
    /// A recoverer that gives up clears the holders' words of what it was to give back.
    DropsOnGiveUp,
    /// A recoverer that gives up ends the generation all the same.
    EndsOnGiveUp,
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Between two entries of its script.
    Next,
    /// Moving elements.
    Move(Move, MoveAt),
    /// After its own pull or push: its elements in flight are what was moved.
    Moved(bool),
    /// Recovering somebody.
    Recover(Who, RecoverAt),
    /// Looking for the dead, from this slot on.
    Sweep(u8),
}

/// A scenario: who does what, and what is broken.
#[derive(Clone, Debug)]
pub struct Queues {
    /// Per thread its participant and its script.
    pub threads: Vec<(u8, Vec<Op>)>,
    /// The participant that may be stopped.
    pub stops: Option<u8>,
    /// What to get wrong.
    pub broken: Option<Break>,
}

impl Queues {
    /// A sound scenario.
    #[must_use]
    pub fn new(threads: &[(u8, &[Op])]) -> Self {
        let threads = threads.iter().map(|(slot, ops)| (*slot, ops.to_vec())).collect();
        Queues { threads, stops: None, broken: None }
    }

    /// The same scenario, in which this participant may be stopped.
    #[must_use]
    pub fn stopping(&self, slot: u8) -> Self {
        Queues { stops: Some(slot), ..self.clone() }
    }

    /// The same scenario with something broken.
    #[must_use]
    pub fn broken(&self, broken: Break) -> Self {
        Queues { broken: Some(broken), ..self.clone() }
    }

    fn breaks(&self, what: Break) -> bool {
        self.broken == Some(what)
    }

    fn op(&self, state: &State, thread: usize) -> Option<Op> {
        // The last thread is the sweeper that only the check at rest starts.
        let script = self.threads.get(thread).map_or(&[Op::Sweep][..], |(_, ops)| ops);
        script.get(usize::from(state.threads[thread].op)).copied()
    }

    fn begin(&self, state: &mut State, thread: usize) -> bool {
        let who = state.threads[thread].who;
        let lane = thread as u8;
        match self.op(state, thread) {
            Some(Op::Pull(queue, max)) => {
                state.threads.go(thread, At::Moved(false));
                let mv = Move { who, lane, lock: (queue, false), max };
                self.begin_move(state, thread, mv)
            }
            Some(Op::Push(_)) if state.threads[thread].own.in_flight.is_empty() => {
                finish(state, thread)
            }
            Some(Op::Push(queue)) => {
                state.threads[thread].own.moving = state.threads[thread].own.in_flight.clone();
                state.threads.go(thread, At::Moved(true));
                let mv = Move { who, lane, lock: (queue, true), max: 0 };
                self.begin_move(state, thread, mv)
            }
            Some(Op::Sweep) => state.threads.go(thread, At::Sweep(0)),
            None => {
                state.threads[thread].gone = true;
                true
            }
        }
    }
}

fn finish(state: &mut State, thread: usize) -> bool {
    state.threads[thread].op += 1;
    state.threads.go(thread, At::Next)
}

/// What was moved is in flight, or no longer.
fn moved(state: &mut State, thread: usize, push: bool) -> bool {
    let own = &mut state.threads[thread].own;
    let moving = std::mem::take(&mut own.moving);
    if push {
        own.in_flight.clear();
    } else {
        own.in_flight.extend(moving);
    }
    finish(state, thread)
}

fn sweep(state: &mut State, thread: usize, slot: u8) -> bool {
    if usize::from(slot) == SLOTS {
        return finish(state, thread);
    }
    state.threads.go(thread, At::Sweep(slot + 1));
    match state.slots.dead(slot) {
        Some(dead) => state.threads.call(thread, At::Recover(dead, RecoverAt::Byte)),
        None => true,
    }
}

impl Model for Queues {
    type State = State;

    fn initial(&self) -> State {
        let owners: Vec<u8> = self.threads.iter().map(|(slot, _)| *slot).collect();
        State::new(&owners)
    }

    fn processes(&self) -> usize {
        if self.stops.is_some() { THREADS + patience::EVENTS } else { self.threads.len() }
    }

    fn status(&self, state: &State, thread: usize) -> Status {
        let gone = match thread.checked_sub(THREADS) {
            Some(event) => patience::has_happened(state, event),
            None => state.threads[thread].gone || self.is_stopped(state, thread),
        };
        if gone { Status::Gone } else { Status::Running }
    }

    fn step(&self, state: &mut State, thread: usize) -> bool {
        if let Some(event) = thread.checked_sub(THREADS) {
            return patience::happens(state, event);
        }
        match state.threads.now(thread) {
            At::Next => self.begin(state, thread),
            At::Move(mv, at) => self.step_move(state, thread, mv, at),
            At::Moved(push) => moved(state, thread, push),
            At::Recover(who, at) => self.step_recover(state, thread, who, at),
            At::Sweep(slot) => sweep(state, thread, slot),
        }
    }

    fn kill(&self, state: &mut State, thread: usize) -> bool {
        if thread >= THREADS {
            return false;
        }
        // All threads of a process die together.
        let slot = state.threads[thread].who.slot;
        state.slots.release_bytes_of(slot.into());
        state.threads.0.iter_mut().filter(|own| own.who.slot == slot).for_each(Process::kill);
        true
    }

    fn invariant(&self, state: &State) -> Result<(), String> {
        if let Some(wrong) = state.wrong {
            return Err(wrong.into());
        }
        let locks = state.ends.iter().flatten().filter_map(|end| end.lock);
        let named = locks.chain(state.holders.iter().flatten().copied());
        match named.into_iter().find(|who| state.slots.ended(*who)) {
            Some(who) => Err(format!("{who:?} has ended and is still named")),
            None => Ok(()),
        }
    }

    fn at_rest(&self, state: &State) -> Result<(), String> {
        let mut state = state.clone();
        // Who has ended its script leaves the hold: what it has in flight goes back.
        for slot in 0..SLOTS - 1 {
            state.slots.release_bytes_of(slot);
        }
        let sweeper = THREADS - 1;
        state.threads[sweeper].gone = false;
        run_alone(self, &mut state, sweeper, |state| state.threads[sweeper].op > 0)?;
        if state.ends.iter().flatten().any(|end| end.lock.is_some() || end.intent > end.index) {
            return Err("something is locked or armed at rest".into());
        }
        let mut found = [0; ELEMENTS];
        for queue in 0..QUEUES as u8 {
            let (head, tail) = (state.end((queue, false)).index, state.end((queue, true)).index);
            for at in head..tail {
                found[usize::from(*state.entry(queue, at))] += 1;
            }
        }
        match found == [1; ELEMENTS] && state.holders == [None; ELEMENTS] {
            true => Ok(()),
            false => Err(format!("elements were found so often: {found:?}")),
        }
    }

    fn describe(&self, state: &State, thread: usize) -> String {
        if let Some(event) = thread.checked_sub(THREADS) {
            return patience::describe(event).into();
        }
        format!("{:?}", state.threads[thread].stack.last())
    }
}
