//! What the queue model remembers: ends, rings, holders' words, participants, threads.
//!
//! Invariant: everything outside [`Processes`] and the checks' words is memory of the hold and survives a kill.

use super::At;
use crate::participants::{Slots, Who};
use crate::processes::Processes;
use arrayvec::ArrayVec;

/// Elements, and places in a ring.
pub const ELEMENTS: usize = 2;
/// Named queues; all elements begin in the first, which is the one for orphans.
pub const QUEUES: usize = 2;
/// Threads, the one that sweeps at the end included.
pub const THREADS: usize = 4;
/// Participants.
pub const SLOTS: usize = 4;

/// One end of a named queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct End {
    /// The lock word.
    pub lock: Option<Who>,
    /// Armed if it is ahead of the index.
    pub intent: u8,
    /// Its store commits.
    pub index: u8,
}

/// A lock: of which queue, and of its tail (true) or head.
pub type Lock = (u8, bool);

/// Ids on the move or in flight.
pub type Ids = ArrayVec<u8, ELEMENTS>;

/// What a thread has besides its script.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Own {
    /// What it has in flight.
    pub in_flight: Ids,
    /// What it is moving now: its own, or what it moves for one that it recovers.
    pub moving: Ids,
}

/// Where an element is, by the commits; no thread sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In this ring.
    Ring(u8),
    /// In flight in this participant.
    InFlight(Who),
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The participant table.
    pub slots: Slots<SLOTS>,
    /// What the lane of each thread lists.
    pub lists: [Option<Lock>; THREADS],
    /// Heads and tails.
    pub ends: [[End; 2]; QUEUES],
    /// The entries.
    pub rings: [[u8; ELEMENTS]; QUEUES],
    /// The holders' words.
    pub holders: [Option<Who>; ELEMENTS],
    /// One participant stands still, if the scenario has one that may.
    pub stopped: bool,
    /// Whoever waits now gives up.
    pub late: bool,
    /// The threads.
    pub threads: Processes<At, Own, THREADS, 5>,
    /// The truth.
    pub places: [Place; ELEMENTS],
    /// What went wrong.
    pub wrong: Option<&'static str>,
}

impl State {
    /// All elements in the first queue; `owners` says whose each thread is.
    #[must_use]
    pub fn new(owners: &[u8]) -> Self {
        let slots = Slots::new(SLOTS);
        let who = |n: usize| slots.who(owners.get(n).map_or(SLOTS - 1, |slot| usize::from(*slot)));
        let full = End { lock: None, intent: ELEMENTS as u8, index: ELEMENTS as u8 };
        let mut ends = [[End::default(); 2]; QUEUES];
        ends[0][1] = full;
        State {
            threads: Processes::new(owners.len(), At::Next, who),
            slots,
            lists: [None; THREADS],
            ends,
            rings: [std::array::from_fn(|n| n as u8); QUEUES],
            holders: [None; ELEMENTS],
            stopped: false,
            late: false,
            places: [Place::Ring(0); ELEMENTS],
            wrong: None,
        }
    }

    /// One end.
    pub fn end(&mut self, (queue, tail): Lock) -> &mut End {
        &mut self.ends[usize::from(queue)][usize::from(tail)]
    }

    /// The entry that an index names.
    pub fn entry(&mut self, queue: u8, index: u8) -> &mut u8 {
        &mut self.rings[usize::from(queue)][usize::from(index) % ELEMENTS]
    }

    /// What a push moves: what the thread has in flight, or what the dead has in whose name it acts.
    pub fn take_up(&mut self, thread: usize, who: Who) {
        let held = (0..ELEMENTS as u8).filter(|id| self.holders[usize::from(*id)] == Some(who));
        let own = &self.threads[thread];
        self.threads[thread].own.moving =
            if own.who == who { own.own.in_flight.clone() } else { held.collect() };
    }

    /// The commit of a move: elements must be where they are taken from.
    pub fn commit(&mut self, ids: &[u8], from: Place, to: Place) {
        for id in ids {
            let place = &mut self.places[usize::from(*id)];
            if *place != from {
                self.wrong = Some("an element was moved from where it was not");
            }
            *place = to;
        }
    }
}
