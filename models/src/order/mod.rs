//! Lock order and recovery: how much of a dead participant may a waiter recover?
//!
//! Names lock, segment locks, directory lock, growth lock are taken in this order. A waiter that meets a
//! dead owner recovers; but to recover a participant *as a whole* takes locks of every level, also such
//! as the waiter holds itself, or as somebody holds who waits for it. So a waiter that holds anything
//! recovers only what lies at the level it waits for or below ([`Break::WholeRecovery`] shows why).
//!
//! One process may be stopped anywhere, for good. Then nobody else waits for it for ever: the
//! others' patience ends at some moment, and who waits then gives up. A script rolls back what it has
//! begun; a recovery leaves the rest in the dead one's name.
//!
//! Processes run scripts of [`Act`]s; a process can be a thread of another one, so that one kill ends both
//! and both sign with the same owner. Invariant: nobody waits forever, and at rest nothing is half done.

pub mod scenarios;

use crate::explorer::{Model, Status};
use crate::participants::{Slots, Who};
use arrayvec::ArrayVec;

/// A lock; its level is its place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// Of the names of maps.
    Names,
    /// Of one of two segments of the first map.
    Segment(u8),
    /// Of the first map's directory.
    Directory,
    /// Of the hold's length.
    Growth,
}

impl Lock {
    fn level(self) -> u8 {
        match self {
            Lock::Names => 0,
            Lock::Segment(_) => 1,
            Lock::Directory => 2,
            Lock::Growth => 3,
        }
    }

    fn index(self) -> usize {
        match self {
            Lock::Names => 0,
            Lock::Segment(number) => 1 + usize::from(number),
            Lock::Directory => 3,
            Lock::Growth => 4,
        }
    }
}

/// One step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Take the lock.
    Lock(Lock),
    /// Release it.
    Unlock(Lock),
    /// Sign the second map as being made (true), or say that it is made.
    Making(bool),
    /// Sign the first map as being dropped (true), or say that it is gone.
    Dropping(bool),
    /// Begin (true) or end publishing the split of this segment.
    Publishing(u8, bool),
}

/// A way to get it wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// Every waiter recovers the whole participant, whatever it holds.
    WholeRecovery,
    /// Recoverers wait for the living without a limit.
    EndlessRecovery,
    /// A recovery that gives up lets the segment go that it was at.
    ErrorUnlocks,
}

/// What a process is doing, innermost last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Its script.
    Script,
    /// Taking a lock as somebody.
    Take(Who, Lock),
    /// Recovering somebody, from this level on.
    Recover(Who, u8, RecoverAt),
    /// Recovering whoever is dead, from this slot on.
    Sweep(u8),
    /// Rolling back its script, whose patience has ended, from this place backwards.
    RollBack(u8),
}

/// Steps of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecoverAt {
    /// Take the byte and compare the generation.
    Byte,
    /// Release this lock if the dead holds it, lowest level first.
    Release(u8),
    /// Look whether the dead holds this segment, and finish its split.
    Segment(u8),
    /// The directory is done: release it.
    Finished(u8),
    /// Release this segment.
    Unlock(u8),
    /// Is a map half made or half dropped?
    Maps,
    /// Under the names lock: empty this segment of a map that is dropped.
    Empty(u8),
    /// Release the segment that was emptied.
    Emptied(u8),
    /// The maps are recovered.
    Recovered,
    /// Release the names lock.
    MapsDone,
    /// End the generation.
    Generation,
    /// Release the byte.
    Byteless,
}

/// A process: the private state that a kill destroys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proc {
    who: Who,
    next: u8,
    gone: bool,
    stack: ArrayVec<At, 7>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    slots: Slots<4>,
    locks: [Option<Who>; 5],
    making: Option<Who>,
    dropping: Option<Who>,
    publishing: [bool; 2],
    procs: [Proc; 6],
    /// One process stands still, if the scenario has one that may.
    stopped: bool,
    /// Who waits now gives up.
    late: bool,
}

/// A scenario: scripts, and of which process each is a thread.
#[derive(Clone, Debug)]
pub struct Order {
    /// One script a thread.
    pub scripts: Vec<Vec<Act>>,
    /// The participant of each.
    pub participants: Vec<u8>,
    /// The participant that may be stopped, and whether anybody's patience ends.
    pub stops: Option<u8>,
    /// What to get wrong.
    pub broken: Option<Break>,
}

const SWEEPER: usize = 5;

impl Order {
    /// A sound scenario; `participants[i]` is the slot that thread `i` belongs to.
    #[must_use]
    pub fn new(participants: &[u8], scripts: &[Vec<Act>]) -> Self {
        let (scripts, participants) = (scripts.to_vec(), participants.to_vec());
        Order { scripts, participants, stops: None, broken: None }
    }

