//! Protocol 6: a channel's ring, its producers one after the other, and consumers that come, go and die.
//!
//! Messages are numbered; each takes a header and as many cells as the scenario says, and none straddles the end of the
//! ring (a filler does). Each step is one access to shared memory. Memory is sequentially consistent here; the full
//! fences of joiner and producer are modelled in `weak`. The product keeps one word where the protocol has two:
//! its *write limit* is the claim as well, and what is checked here is that.
//!
//! Invariant: who stays gets every message after its join once, in order, intact; nobody takes a part of a message for a
//! header; when nobody can move, all is sent and received.

mod consume;
mod produce;
pub mod scenarios;
pub mod state;

use crate::explorer::{Model, Status};
use state::{At, Cell, LINES, Line, PROCESSES, Proc, RING, State, Use};

/// Whom a consumer keeps waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The producer.
    Lossless,
    /// Nobody: it may miss messages.
    Lossy,
    /// The producer, until that drops it.
    Patient,
}

/// What a process is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends all messages.
    Producer,
    /// Goes on where a dead producer stopped.
    Successor,
    /// Receives this many messages, then leaves. From the oldest kept, or from now.
    Consumer {
        /// Whom it keeps waiting.
        policy: Policy,
        /// Whether it begins with the oldest message kept.
        oldest: bool,
        /// How many messages it takes.
        takes: u8,
    },
}

/// A way to get the protocol wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The next header is not zeroed.
    NoZeroing,
    /// The next header is zeroed after this one is released.
    ZeroAfterRelease,
    /// The next header is not counted in the room that is needed.
    RoomWithoutHeader,
    /// The write limit is stored after the bytes.
    WriteLimitAfterBytes,
    /// A cancelled reservation takes the write limit back.
    CancelLowers,
    /// The mark stays where it was.
    NoMark,
    /// The producer does not look at the cursors again after it stored the write limit.
    NoSecondScan,
    /// A successor believes the write limit that it finds, without looking at the cursors.
    SuccessorTrusts,
    /// The dead count.
    DeadCount,
    /// The producer clears the lines of the dead.
    ProducerClears,
    /// A joiner does not read the write limit again.
    NoReread,
    /// A joiner compares with the mark instead of the write limit.
    ComparesMark,
    /// A lossy consumer does not look at the write limit after it copied.
    LossyTrusts,
    /// A patient consumer that was dropped does not notice.
    PatientTrusts,
    /// A successor begins at its own idea of the end: the mark.
    NoWalk,
}

/// A scenario: who is there, how long the messages are, and what is broken.
#[derive(Clone, Debug)]
pub struct Channel {
    /// What each process is there for.
    pub roles: Vec<Role>,
    /// Cells of each message behind its header.
    pub sizes: Vec<u8>,
    /// Before this message one reservation of a cell is cancelled.
    pub cancel: Option<u8>,
    /// What to get wrong.
    pub broken: Option<Break>,
}

impl Channel {
    /// A sound scenario.
    #[must_use]
    pub fn new(sizes: &[u8], roles: &[Role]) -> Self {
        Channel { roles: roles.to_vec(), sizes: sizes.to_vec(), cancel: None, broken: None }
    }

    /// The same with something broken.
    #[must_use]
    pub fn broken(&self, broken: Break) -> Self {
        Channel { broken: Some(broken), ..self.clone() }
    }

    fn breaks(&self, what: Break) -> bool {
        self.broken == Some(what)
    }

    fn messages(&self) -> u8 {
        u8::try_from(self.sizes.len()).expect("few messages")
    }
}

impl Model for Channel {
    type State = State;

    fn initial(&self) -> State {
        let proc = |p: usize| Proc {
            at: match self.roles.get(p) {
                Some(Role::Producer) => At::Next,
                Some(Role::Successor) => At::TakeOver,
                Some(Role::Consumer { policy: Policy::Lossy, .. }) => At::Begin,
                Some(Role::Consumer { .. }) => At::Claim,
                None => At::Done,
            },
            position: 0,
            message: 0,
            allowance: 0,
            least: 0,
            walks: false,
        };
        State {
            ring: [Cell::Zero; RING as usize],
            mark: (0, 0),
            write_limit: 0,
            lines: [Line { word: (Use::Free, 0), cursor: 0 }; LINES],
            procs: std::array::from_fn(proc),
            dead: [false; PROCESSES],
            released: Default::default(),
            cancelled: self.cancel.is_none(),
            wrong: None,
        }
    }

    fn processes(&self) -> usize {
        self.roles.len()
    }

    /// A successor whose producer lives waits for nothing.
    fn status(&self, state: &State, process: usize) -> Status {
        match state.procs[process].at {
            At::Done => Status::Gone,
            At::TakeOver if !self.may_take_over(state, process) => Status::Gone,
            _ => Status::Running,
        }
    }

    fn step(&self, state: &mut State, process: usize) -> bool {
        let next = match self.roles[process] {
            Role::Consumer { policy, oldest, takes } => {
                self.step_consumer(state, process, policy, oldest, takes)
            }
            _ => self.step_producer(state, process),
        };
        if let Some(next) = next {
            state.procs[process].at = next;
        }
        next.is_some()
    }

    fn kill(&self, state: &mut State, process: usize) -> bool {
        // The last producer stays: somebody has to send.
        let last = self.roles.iter().rposition(|role| !matches!(role, Role::Consumer { .. }));
        if Some(process) == last {
            return false;
        }
        state.dead[process] = true;
        state.procs[process] =
            Proc { at: At::Done, position: 0, message: 0, allowance: 0, least: 0, walks: false };
        true
    }

    fn invariant(&self, state: &State) -> Result<(), String> {
        state.wrong.map_or(Ok(()), |wrong| Err(wrong.to_owned()))
    }

    fn at_rest(&self, state: &State) -> Result<(), String> {
        match state.released.len() == self.sizes.len() {
            true => Ok(()),
            false => Err(format!("only {} messages were sent", state.released.len())),
        }
    }

    fn describe(&self, state: &State, process: usize) -> String {
        let proc = &state.procs[process];
        format!("{:?} at {} message {}", proc.at, proc.position, proc.message)
    }
}
