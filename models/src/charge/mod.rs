//! What a cache map is charged with: an addition to a word that all writers change, exact whoever
//! is killed.
//!
//! The total names its last change; who changes it next marks the announcement of that one first; a
//! recoverer asks the total, then the announcement (recoverable compare-and-swap: Attiya,
//! Ben-Baruch, Hendler, PODC 2018). Writers hold segments of their own, so nothing but the totals
//! and the announcements is shared. Each step is one access to shared memory. Names have one bit of
//! an announcement's number, where the code has ten.
//!
//! Invariant: when nobody can move, and the dead are recovered, each total is the sum of what was
//! committed.

pub mod scenarios;

use crate::explorer::{Model, Status};
use crate::scenario::Scenario;

/// The most processes.
pub const PROCESSES: usize = 4;
/// Maps, each with one total.
const MAPS: usize = 2;

/// What a process is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Commits changes, each of which adds to the total of a map.
    Writer(Vec<(u8, i8)>),
    /// Recovers who is dead, until everybody else has ended.
    Recoverer,
}

/// A way to get the protocol wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// A total is changed without marking the announcement that it names.
    Unmarked,
    /// An announcement is marked without a second look at the total.
    NotAgain,
    /// An announcement for another map is marked.
    AnyMap,
    /// A number is announced that the total names already.
    SameNumber,
    /// The addition is done before the commit.
    AddedFirst,
    /// The pending record is disarmed before the addition.
    DisarmedFirst,
    /// A recoverer asks the announcement, then the total.
    AnnouncementFirst,
    /// A recoverer adds without asking.
    NotAsked,
    /// A recoverer adds for a change that is not committed.
    Uncommitted,
}

/// What a process is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Look at the total's name; choose a number.
    Look,
    /// Store the announcement.
    Announce,
    /// Arm the pending record.
    Arm,
    /// Commit.
    Commit,
    /// Load the total.
    Load,
    /// Load the announcement that it names.
    Named,
    /// Look at the total again.
    Again,
    /// Mark the announcement.
    Mark,
    /// Change the total.
    Swap,
    /// Disarm.
    Disarm,
    /// Recoverer: take the byte of somebody dead.
    Byte,
    /// Look whether the change is armed and committed.
    Ask,
    /// Look whether the total names it.
    AskTotal,
    /// Look whether the announcement is marked.
    AskAnnouncement,
    /// The end of a recovery.
    Recovered,
    /// Nothing is left.
    Done,
}

/// Amount, and the last change: process and the low bit of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Total {
    amount: i8,
    name: (u8, u8),
}

/// An addition that is going to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Announcement {
    done: bool,
    map: u8,
    by: i8,
    number: u8,
}

/// A process: the private state that a kill destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Proc {
    at: At,
    change: u8,
    number: u8,
    seen: Total,
    named: Announcement,
    /// Whom it recovers.
    recovering: Option<u8>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    totals: [Total; MAPS],
    announced: [Announcement; PROCESSES],
    /// Pending records: armed, and whether the slot has changed.
    armed: [bool; PROCESSES],
    committed: [bool; PROCESSES],
    dead: [bool; PROCESSES],
    recovered: [bool; PROCESSES],
    /// Who recovers whom.
    bytes: [Option<u8>; PROCESSES],
    /// What was committed, for the checks.
    sums: [i8; MAPS],
    procs: [Proc; PROCESSES],
}

/// A scenario: a role for each process.
pub type Charging = Scenario<Role, Break>;

impl Charging {
    /// The change that a writer is at.
    fn change(&self, state: &State, process: usize) -> Option<(u8, i8)> {
        match &self.parts[process] {
            Role::Writer(changes) => changes.get(usize::from(state.procs[process].change)).copied(),
            Role::Recoverer => None,
        }
    }

    /// In whose name a process adds, and what.
    fn adding(state: &State, process: usize) -> (usize, Announcement) {
        let who = state.procs[process].recovering.map_or(process, usize::from);
        (who, state.announced[who])
    }