    /// The same scenario, in which this participant may be stopped, and then the others' patience
    /// ends.
    #[must_use]
    pub fn stopping(&self, participant: u8) -> Self {
        Order { stops: Some(participant), ..self.clone() }
    }

    /// The same scenario with something broken.
    #[must_use]
    pub fn broken(&self, broken: Break) -> Self {
        Order { broken: Some(broken), ..self.clone() }
    }

    /// Takes `lock` as `who`. A waiter that holds nothing, in its own name or in that of somebody it
    /// recovers, may recover everything; any other only what is not above the lock.
    fn take(&self, state: &mut State, process: usize, who: Who, lock: Lock) -> Option<bool> {
        match state.locks[lock.index()] {
            None => {
                state.locks[lock.index()] = Some(who);
                None
            }
            Some(owner) if state.slots.alive(owner) => Some(self.give_up(state, process)),
            Some(owner) => {
                let acting = |at: &At, held: Who| match at {
                    At::Recover(dead, ..) => *dead == held,
                    _ => false,
                };
                let proc = &state.procs[process];
                let holds =
                    state.locks.iter().flatten().any(|&held| {
                        held == proc.who || proc.stack.iter().any(|at| acting(at, held))
                    });
                let whole = !holds || self.broken == Some(Break::WholeRecovery);
                let level = if whole { 0 } else { lock.level() };
                state.procs[process].stack.push(At::Recover(owner, level, RecoverAt::Byte));
                Some(true)
            }
        }
    }

    /// Ends a wait, if patience has ended, and with it every recovery that it is part of. False if
    /// it goes on.
    fn give_up(&self, state: &mut State, process: usize) -> bool {
        let recovers = |at: &At| matches!(at, At::Recover(..));
        let endless = self.broken == Some(Break::EndlessRecovery)
            && state.procs[process].stack.iter().any(recovers);
        if !state.late || endless {
            return false;
        }
        while let Some(at) = state.procs[process].stack.pop() {
            if let At::Recover(who, _, at) = at {
                let names = Lock::Names.index();
                if state.locks[names] == Some(who) {
                    state.locks[names] = None;
                }
                if let (RecoverAt::Finished(s), Some(Break::ErrorUnlocks)) = (at, self.broken) {
                    state.locks[1 + s as usize] = None;
                }
                state.slots.release_byte(who.slot, process);
            }
        }
        let next = state.procs[process].next;
        state.procs[process].stack.push(At::RollBack(next));
        true
    }

    /// Lets one thing go that the script holds, the last one first.
    fn step_roll_back(&self, state: &mut State, process: usize, next: u8) -> bool {
        let Some(at) = usize::from(next).checked_sub(1) else { return Self::end(state, process) };
        let done = &self.scripts[process][..usize::from(state.procs[process].next)];
        match done[at] {
            Act::Lock(lock) if !done[at..].contains(&Act::Unlock(lock)) => {
                state.locks[lock.index()] = None;
            }
            Act::Making(true) if !done.contains(&Act::Making(false)) => state.making = None,
            _ => {}
        }
        state.procs[process].stack = [At::RollBack(next - 1)].into_iter().collect();
        true
    }

    /// The script has ended. The participant leaves when its last thread has.
    fn end(state: &mut State, process: usize) -> bool {
        let who = state.procs[process].who;
        state.procs[process].gone = true;
        if !state.procs.iter().any(|p| p.who == who && !p.gone) {
            state.slots.0[who.slot as usize].used = false;
            state.slots.0[who.slot as usize].byte = None;
        }
        true
    }

    fn step_script(&self, state: &mut State, process: usize) -> bool {
        let who = state.procs[process].who;
        let Some(script) = self.scripts.get(process) else {
            state.procs[process].gone = true;
            return true;
        };
        match script.get(usize::from(state.procs[process].next)) {
            Some(Act::Lock(lock)) => {
                if let Some(moved) = self.take(state, process, who, *lock) {
                    return moved;
                }
            }
            Some(Act::Unlock(lock)) => state.locks[lock.index()] = None,
            Some(Act::Making(begin)) => state.making = begin.then_some(who),
            Some(Act::Dropping(begin)) => state.dropping = begin.then_some(who),
            Some(Act::Publishing(s, begin)) => state.publishing[*s as usize] = *begin,
            None => return Self::end(state, process),
        }
        state.procs[process].next += 1;
        true
    }

