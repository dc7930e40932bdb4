//! Protocol 4: a change and its frame in the map's stream, which no kill may separate.
//!
//! Two slots in two segments; writers that change them, one that moves a pair and tells nobody, a follower that reads where the stream ends, somebody who
//! drops the map, and whoever meets a dead owner's lock and recovers it. Each step is one access to shared memory. A
//! segment's own pending record is record's affair and left out: its slot changes by one store under its lock.
//!
//! Invariants: frames below the tail are the committed changes, in their order; a segment's position is never behind its
//! last change; nothing is written into a ring that was freed; whatever was committed before the end was read lies before
//! it. When nobody can move, and the dead are recovered, every change is in the stream.

mod recover;
pub mod scenarios;

use crate::explorer::{Model, Status};
use crate::scenario::Scenario;
use arrayvec::ArrayVec;

/// The most processes.
pub const PROCESSES: usize = 4;
/// The most changes of a run.
const CHANGES: usize = 4;
/// Slots, each in a segment of its own.
const SLOTS: usize = 2;

/// What a process is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Changes these slots, one after the other.
    Writer(Vec<u8>),
    /// Sets the pair in this slot anew, elsewhere, and tells nobody: compaction.
    Mover(u8),
    /// Reads the end of the stream.
    Follower,
    /// Drops the map.
    Dropper,
}

/// A way to get the protocol wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The armed word is stored before all that it stands for is there.
    ArmedFirst,
    /// The change is committed without being armed.
    Unarmed,
    /// The tail moves before the change is committed.
    AnnouncedFirst,
    /// The segment's position is stored after the commit.
    PositionLate,
    /// The ring of a dropped map is freed before each segment was locked once.
    FreedEarly,
    /// Who recovers lets the stream go without asking the slot.
    NotRecovered,
    /// Who recovers lets the segment go before the stream is recovered.
    SegmentFirst,
    /// Who recovers disarms before the tail moves.
    DisarmedFirst,
    /// The end is read without the lock.
    EndUnlocked,
}

/// What a process is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Lock the segment of its slot; find the map there.
    Segment,
    /// Lock the stream.
    Stream,
    /// Look at the incarnation again.
    Check,
    /// Write the frame at the tail.
    Frame,
    /// Store the segment's position.
    Position,
    /// Store what the slot holds.
    ArmOld,
    /// Store the tail after the change.
    ArmEnd,
    /// Store the armed word.
    Arm,
    /// Store the slot.
    Commit,
    /// Move the tail.
    Announce,
    /// Clear the armed word.
    Disarm,
    /// Let the stream go.
    FreeStream,
    /// Let the segment go.
    FreeSegment,
    /// Follower: lock the stream.
    EndLock,
    /// Read the tail.
    End,
    /// Let the stream go.
    EndFree,
    /// Dropper: end the incarnation.
    Bump,
    /// Lock the segment of this slot, let it go at once.
    Empty(u8),
    /// Free the ring.
    Free,
    /// Nothing is left.
    Done,
}

/// A step of recovering a dead process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recovering {
    /// Ask the slot; move the tail if it has changed.
    Tail,
    /// Clear the armed word.
    Disarm,
    /// Let its stream go.
    Stream,
    /// Let its segment go.
    Segment,
    /// Let its byte go.
    Byte,
}

/// A process: the private state that a kill destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Proc {
    at: At,
    /// Which of its changes is next.
    change: u8,
    /// Whom it recovers, what is next there, and whether its segment, too.
    recovering: Option<(u8, Recovering, bool)>,
}

/// A change: which slot, and what it holds afterwards.
type Change = (u8, u8);

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    dropped: bool,
    freed: bool,
    slots: [u8; SLOTS],
    /// Locked by whom; of the slots' segments.
    segments: [Option<u8>; SLOTS],
    positions: [u8; SLOTS],
    /// The stream's lock.
    stream: Option<u8>,
    tail: u8,
    frames: [Option<Change>; CHANGES],
    /// The armed word: a slot.
    armed: Option<u8>,
    old: u8,
    end: u8,
    dead: [bool; PROCESSES],
    /// Who recovers whom.
    bytes: [Option<u8>; PROCESSES],
    /// What was committed, for the checks.
    committed: ArrayVec<Change, CHANGES>,
    /// What went wrong within a step.
    wrong: Option<&'static str>,
    procs: [Proc; PROCESSES],
}

/// A scenario: a role for each process.
pub type Streaming = Scenario<Role, Break>;

impl Streaming {
    /// The slot that a writer changes now.
    fn slot(&self, state: &State, process: usize) -> usize {
        match &self.parts[process] {
            Role::Writer(slots) => usize::from(slots[usize::from(state.procs[process].change)]),
            Role::Mover(slot) => usize::from(*slot),
            _ => 0,
        }
    }

