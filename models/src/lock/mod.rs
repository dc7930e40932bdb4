//! The robust lock in detail: the waiters' bit, sleepers, owners that die, and slots that are used again
//! while somebody sleeps on a lock of their previous holder.
//!
//! Processes run scripts of [`Op`]s over one lock word. Each step is one access to shared memory or one
//! call of the kernel, which wakes sleepers in the order in which they came. What the lock protects is one
//! word, dirty while somebody is inside.
//!
//! Invariants: nobody enters while somebody is inside or has left a change half done; nobody releases a
//! lock of somebody else's; nothing names a generation that has ended; nobody waits forever, not
//! even for one that stands still for ever (`patience`). If nobody dies, and nobody is stopped, the
//! last one must hold without timeouts.

mod patience;
mod recover;
pub mod scenarios;
mod state;
mod take;

pub use recover::{ClaimAt, RecoverAt};
pub use state::*;
pub use take::{LockAt, UnlockAt};

use crate::explorer::{Model, Status, run_alone};
use crate::participants::Who;

/// One thing that a process is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Takes the lock, changes what it protects, releases it.
    Lock,
    /// Recovers whoever is dead.
    Sweep,
    /// Waits until this slot is to be had, recovers what its holder left, and becomes its holder.
    Claim(u8),
}

/// A way to get the protocol wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Who has slept takes the lock without the waiters' bit, though others may still sleep.
    ForgetsWaiters,
    /// A waiter goes to sleep without having set the waiters' bit.
    SleepsWithoutFlag,
    /// A waiter goes to sleep whatever the word says by then.
    SleepsUncompared,
    /// The releasing store does not fetch the waiters' bit: it was looked at before.
    LooksThenUnlocks,
    /// Sleeps have no timeout.
    NoTimeout,
    /// A waiter takes a dead owner's lock by compare-and-swap instead of recovering the owner.
    Steals,
    /// Recoverers do without the word.
    NoWord,
    /// A recoverer does not ask again when it has the word, only before.
    AsksFirst,
    /// A recoverer asks only for the byte then, not for the generation.
    NoGenerationCheck,
    /// A recoverer clears the word by a plain store.
    ClearsByStore,
    /// A dead recoverer's word is respected.
    NoTakeover,
    /// A claimant does not look at the word when it has the byte.
    ClaimsWithoutLooking,
    /// A recoverer ends the generation before it releases the lock.
    EndsGenerationFirst,
    /// The lock is listed after it was taken.
    ListsAfterLock,
    /// The lock is unlisted before it is released.
    UnlistsBeforeUnlock,
    /// A newcomer takes the slot over without recovering what its holder left.
    ClaimsWithoutRecovery,
    /// A recoverer releases the lock before it has finished the change.
    UnlocksBeforeSettling,
    /// A wait has no end.
    EndlessWait,
    /// Who gives up takes the lock from its owner, which lives and may be stopped.
    TakesOnGivingUp,
    /// Who gives up a wait for a stopped recoverer acts as the dead one itself.
    RecoversOnGivingUp,
}

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Between two entries of its script.
    Next,
    /// Taking the lock.
    Lock(LockAt),
    /// Inside, or leaving.
    Unlock(UnlockAt),
    /// Recovering somebody.
    Recover(Who, RecoverAt),
    /// Looking for the dead, from this slot on.
    Sweep(u8),
    /// Becoming a slot's holder.
    Claim(u8, ClaimAt),
    /// Leaving the hold: end the generation, then release the byte.
    Exit(bool),
}

/// A scenario: who does what, and what is broken.
#[derive(Clone, Debug)]
pub struct Locks {
    /// One script a process; processes are participants from the start unless they begin with a claim.
    pub scripts: Vec<Vec<Op>>,
    /// Whether sleeps end by themselves.
    pub timed: bool,
    /// Which process may be stopped, for ever; patience may end then.
    pub stops: Option<usize>,
    /// What to get wrong.
    pub broken: Option<Break>,
}

impl Locks {
    /// A sound scenario.
    #[must_use]
    pub fn new(timed: bool, scripts: &[&[Op]]) -> Self {
        let scripts = scripts.iter().map(|s| s.to_vec()).collect();
        Locks { scripts, timed, stops: None, broken: None }
    }

    /// The same scenario in which this process may be stopped.
    #[must_use]
    pub fn stops(self, process: usize) -> Self {
        Locks { stops: Some(process), ..self }
    }