    fn go(state: &mut State, process: usize, who: Who, level: u8, at: RecoverAt) -> bool {
        *state.procs[process].stack.last_mut().expect("a process does something") =
            At::Recover(who, level, at);
        true
    }

    fn is_stopped(&self, state: &State, process: usize) -> bool {
        state.stopped && self.stops == self.participants.get(process).copied()
    }

    fn step_recover(
        &self,
        state: &mut State,
        process: usize,
        who: Who,
        level: u8,
        at: RecoverAt,
    ) -> bool {
        use RecoverAt as R;
        let next = match at {
            R::Byte if !state.slots.try_byte(who.slot, process) => {
                state.procs[process].stack.pop();
                return true;
            }
            R::Byte if state.slots.needs_recovery(who) => R::Release(4),
            R::Byte => R::Byteless,
            R::Release(_) | R::Segment(_) | R::Finished(_) | R::Unlock(_) => {
                return self.recover_locks(state, process, who, level, at);
            }
            R::Maps | R::Empty(_) | R::Emptied(_) | R::Recovered | R::MapsDone => {
                return self.recover_maps(state, process, who, level, at);
            }
            R::Generation => {
                state.slots.0[who.slot as usize].generation += 1;
                state.slots.0[who.slot as usize].used = false;
                R::Byteless
            }
            R::Byteless => {
                state.slots.release_byte(who.slot, process);
                state.procs[process].stack.pop();
                return true;
            }
        };
        Self::go(state, process, who, level, next)
    }

    /// Locks whose protected work is redone anyway are let go; segments are recovered one by one.
    fn recover_locks(
        &self,
        state: &mut State,
        process: usize,
        who: Who,
        level: u8,
        at: RecoverAt,
    ) -> bool {
        use RecoverAt as R;
        let bottom = |l: u8| if l > 1 { R::Byteless } else { R::Segment(0) };
        let next = match at {
            R::Release(index) => {
                if state.locks[index as usize] == Some(who) {
                    state.locks[index as usize] = None;
                }
                match (index, level) {
                    (4, 0..=2) => R::Release(3),
                    (3, 0) => R::Release(0),
                    _ => bottom(level),
                }
            }
            R::Segment(2) if level == 0 => R::Maps,
            R::Segment(2) => R::Byteless,
            R::Segment(s) if state.locks[1 + s as usize] != Some(who) => R::Segment(s + 1),
            R::Segment(s) if state.publishing[s as usize] => {
                Self::go(state, process, who, level, R::Finished(s));
                state.procs[process].stack.push(At::Take(who, Lock::Directory));
                return true;
            }
            R::Segment(s) => R::Unlock(s),
            R::Finished(s) => {
                state.locks[Lock::Directory.index()] = None;
                state.publishing[s as usize] = false;
                R::Unlock(s)
            }
            R::Unlock(s) => {
                state.locks[1 + s as usize] = None;
                R::Segment(s + 1)
            }
            _ => unreachable!("{at:?} is not about locks"),
        };
        Self::go(state, process, who, level, next)
    }

    fn recover_maps(
        &self,
        state: &mut State,
        process: usize,
        who: Who,
        level: u8,
        at: RecoverAt,
    ) -> bool {
        use RecoverAt as R;
        let (next, lock) = match at {
            R::Maps if state.making == Some(who) => (R::Recovered, Some(Lock::Names)),
            R::Maps if state.dropping == Some(who) => (R::Empty(0), Some(Lock::Names)),
            R::Maps => (R::Generation, None),
            R::Empty(2) => (R::Recovered, None),
            R::Empty(s) => (R::Emptied(s), Some(Lock::Segment(s))),
            R::Emptied(s) => {
                state.locks[1 + s as usize] = None;
                (R::Empty(s + 1), None)
            }
            R::Recovered => {
                state.making = state.making.filter(|&owner| owner != who);
                state.dropping = state.dropping.filter(|&owner| owner != who);
                (R::MapsDone, None)
            }
            R::MapsDone => {
                state.locks[Lock::Names.index()] = None;
                (R::Generation, None)
            }
            _ => unreachable!("{at:?} is not about maps"),
        };
        Self::go(state, process, who, level, next);
        if let Some(lock) = lock {
            state.procs[process].stack.push(At::Take(who, lock));
        }
        true
    }

    fn step_sweep(state: &mut State, process: usize, slot: u8) -> bool {
        let Some(entry) = state.slots.0.get(slot as usize).copied() else {
            state.procs[process].gone = true;
            return true;
        };
        *state.procs[process].stack.last_mut().expect("it sweeps") = At::Sweep(slot + 1);
        if entry.used && entry.byte.is_none() {
            let who = Who { slot, generation: entry.generation };
            state.procs[process].stack.push(At::Recover(who, 0, RecoverAt::Byte));
        }
        true
    }
}

