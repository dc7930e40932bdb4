//! What the split model remembers: a directory, segments, participants, processes.
//!
//! Invariant: everything outside [`Processes`] and [`Ghost`] is memory of the hold and survives a kill.

use super::At;
use crate::participants::{Slots, Who};
use crate::processes::Processes;

/// The directory never grows beyond this depth.
pub const MAX_DEPTH: u8 = 3;
/// Segments in the hold; number 0 stands for "no segment".
pub const SEGMENTS: usize = 6;
/// Keys; key `k` lives at position `k` of whichever segment it is in.
pub const KEYS: usize = 3;
/// Hashes of the keys: all in the first segment, the first two also after its first split.
pub const HASHES: [u8; KEYS] = [0b010, 0b110, 0b000];
/// Processes, the one that sweeps at the end included.
pub const PROCESSES: usize = 4;

/// Who a segment's memory belongs to (the record protocol, shortened).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateWord {
    /// Nobody's.
    Free,
    /// Being made by its owner.
    Writing(Who),
    /// In use.
    Live,
    /// Being given back by its owner.
    Retired(Who),
}

/// The phase word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No split.
    None,
    /// The child is being filled; a successor rolls it back.
    Copying(u8),
    /// The directory is being changed; a successor goes on.
    Publishing(u8),
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Owner of the extent that the segment is in; one segment an extent here.
    pub owner: Option<Who>,
    /// Its first word.
    pub state_word: StateWord,
    /// Its lock word.
    pub lock: Option<Who>,
    /// Its phase; one word with `local`.
    pub phase: Phase,
    /// How many hash bits all of its keys share.
    pub local: u8,
    /// Those bits.
    pub prefix: u8,
    /// Value of each key, 0 if absent.
    pub values: [u8; KEYS],
}

/// What a participant's lane lists: the locks that it may hold. 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Lane {
    /// The segment.
    pub segment: u8,
    /// The child of its split.
    pub child: u8,
}

/// What a process has besides its script.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Own {
    /// Segment that it found.
    pub segment: u8,
    /// Child that it makes.
    pub child: u8,
    /// Depth that it read.
    pub depth: u8,
}

/// What the checks must remember; no process sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ghost {
    /// Last committed value of each key, 0 if absent.
    pub committed: [u8; KEYS],
    /// For each process that is reading: a bit for each value that its key had since it began.
    pub legal: [u16; PROCESSES],
    /// A reader returned something else: (process, value).
    pub illegal: Option<(u8, u8)>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The participant table.
    pub slots: Slots<3>,
    /// What the participants' lanes list.
    pub lanes: [Lane; 3],
    /// The directory's lock word.
    pub directory_lock: Option<Who>,
    /// The global depth.
    pub depth: u8,
    /// The directory's chunks, one after the other; 0 means "drop the top bit".
    pub entries: [u8; 1 << MAX_DEPTH],
    /// All segments; number 0 is never used.
    pub segments: [Segment; SEGMENTS],
    /// The next wait for a lock fails.
    pub fault: bool,
    /// The processes.
    pub procs: Processes<At, Own, PROCESSES, 5>,
    /// For the checks.
    pub ghost: Ghost,
}

impl State {
    /// Depth 1, all keys in segment 1 (even hashes), none in segment 2; the chunks that are not in use
    /// yet hold garbage.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let slots = Slots::new(count);
        let free = Segment {
            owner: None,
            state_word: StateWord::Free,
            lock: None,
            phase: Phase::None,
            local: 0,
            prefix: 0,
            values: [0; KEYS],
        };
        let mut segments = [free; SEGMENTS];
        segments[1] = Segment { state_word: StateWord::Live, local: 1, values: [1, 2, 3], ..free };
        segments[2] = Segment { state_word: StateWord::Live, local: 1, prefix: 1, ..free };
        State {
            lanes: [Lane::default(); 3],
            directory_lock: None,
            depth: 1,
            entries: [1, 2, 2, 2, 2, 2, 2, 2],
            segments,
            fault: false,
            procs: Processes::new(count, At::Next, |p| slots.who(p.min(2))),
            ghost: Ghost { committed: [1, 2, 3], legal: [0; PROCESSES], illegal: None },
            slots,
        }
    }

    /// The segment with this number.
    pub fn segment(&mut self, number: u8) -> &mut Segment {
        &mut self.segments[number as usize]
    }

    /// What a lookup would find if it saw everything at once: the segment for a hash.
    #[must_use]
    pub fn resolve(&self, hash: u8) -> u8 {
        let found = (0..=self.depth).rev().map(|bits| self.entries[index(hash, bits)]);
        found.into_iter().find(|&number| number != 0).unwrap_or(0)
    }
}

/// The directory entry for `hash` at depth `bits`.
#[must_use]
pub fn index(hash: u8, bits: u8) -> usize {
    usize::from(hash) & ((1 << bits) - 1)
}