    /// The steps of a change, in order; a break has another.
    fn after(&self, at: At) -> At {
        use At::*;
        let sound = [
            Segment,
            Stream,
            Check,
            Frame,
            Position,
            ArmOld,
            ArmEnd,
            Arm,
            Commit,
            Announce,
            Disarm,
            FreeStream,
            FreeSegment,
        ];
        let moved = |what: At, before: At| {
            let mut steps: Vec<At> = sound.iter().copied().filter(|at| *at != what).collect();
            let place = steps.iter().position(|at| *at == before).expect("a step");
            steps.insert(place, what);
            steps
        };
        let steps = match self.broken {
            Some(Break::ArmedFirst) => moved(ArmOld, Commit),
            Some(Break::AnnouncedFirst) => moved(Announce, Commit),
            Some(Break::PositionLate) => moved(Position, Announce),
            Some(Break::Unarmed) => sound.iter().copied().filter(|at| *at != Arm).collect(),
            _ => sound.to_vec(),
        };
        let place = steps.iter().position(|step| *step == at).expect("a step");
        steps.get(place + 1).copied().unwrap_or(Done)
    }

    /// Takes a lock that is free. If its owner is dead, begins to recover it, with its segment if `whole`; `None`: wait.
    fn take(&self, state: &mut State, process: usize, lock: Lock, whole: bool) -> Option<bool> {
        let me = u8::try_from(process).expect("few processes");
        let holder = *lock.word(state);
        match holder {
            None => {
                *lock.word(state) = Some(me);
                Some(true)
            }
            Some(owner) if state.dead[usize::from(owner)] => {
                let byte = &mut state.bytes[usize::from(owner)];
                if byte.is_some() {
                    return None;
                }
                *byte = Some(me);
                state.procs[process].recovering = Some((owner, self.first_settling(), whole));
                Some(false)
            }
            Some(_) => None,
        }
    }

    /// A step of a change; false: wait.
    fn step_writer(&self, state: &mut State, process: usize) -> bool {
        let slot = self.slot(state, process);
        let (me, at) = (u8::try_from(process).expect("few processes"), state.procs[process].at);
        // What it is to hold: each change has a value of its own.
        let new = (me + 1) * 10 + state.procs[process].change;
        let change = (u8::try_from(slot).expect("few slots"), new);
        match at {
            At::Segment => match self.take(state, process, Lock::Segment(slot), true) {
                None => return false,
                Some(false) => return true,
                Some(true) if state.dropped => {
                    state.segments[slot] = None;
                    state.procs[process].at = At::Done;
                    return true;
                }
                Some(true) => {}
            },
            At::Stream => match self.take(state, process, Lock::Stream, false) {
                None => return false,
                Some(false) => return true,
                Some(true) => {}
            },
            At::Check if state.dropped => {
                state.stream = None;
                state.segments[slot] = None;
                state.procs[process].at = At::Done;
                return true;
            }
            At::Frame if state.freed => state.wrong = Some("a frame is written into freed memory"),
            At::Frame => state.frames[usize::from(state.tail)] = Some(change),
            At::Position => state.positions[slot] = state.tail + 1,
            At::ArmOld => state.old = state.slots[slot],
            At::ArmEnd => state.end = state.tail + 1,
            At::Arm => state.armed = Some(change.0),
            At::Commit => {
                state.slots[slot] = new;
                state.committed.push(change);
            }
            At::Announce => state.tail += 1,
            At::Disarm => state.armed = None,
            At::FreeStream => state.stream = None,
            At::FreeSegment => {
                state.segments[slot] = None;
                let proc = &mut state.procs[process];
                proc.change += 1;
                let Role::Writer(slots) = &self.parts[process] else { return false };
                if usize::from(proc.change) < slots.len() {
                    proc.at = At::Segment;
                    return true;
                }
            }
            _ => {}
        }
        state.procs[process].at = self.after(at);
        true
    }

    fn step_mover(&self, state: &mut State, process: usize) -> bool {
        let slot = self.slot(state, process);
        state.procs[process].at = match state.procs[process].at {
            At::Segment => match self.take(state, process, Lock::Segment(slot), true) {
                None => return false,
                Some(false) => return true,
                Some(true) => At::Commit,
            },
            At::Commit => {
                // The same pair, another word.
                state.slots[slot] += 100;
                At::FreeSegment
            }
            _ => {
                state.segments[slot] = None;
                At::Done
            }
        };
        true
    }

    fn step_follower(&self, state: &mut State, process: usize) -> bool {
        state.procs[process].at = match state.procs[process].at {
            At::EndLock => match self.take(state, process, Lock::Stream, true) {
                None => return false,
                Some(false) => return true,
                Some(true) => At::End,
            },
            At::End => {
                if usize::from(state.tail) < state.committed.len() {
                    state.wrong = Some("a change that was committed lies behind the end");
                }
                if self.breaks(Break::EndUnlocked) { At::Done } else { At::EndFree }
            }
            _ => {
                state.stream = None;
                At::Done
            }
        };
        true
    }