impl Model for Order {
    type State = State;

    fn initial(&self) -> State {
        let live = self.participants.iter().map(|&s| usize::from(s) + 1).max().unwrap_or(0);
        let mut slots = Slots::new(live);
        for (process, &slot) in self.participants.iter().enumerate().rev() {
            slots.0[slot as usize].byte = Some(u8::try_from(process).expect("few processes"));
        }
        let proc = |p: usize| Proc {
            who: slots.who(self.participants.get(p).map_or(3, |&s| usize::from(s))),
            next: 0,
            gone: p >= self.scripts.len(),
            stack: [if p == SWEEPER { At::Sweep(0) } else { At::Script }].into_iter().collect(),
        };
        let procs = std::array::from_fn(proc);
        State {
            locks: [None; 5],
            making: None,
            dropping: None,
            publishing: [false; 2],
            procs,
            stopped: false,
            late: false,
            slots,
        }
    }

    /// With one that may be stopped, one more who stops it, and one more who ends everybody's
    /// patience.
    fn processes(&self) -> usize {
        self.scripts.len() + if self.stops.is_some() { 2 } else { 0 }
    }

    fn status(&self, state: &State, process: usize) -> Status {
        let gone = match process.checked_sub(self.scripts.len()) {
            Some(0) => state.stopped,
            Some(_) => state.late,
            None => state.procs[process].gone || self.is_stopped(state, process),
        };
        if gone { Status::Gone } else { Status::Running }
    }

    fn step(&self, state: &mut State, process: usize) -> bool {
        if process >= self.scripts.len() && process != SWEEPER {
            let word =
                if process == self.scripts.len() { &mut state.stopped } else { &mut state.late };
            return !std::mem::replace(word, true);
        }
        if self.is_stopped(state, process) {
            return false;
        }
        match *state.procs[process].stack.last().expect("a process does something") {
            At::Script => self.step_script(state, process),
            At::Take(who, lock) => match self.take(state, process, who, lock) {
                Some(moved) => moved,
                None => {
                    state.procs[process].stack.pop();
                    true
                }
            },
            At::Recover(who, level, at) => self.step_recover(state, process, who, level, at),
            At::Sweep(slot) => Self::step_sweep(state, process, slot),
            At::RollBack(next) => self.step_roll_back(state, process, next),
        }
    }

    /// All threads of the process die at once.
    fn kill(&self, state: &mut State, process: usize) -> bool {
        if process >= self.scripts.len() {
            return false;
        }
        let who = state.procs[process].who;
        for p in 0..self.scripts.len() {
            if state.procs[p].who == who {
                state.slots.release_bytes_of(p);
                state.procs[p].gone = true;
                state.procs[p].stack.clear();
                state.procs[p].next = 0;
            }
        }
        true
    }

    fn invariant(&self, state: &State) -> Result<(), String> {
        let named = state.locks.iter().chain([&state.making, &state.dropping]).flatten();
        if let Some(who) = named.copied().find(|&who| state.slots.ended(who)) {
            return Err(format!("{who:?} has ended and is still named"));
        }
        match (0..2).find(|&s| state.publishing[s] && state.locks[1 + s].is_none()) {
            Some(s) => Err(format!("segment {s} is free in the middle of its split")),
            None => Ok(()),
        }
    }

    fn at_rest(&self, state: &State) -> Result<(), String> {
        let mut state = state.clone();
        // Who was stopped ends at some time.
        if let Some(stopped) = (0..self.scripts.len()).find(|&p| self.is_stopped(&state, p)) {
            self.kill(&mut state, stopped);
        }
        state.procs[SWEEPER].gone = false;
        while !state.procs[SWEEPER].gone {
            if !self.step(&mut state, SWEEPER) {
                return Err("the sweeper waits forever".into());
            }
        }
        let left = state.locks.iter().flatten().count() + usize::from(state.publishing[0]);
        if left > 0 || state.publishing[1] || state.making.or(state.dropping).is_some() {
            return Err("something is half done at rest".into());
        }
        Ok(())
    }

    fn describe(&self, state: &State, process: usize) -> String {
        match process.checked_sub(self.scripts.len()) {
            Some(0) => return "somebody is stopped".into(),
            Some(_) => return "patience ends".into(),
            None => {}
        }
        let proc = &state.procs[process];
        match proc.stack.last() {
            Some(At::Script) => {
                let act = self.scripts.get(process).and_then(|s| s.get(usize::from(proc.next)));
                format!("{act:?}")
            }
            at => format!("{at:?}"),
        }
    }
}
