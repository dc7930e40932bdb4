//! What the lock model remembers: the word, who sleeps on it, participants, processes.
//!
//! Invariant: everything outside [`Processes`], the sleepers and `wrong` is memory of the hold and survives a kill.

use super::At;
use crate::participants::{Slots, Who};
use crate::processes::Processes;
use arrayvec::ArrayVec;

/// Processes, the one that sweeps at the end included.
pub const PROCESSES: usize = 5;
/// Participants; the last slot is that of the sweeper at the end.
pub const SLOTS: usize = 4;

/// The lock word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Word {
    /// Its owner, if any.
    pub owner: Option<Who>,
    /// Whether somebody may be asleep.
    pub waiters: bool,
}

/// The word of a slot: the generation that was found dead, and who recovers it.
pub type Said = Option<(u8, Option<Who>)>;

/// What a process did that it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// It entered while another one was inside or had left a change half done.
    Entered,
    /// It released a lock that was not its own.
    Released,
}

impl Wrong {
    pub(super) fn words(self) -> &'static str {
        match self {
            Wrong::Entered => "entered while another one's change was half done",
            Wrong::Released => "released a lock that was not its own",
        }
    }
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The participant table.
    pub slots: Slots<SLOTS>,
    /// Who recovers the slots' holders.
    pub said: [Said; SLOTS],
    /// Whether the participant's lane lists the lock.
    pub listed: [bool; SLOTS],
    /// The lock word.
    pub word: Word,
    /// What the lock protects: who has a change half done.
    pub dirty: Option<Who>,
    /// The kernel's queue of sleepers on the word.
    pub sleepers: ArrayVec<u8, PROCESSES>,
    /// The processes.
    pub procs: Processes<At, (), PROCESSES, 3>,
    /// Whether the process that may be stopped is.
    pub stopped: bool,
    /// Whether patience has ended.
    pub late: bool,
    /// What went wrong, and who did it.
    pub wrong: Option<(u8, Wrong)>,
}

impl State {
    /// The lock is free; of `count` processes `live` are participants.
    #[must_use]
    pub fn new(live: usize, count: usize) -> Self {
        let slots = Slots::new(live);
        State {
            said: [None; SLOTS],
            listed: [false; SLOTS],
            word: Word::default(),
            dirty: None,
            sleepers: ArrayVec::new(),
            procs: Processes::new(count, At::Next, |p| slots.who(p.min(SLOTS - 1))),
            stopped: false,
            late: false,
            wrong: None,
            slots,
        }
    }

    /// Notes what `process` must not have done.
    pub fn blame(&mut self, process: usize, wrong: Wrong) {
        self.wrong = Some((u8::try_from(process).expect("few processes"), wrong));
    }

    /// Ends a process at once.
    pub fn kill(&mut self, process: usize) {
        self.slots.release_bytes_of(process);
        self.sleepers.retain(|p| usize::from(*p) != process);
        self.procs[process].kill();
    }

    /// # Errors
    /// What has gone wrong.
    pub fn judge(&self) -> Result<(), String> {
        if let Some(wrong) = self.wrong {
            return Err(format!("P{} {}", wrong.0, wrong.1.words()));
        }
        match self.word.owner.into_iter().chain(self.dirty).find(|&who| self.slots.ended(who)) {
            Some(who) => Err(format!("{who:?} has ended and is still named")),
            None => Ok(()),
        }
    }

    /// Begins a change as `who`.
    pub fn enter(&mut self, process: usize, who: Who) {
        // Who acts as the dead finds their change half done, and goes on with it.
        if self.dirty.is_some_and(|other| other != who) {
            self.blame(process, Wrong::Entered);
        }
        self.dirty = Some(who);
    }

    /// Ends a change as `who`.
    pub fn leave(&mut self, process: usize, who: Who) {
        if self.dirty != Some(who) {
            self.blame(process, Wrong::Entered);
        }
        self.dirty = None;
    }

    /// Swaps the word for 0 as `who`. Returns whether somebody may be asleep.
    pub fn release(&mut self, process: usize, who: Who) -> bool {
        if self.word.owner != Some(who) {
            self.blame(process, Wrong::Released);
        }
        std::mem::take(&mut self.word).waiters
    }

    /// The kernel wakes who has slept longest.
    pub fn wake_one(&mut self) {
        if !self.sleepers.is_empty() {
            let process = self.sleepers.remove(0);
            self.procs.go(usize::from(process), super::LockAt::Look);
        }
    }

    /// Who recovers `who` and lives.
    pub fn recoverer(&self, who: Who) -> Option<Who> {
        match self.said[who.slot as usize] {
            Some((generation, Some(by))) if generation == who.generation && !self.died(by) => {
                Some(by)
            }
            _ => None,
        }
    }

    /// Whether `who` has died, somebody perhaps recovering it.
    fn died(&self, who: Who) -> bool {
        let said = self.said[who.slot as usize].map(|(generation, _)| generation);
        said == Some(who.generation) || !self.slots.alive(who)
    }

    /// Whether nobody has the byte of `who`, and it is not recovered.
    #[must_use]
    pub fn left(&self, who: Who) -> bool {
        self.slots.needs_recovery(who) && self.slots.0[who.slot as usize].byte.is_none()
    }

    /// One store: the generation after this one, not in use.
    pub fn end_generation(&mut self, slot: usize) {
        self.slots.0[slot].generation += 1;
        self.slots.0[slot].used = false;
    }
}
