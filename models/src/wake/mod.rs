//! Protocol 7: waiting for messages and waking who waits, with an event counter and a flag.
//!
//! Waiters take one message each; wakers bring some, in batches; a successor takes over from wakers that died.
//! Each step is one access to shared memory or one call of the kernel. Memory is sequentially consistent
//! here; the two full fences are an ordering, and no part of this model.
//!
//! Invariant: when no process can move, none is asleep while there is a message. If nobody dies, or a successor takes
//! over, this must hold without timeouts.

pub mod scenarios;

use crate::explorer::{Model, Status};
use arrayvec::ArrayVec;

/// Waiters, wakers and the successor together.
pub const PROCESSES: usize = 5;

/// What a process is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes one message.
    Waiter,
    /// Brings batches of these sizes.
    Waker(Vec<u8>),
    /// Takes over from each waker that died. It is not killed itself.
    Successor,
}

/// A way to get the protocol wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The futex word is the flag itself.
    FlagIsFutex,
    /// The waiter sleeps without looking at the data again.
    NoLookAgain,
    /// The waiter reads the event after it looked again.
    EventReadLate,
    /// The waiter sets the flag after it looked again.
    FlagSetLate,
    /// The waker clears the flag after it woke the sleepers.
    ClearAfterWake,
    /// The waker looks at the flag before it brings the data.
    FlagReadEarly,
    /// The waker does not change the event.
    NoBump,
    /// The waker wakes one sleeper only.
    WakeOne,
    /// A successor wakes nobody.
    TakeoverWithoutWake,
    /// A successor wakes only if the flag is set.
    TakeoverByFlag,
    /// Sleeps have no timeout, and there is no successor.
    NoTimeout,
}

/// What a process is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Waiter: take a message if there is one.
    Try,
    /// Read the event.
    Event,
    /// Set the flag.
    Flag,
    /// Take a message if there is one, before sleeping.
    Again,
    /// Ask the kernel to sleep.
    Sleep,
    /// In the kernel's queue.
    Asleep,
    /// (broken) Waker: look at the flag first.
    Early,
    /// Add the messages; having seen this flag, if broken.
    Bring(Option<bool>),
    /// Look at the flag.
    Look,
    /// Clear it.
    Clear,
    /// Add 1 to the event.
    Bump,
    /// Wake the sleepers.
    Wake,
    /// (broken) Clear the flag.
    ClearLate,
    /// Successor: wait until a waker has died.
    Watch,
    /// Nothing is left.
    Done,
}

/// A process: the private state that a kill destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Proc {
    at: At,
    /// Next batch.
    batch: u8,
    /// The event that was read.
    event: u8,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    messages: u8,
    event: u8,
    flag: bool,
    sleepers: ArrayVec<u8, PROCESSES>,
    /// Wakers that died and that nobody has taken over from.
    orphaned: u8,
    procs: [Proc; PROCESSES],
}

/// A scenario: who is there, and what is broken.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// What each process is there for.
    pub roles: Vec<Role>,
    /// Whether sleeps end by themselves.
    pub timed: bool,
    /// What to get wrong.
    pub broken: Option<Break>,
}

impl Waiting {
    /// A sound scenario.
    #[must_use]
    pub fn new(timed: bool, roles: &[Role]) -> Self {
        Waiting { roles: roles.to_vec(), timed, broken: None }
    }

    /// The same scenario with something broken.
    #[must_use]
    pub fn broken(&self, broken: Break) -> Self {
        Waiting { broken: Some(broken), ..self.clone() }
    }

    fn breaks(&self, what: Break) -> bool {
        self.broken == Some(what)
    }

    fn step_waiter(&self, state: &mut State, process: usize) -> Option<At> {
        let take = state.messages > 0;
        let next = match state.procs[process].at {
            At::Try | At::Again if take => {
                state.messages -= 1;
                At::Done
            }
            At::Try if self.breaks(Break::EventReadLate) => At::Flag,
            At::Try => At::Event,
            At::Event => {
                state.procs[process].event = state.event;
                match self.broken {
                    Some(Break::EventReadLate) => At::Sleep,
                    Some(Break::FlagSetLate) => At::Again,
                    _ => At::Flag,
                }
            }
            At::Flag => {
                state.flag = true;
                match self.broken {
                    Some(Break::NoLookAgain | Break::FlagSetLate) => At::Sleep,
                    _ => At::Again,
                }
            }
            At::Again => match self.broken {
                Some(Break::EventReadLate) => At::Event,
                Some(Break::FlagSetLate) => At::Flag,
                _ => At::Sleep,
            },
            At::Sleep => self.sleep(state, process),
            At::Asleep if !self.timed || self.breaks(Break::NoTimeout) => return None,
            _ => {
                state.sleepers.retain(|p| usize::from(*p) != process);
                At::Try
            }
        };
        Some(next)
    }

    /// The kernel compares the word before it lets the process sleep.
    fn sleep(&self, state: &mut State, process: usize) -> At {
        let unchanged = match self.breaks(Break::FlagIsFutex) {
            true => state.flag,
            false => state.event == state.procs[process].event,
        };
        if !unchanged {
            return At::Try;
        }
        state.sleepers.push(u8::try_from(process).expect("few processes"));
        At::Asleep
    }