    /// The same scenario with something broken.
    #[must_use]
    pub fn broken(&self, broken: Break) -> Self {
        Locks { broken: Some(broken), ..self.clone() }
    }

    fn breaks(&self, what: Break) -> bool {
        self.broken == Some(what)
    }

    fn op(&self, state: &State, process: usize) -> Option<Op> {
        // Number PROCESSES - 1 is the sweeper that only the check at rest starts.
        let script = self.scripts.get(process).map_or(&[Op::Sweep][..], Vec::as_slice);
        script.get(usize::from(state.procs[process].op)).copied()
    }

    fn begin(&self, state: &mut State, process: usize) -> bool {
        let at = match self.op(state, process) {
            Some(Op::Lock) if self.breaks(Break::ListsAfterLock) => At::Lock(LockAt::Fast),
            Some(Op::Lock) => At::Lock(LockAt::List),
            Some(Op::Sweep) => At::Sweep(0),
            Some(Op::Claim(slot)) => At::Claim(slot, ClaimAt::Say),
            None => At::Exit(false),
        };
        state.procs.go(process, at)
    }

    /// Ends the entry of the script.
    fn finish(state: &mut State, process: usize) -> bool {
        state.procs[process].op += 1;
        state.procs.go(process, At::Next)
    }

    fn step_exit(state: &mut State, process: usize, ended: bool) -> bool {
        let slot = state.procs[process].who.slot as usize;
        if !ended {
            state.end_generation(slot);
            return state.procs.go(process, At::Exit(true));
        }
        state.slots.release_bytes_of(process);
        state.procs[process].leave();
        true
    }
}

impl Model for Locks {
    type State = State;

    fn initial(&self) -> State {
        let claims = |s: &&Vec<Op>| matches!(s.first(), Some(Op::Claim(_)));
        let live = self.scripts.iter().take_while(|s| !claims(s)).count();
        State::new(live, self.scripts.len())
    }

    fn processes(&self) -> usize {
        if self.stops.is_some() { PROCESSES + patience::EVENTS } else { self.scripts.len() }
    }

    fn status(&self, state: &State, process: usize) -> Status {
        let gone = match patience::event(process) {
            Some(event) => patience::has_happened(state, event),
            None => state.procs[process].gone || self.is_stopped(state, process),
        };
        if gone { Status::Gone } else { Status::Running }
    }

    fn step(&self, state: &mut State, process: usize) -> bool {
        match patience::event(process) {
            Some(event) => patience::happens(state, event),
            None => self.step_on(state, process),
        }
    }

    fn kill(&self, state: &mut State, process: usize) -> bool {
        if patience::event(process).is_some() {
            return false;
        }
        state.kill(process);
        true
    }

    fn invariant(&self, state: &State) -> Result<(), String> {
        state.judge()
    }

    fn at_rest(&self, state: &State) -> Result<(), String> {
        self.afterwards(state)?.into_iter().try_for_each(|state| self.sweep_at_rest(state))
    }

    fn describe(&self, state: &State, process: usize) -> String {
        match patience::event(process) {
            Some(event) => patience::describe(event),
            None => format!("{:?}", state.procs[process].stack.last()),
        }
    }
}

impl Locks {
    /// The next step of a process.
    fn step_on(&self, state: &mut State, process: usize) -> bool {
        match state.procs.now(process) {
            At::Next => self.begin(state, process),
            At::Lock(at) => self.step_lock(state, process, at),
            At::Unlock(at) => self.step_unlock(state, process, at),
            At::Recover(who, at) => self.step_recover(state, process, who, at),
            At::Sweep(slot) => Self::step_sweep(state, process, slot),
            At::Claim(slot, at) => self.step_claim(state, process, slot, at),
            At::Exit(ended) => Self::step_exit(state, process, ended),
        }
    }

    /// Everything can be recovered, and is recovered then.
    fn sweep_at_rest(&self, mut state: State) -> Result<(), String> {
        let sweeper = PROCESSES - 1;
        state.procs[sweeper].gone = false;
        run_alone(self, &mut state, sweeper, |state| state.procs[sweeper].op > 0)?;
        let in_use = state.slots.0.iter().any(|slot| slot.used || slot.byte.is_some());
        if state.word != Word::default() || state.dirty.is_some() || in_use {
            return Err("something is held or half done at rest".into());
        }
        Ok(())
    }
}

impl From<LockAt> for At {
    fn from(at: LockAt) -> At {
        At::Lock(at)
    }
}

impl From<UnlockAt> for At {
    fn from(at: UnlockAt) -> At {
        At::Unlock(at)
    }
}