    fn step_dropper(&self, state: &mut State, process: usize) -> bool {
        state.procs[process].at = match state.procs[process].at {
            At::Bump => {
                state.dropped = true;
                if self.breaks(Break::FreedEarly) { At::Free } else { At::Empty(0) }
            }
            At::Empty(slot) => {
                match self.take(state, process, Lock::Segment(slot.into()), true) {
                    None => return false,
                    Some(false) => return true,
                    Some(true) => state.segments[usize::from(slot)] = None,
                }
                if usize::from(slot) + 1 < SLOTS { At::Empty(slot + 1) } else { At::Free }
            }
            _ => {
                state.freed = true;
                At::Done
            }
        };
        true
    }
}

/// A lock word.
#[derive(Clone, Copy)]
enum Lock {
    Segment(usize),
    Stream,
}

impl Lock {
    fn word(self, state: &mut State) -> &mut Option<u8> {
        match self {
            Lock::Segment(slot) => &mut state.segments[slot],
            Lock::Stream => &mut state.stream,
        }
    }
}

impl Model for Streaming {
    type State = State;

    fn initial(&self) -> State {
        let proc = |p: usize| Proc {
            at: match self.parts.get(p) {
                Some(Role::Writer(_) | Role::Mover(_)) => At::Segment,
                Some(Role::Follower) if self.breaks(Break::EndUnlocked) => At::End,
                Some(Role::Follower) => At::EndLock,
                Some(Role::Dropper) => At::Bump,
                None => At::Done,
            },
            change: 0,
            recovering: None,
        };
        State {
            dropped: false,
            freed: false,
            slots: [0; SLOTS],
            segments: [None; SLOTS],
            positions: [0; SLOTS],
            stream: None,
            tail: 0,
            frames: [None; CHANGES],
            armed: None,
            old: 0,
            end: 0,
            dead: [false; PROCESSES],
            bytes: [None; PROCESSES],
            committed: ArrayVec::new(),
            wrong: None,
            procs: std::array::from_fn(proc),
        }
    }

    fn processes(&self) -> usize {
        self.parts.len()
    }

    fn status(&self, state: &State, process: usize) -> Status {
        match state.procs[process].at {
            At::Done => Status::Gone,
            _ => Status::Running,
        }
    }

    fn step(&self, state: &mut State, process: usize) -> bool {
        if let Some((dead, recovering, whole)) = state.procs[process].recovering {
            let next = self.recover(state, usize::from(dead), recovering, whole);
            state.procs[process].recovering = next.map(|next| (dead, next, whole));
            return true;
        }
        match &self.parts[process] {
            Role::Writer(_) => self.step_writer(state, process),
            Role::Mover(_) => self.step_mover(state, process),
            Role::Follower => self.step_follower(state, process),
            Role::Dropper => self.step_dropper(state, process),
        }
    }

    /// Its byte is given up by the kernel, and so is that of whom it was recovering.
    fn kill(&self, state: &mut State, process: usize) -> bool {
        if let Some((dead, ..)) = state.procs[process].recovering {
            state.bytes[usize::from(dead)] = None;
        }
        state.dead[process] = true;
        state.procs[process] = Proc { at: At::Done, change: 0, recovering: None };
        true
    }

    fn invariant(&self, state: &State) -> Result<(), String> {
        if let Some(wrong) = state.wrong {
            return Err(wrong.into());
        }
        let frames = state.frames.iter().take(state.tail.into());
        let mut committed = state.committed.iter();
        for frame in frames {
            if frame.as_ref() != committed.next() {
                return Err("the stream tells of a change that is not the map's".into());
            }
        }
        for (number, (slot, _)) in (1u8..).zip(&state.committed) {
            if state.positions[usize::from(*slot)] < number {
                return Err("a segment's position is behind its last change".into());
            }
        }
        Ok(())
    }

    fn at_rest(&self, state: &State) -> Result<(), String> {
        let mut state = state.clone();
        self.sweep(&mut state);
        self.invariant(&state)?;
        if usize::from(state.tail) != state.committed.len() {
            return Err("a change never came into the stream".into());
        }
        let locked = state.stream.is_some() || state.segments.iter().any(Option::is_some);
        if locked || state.armed.is_some() {
            return Err("something is still locked or armed".into());
        }
        Ok(())
    }

    fn describe(&self, state: &State, process: usize) -> String {
        match state.procs[process].recovering {
            Some((dead, recovering, _)) => format!("recover {dead}: {recovering:?}"),
            None => format!("{:?}", state.procs[process].at),
        }
    }
}
