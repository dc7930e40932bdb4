//! What the record model remembers: extents, records, one segment, participants, processes.
//!
//! Invariant: everything outside [`Processes`] and [`Ghost`] is memory of the hold and survives a kill.

use super::At;
use crate::participants::{Slots, Who};
use crate::processes::Processes;

/// Extents of records.
pub const EXTENTS: usize = 2;
/// Records in each extent.
pub const PER_EXTENT: usize = 2;
/// All records.
pub const RECORDS: usize = EXTENTS * PER_EXTENT;
/// Keys; key `k` lives at slot position `k`.
pub const KEYS: usize = 2;
/// What parts of two values make; no key ever has it.
pub const TORN: u8 = 15;
/// Processes, the one that sweeps at the end included.
pub const PROCESSES: usize = 4;

/// A record's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateWord {
    /// Nobody's; implies that the bit is clear.
    Free,
    /// Being written by its owner.
    Writing(Who),
    /// Published, with this sequence.
    Sequence(u8),
    /// Being retired by its owner.
    Retired(Who),
    /// Bytes of another class: its extent was reused for something else.
    Alien,
}

/// A record and its bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The first word.
    pub state_word: StateWord,
    /// The bit in the extent's bitmap.
    pub bit: bool,
    /// The key, readable once published.
    pub key: u8,
    /// The value, readable once published.
    pub value: u8,
}

/// An intent: what a successor must recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Pending {
    /// Stored last, cleared first.
    pub armed: bool,
    /// Slot position.
    pub position: u8,
    /// Slot word before; 0 is empty, else a record's number plus 1.
    pub old: u8,
    /// The old record's sequence.
    pub old_sequence: u8,
    /// Slot word after.
    pub new: u8,
}

/// What a process has besides its script.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Own {
    /// Slot word that it is about to store.
    pub new: u8,
    /// Slot word that it replaces.
    pub old: u8,
    /// Sequence of the record that it replaces.
    pub old_sequence: u8,
    /// Value that it stores again in another record.
    pub copy: u8,
    /// Sequence of the record that it had that value from.
    pub copy_sequence: u8,
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
    /// Whether the participant's lane lists the segment.
    pub listed: [bool; 3],
    /// Owner of each extent.
    pub owners: [Option<Who>; EXTENTS],
    /// All records.
    pub records: [Record; RECORDS],
    /// The segment's lock word.
    pub lock: Option<Who>,
    /// The segment's intent.
    pub pending: Pending,
    /// The segment's slots: 0 is empty, else a record's number plus 1.
    pub words: [u8; KEYS],
    /// Next sequence; how it is made unique is not modelled.
    pub sequence: u8,
    /// The processes.
    pub procs: Processes<At, Own, PROCESSES, 4>,
    /// For the checks.
    pub ghost: Ghost,
}

impl State {
    /// Key 0 is there with value 1, everything else is empty; of `count` processes `live` are participants.
    #[must_use]
    pub fn new(live: usize, count: usize) -> Self {
        let slots = Slots::new(live);
        let empty = Record { state_word: StateWord::Free, bit: false, key: 0, value: 0 };
        let mut records = [empty; RECORDS];
        records[0] = Record { state_word: StateWord::Sequence(1), bit: true, key: 0, value: 1 };
        State {
            listed: [false; 3],
            owners: [None; EXTENTS],
            records,
            lock: None,
            pending: Pending::default(),
            words: [1, 0],
            sequence: 2,
            procs: Processes::new(count, At::Next, |p| slots.who(p.min(2))),
            ghost: Ghost { committed: [1, 0], legal: [0; PROCESSES], illegal: None },
            slots,
        }
    }

    /// The commit point of a write: from now on `key` has `value`.
    pub fn commit(&mut self, key: u8, value: u8, readers: impl Fn(usize) -> Option<u8>) {
        self.ghost.committed[key as usize] = value;
        for p in 0..PROCESSES {
            if readers(p) == Some(key) {
                self.ghost.legal[p] |= 1 << value;
            }
        }
    }
}