    /// Behind the change of the total.
    fn added(&self, state: &State, process: usize) -> At {
        match state.procs[process].recovering {
            Some(_) => At::Recovered,
            None if self.breaks(Break::AddedFirst) => At::Commit,
            None if self.breaks(Break::DisarmedFirst) => self.next_change(state, process),
            None => At::Disarm,
        }
    }

    fn next_change(&self, state: &State, process: usize) -> At {
        let Role::Writer(changes) = &self.parts[process] else { return At::Byte };
        let next = usize::from(state.procs[process].change) + 1;
        if next < changes.len() { At::Look } else { At::Done }
    }

    fn step_change(&self, state: &mut State, process: usize) {
        let Some((map, by)) = self.change(state, process) else { return };
        let number = state.procs[process].number;
        state.procs[process].at = match state.procs[process].at {
            At::Look => {
                let next = state.announced[process].number + 1;
                let is_named = state.totals[usize::from(map)].name == (process as u8, next % 2);
                let skips = is_named && !self.breaks(Break::SameNumber);
                state.procs[process].number = next + u8::from(skips);
                At::Announce
            }
            At::Announce => {
                state.announced[process] = Announcement { done: false, map, by, number };
                At::Arm
            }
            At::Arm => {
                state.armed[process] = true;
                state.committed[process] = false;
                if self.breaks(Break::AddedFirst) { At::Load } else { At::Commit }
            }
            At::Commit => {
                state.committed[process] = true;
                state.sums[usize::from(map)] += by;
                match self.broken {
                    Some(Break::AddedFirst | Break::DisarmedFirst) => At::Disarm,
                    _ => At::Load,
                }
            }
            _ => {
                state.armed[process] = false;
                let behind = self.next_change(state, process);
                if self.breaks(Break::DisarmedFirst) {
                    At::Load
                } else {
                    state.procs[process].change += 1;
                    behind
                }
            }
        };
    }

    fn step_addition(&self, state: &mut State, process: usize) {
        let (who, own) = Self::adding(state, process);
        let total = state.totals[usize::from(own.map)];
        let Proc { at, seen, named, .. } = state.procs[process];
        let last = usize::from(seen.name.0);
        state.procs[process].at = match at {
            At::Load => {
                state.procs[process].seen = total;
                let is_own = usize::from(total.name.0) == who;
                if is_own || self.breaks(Break::Unmarked) { At::Swap } else { At::Named }
            }
            At::Named => {
                let found = state.announced[last];
                state.procs[process].named = found;
                let is_it = !found.done
                    && (found.map == own.map || self.breaks(Break::AnyMap))
                    && found.number % 2 == seen.name.1;
                match is_it {
                    true if self.breaks(Break::NotAgain) => At::Mark,
                    true => At::Again,
                    false => At::Swap,
                }
            }
            At::Again => {
                if total == seen {
                    At::Mark
                } else {
                    At::Load
                }
            }
            At::Mark => {
                if state.announced[last] == named {
                    state.announced[last].done = true;
                }
                At::Swap
            }
            _ if total != seen => At::Load,
            _ => {
                let name = (who as u8, own.number % 2);
                let total = Total { amount: seen.amount + own.by, name };
                state.totals[usize::from(own.map)] = total;
                let next = self.added(state, process);
                if self.breaks(Break::DisarmedFirst) && state.procs[process].recovering.is_none() {
                    state.procs[process].change += 1;
                }
                next
            }
        };
    }