    fn step_waker(&self, state: &mut State, process: usize, batches: &[u8]) -> At {
        let first = if self.breaks(Break::FlagReadEarly) { At::Early } else { At::Bring(None) };
        match state.procs[process].at {
            At::Early => At::Bring(Some(state.flag)),
            At::Bring(seen) => {
                state.messages += batches[usize::from(state.procs[process].batch)];
                match seen {
                    None => At::Look,
                    Some(true) => At::Clear,
                    Some(false) => self.next_batch(state, process, batches, first),
                }
            }
            At::Look if !state.flag => self.next_batch(state, process, batches, first),
            At::Look if self.breaks(Break::ClearAfterWake) => At::Bump,
            At::Look => At::Clear,
            _ => match self.wake(state, process) {
                Some(next) => next,
                None => self.next_batch(state, process, batches, first),
            },
        }
    }

    fn next_batch(&self, state: &mut State, process: usize, batches: &[u8], first: At) -> At {
        let proc = &mut state.procs[process];
        proc.batch += 1;
        if usize::from(proc.batch) < batches.len() { first } else { At::Done }
    }

    /// Clearing the flag, changing the event, waking.
    fn wake(&self, state: &mut State, process: usize) -> Option<At> {
        match state.procs[process].at {
            At::Clear => {
                state.flag = false;
                Some(match self.broken {
                    Some(Break::NoBump | Break::FlagIsFutex) => At::Wake,
                    _ => At::Bump,
                })
            }
            At::Bump => {
                state.event += 1;
                Some(At::Wake)
            }
            At::Wake => {
                let count = if self.breaks(Break::WakeOne) { 1 } else { PROCESSES };
                let woken = state.sleepers.len().min(count);
                for sleeper in state.sleepers.drain(..woken) {
                    state.procs[usize::from(sleeper)].at = At::Try;
                }
                self.breaks(Break::ClearAfterWake).then_some(At::ClearLate)
            }
            _ => {
                state.flag = false;
                None
            }
        }
    }

    fn step_successor(&self, state: &mut State, process: usize) -> Option<At> {
        Some(match state.procs[process].at {
            At::Watch if state.orphaned > 0 => {
                state.orphaned -= 1;
                match self.broken {
                    Some(Break::TakeoverWithoutWake) => At::Watch,
                    Some(Break::TakeoverByFlag) if !state.flag => At::Watch,
                    _ => At::Bump,
                }
            }
            At::Watch => return None,
            _ => self.wake(state, process).unwrap_or(At::Watch),
        })
    }
}

impl Model for Waiting {
    type State = State;

    fn initial(&self) -> State {
        let proc = |p: usize| Proc {
            at: match self.roles.get(p) {
                Some(Role::Waiter) => At::Try,
                Some(Role::Waker(_)) if self.breaks(Break::FlagReadEarly) => At::Early,
                Some(Role::Waker(_)) => At::Bring(None),
                Some(Role::Successor) => At::Watch,
                None => At::Done,
            },
            batch: 0,
            event: 0,
        };
        State {
            messages: 0,
            event: 0,
            flag: false,
            sleepers: ArrayVec::new(),
            orphaned: 0,
            procs: std::array::from_fn(proc),
        }
    }

    fn processes(&self) -> usize {
        self.roles.len()
    }

    /// Who sleeps while there is no message waits for nothing, and so does a successor whose wakers live.
    fn status(&self, state: &State, process: usize) -> Status {
        match state.procs[process].at {
            At::Done => Status::Gone,
            At::Asleep if state.messages == 0 => Status::Gone,
            At::Watch if state.orphaned == 0 => Status::Gone,
            _ => Status::Running,
        }
    }

    fn step(&self, state: &mut State, process: usize) -> bool {
        let next = match &self.roles[process] {
            Role::Waiter => self.step_waiter(state, process),
            Role::Waker(batches) => Some(self.step_waker(state, process, batches)),
            Role::Successor => self.step_successor(state, process),
        };
        if let Some(next) = next {
            state.procs[process].at = next;
        }
        next.is_some()
    }

    fn kill(&self, state: &mut State, process: usize) -> bool {
        match self.roles[process] {
            Role::Successor => return false,
            Role::Waker(_) => state.orphaned += 1,
            Role::Waiter => state.sleepers.retain(|p| usize::from(*p) != process),
        }
        state.procs[process] = Proc { at: At::Done, batch: 0, event: 0 };
        true
    }

    fn invariant(&self, _: &State) -> Result<(), String> {
        Ok(())
    }

    fn at_rest(&self, state: &State) -> Result<(), String> {
        match state.messages > 0 && !state.sleepers.is_empty() {
            true => Err("a process is asleep while there is a message".into()),
            false => Ok(()),
        }
    }

    fn describe(&self, state: &State, process: usize) -> String {
        format!("{:?}", state.procs[process].at)
    }
}