    /// False if there is nobody to recover yet.
    fn step_recovery(&self, state: &mut State, process: usize) -> bool {
        let Some(dead) = state.procs[process].recovering.map(usize::from) else {
            let found = (0..self.parts.len())
                .find(|&p| state.dead[p] && !state.recovered[p] && state.bytes[p].is_none());
            if let Some(found) = found {
                state.bytes[found] = Some(process as u8);
                state.procs[process].recovering = Some(found as u8);
                state.procs[process].at = At::Ask;
                return true;
            }
            let ended =
                |p: usize| self.parts[p] == Role::Recoverer || state.procs[p].at == At::Done;
            let over = (0..self.parts.len()).all(ended);
            state.procs[process].at = if over { At::Done } else { At::Byte };
            return over;
        };
        let own = state.announced[dead];
        let is_named = || state.totals[usize::from(own.map)].name == (dead as u8, own.number % 2);
        let reversed = self.breaks(Break::AnnouncementFirst);
        state.procs[process].at = match state.procs[process].at {
            At::Ask => {
                let committed = state.committed[dead] || self.breaks(Break::Uncommitted);
                match state.armed[dead] && committed {
                    false => At::Recovered,
                    true if self.breaks(Break::NotAsked) => At::Load,
                    true if reversed => At::AskAnnouncement,
                    true => At::AskTotal,
                }
            }
            At::AskTotal if is_named() => At::Recovered,
            At::AskTotal => {
                if reversed {
                    At::Load
                } else {
                    At::AskAnnouncement
                }
            }
            At::AskAnnouncement if own.done => At::Recovered,
            At::AskAnnouncement => {
                if reversed {
                    At::AskTotal
                } else {
                    At::Load
                }
            }
            _ => {
                state.armed[dead] = false;
                state.recovered[dead] = true;
                state.bytes[dead] = None;
                state.procs[process].recovering = None;
                At::Byte
            }
        };
        true
    }
}

impl Model for Charging {
    type State = State;

    fn initial(&self) -> State {
        let total = Total { amount: 0, name: (0, 0) };
        let proc = |p: usize| Proc {
            at: match self.parts.get(p) {
                Some(Role::Writer(_)) => At::Look,
                Some(Role::Recoverer) => At::Byte,
                None => At::Done,
            },
            change: 0,
            number: 0,
            seen: total,
            named: Announcement::default(),
            recovering: None,
        };
        State {
            totals: [total; MAPS],
            announced: [Announcement::default(); PROCESSES],
            armed: [false; PROCESSES],
            committed: [false; PROCESSES],
            dead: [false; PROCESSES],
            recovered: [false; PROCESSES],
            bytes: [None; PROCESSES],
            sums: [0; MAPS],
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
        use At::{Again, Announce, Arm, Commit, Disarm, Load, Look, Mark, Named, Swap};
        match state.procs[process].at {
            Load | Named | Again | Mark | Swap => self.step_addition(state, process),
            Look | Announce | Arm | Commit | Disarm => self.step_change(state, process),
            _ => return self.step_recovery(state, process),
        }
        true
    }

    /// Its byte is given up by the kernel, and so is that of whom it was recovering.
    fn kill(&self, state: &mut State, process: usize) -> bool {
        if let Some(dead) = state.procs[process].recovering {
            state.bytes[usize::from(dead)] = None;
        }
        state.dead[process] = true;
        state.procs[process].recovering = None;
        state.procs[process].at = At::Done;
        true
    }

    fn invariant(&self, _: &State) -> Result<(), String> {
        Ok(())
    }

    fn at_rest(&self, state: &State) -> Result<(), String> {
        let mut state = state.clone();
        // Somebody comes along and recovers who is left.
        let last = self.parts.len() - 1;
        state.procs[last].at = At::Byte;
        while (0..self.parts.len()).any(|p| state.dead[p] && !state.recovered[p]) {
            self.step(&mut state, last);
        }
        for (total, sum) in state.totals.iter().zip(state.sums) {
            if total.amount != sum {
                return Err(format!("charged with {}, should be {sum}", total.amount));
            }
        }
        Ok(())
    }

    fn describe(&self, state: &State, process: usize) -> String {
        match state.procs[process].recovering {
            Some(dead) => format!("for {dead}: {:?}", state.procs[process].at),
            None => format!("{:?}", state.procs[process].at),
        }
    }
}
