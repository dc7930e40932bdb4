//! Everything that the channel's model knows: the ring, its other words, the state of each process, and what is remembered
//! only to check.
//!
//! Invariant: positions count cells from the beginning of time; a ring's cell is a position modulo [`RING`].

use arrayvec::ArrayVec;

/// Cells of the ring. A header takes one, and so does each part of a message.
pub const RING: u8 = 4;
/// Lines for cursors.
pub const LINES: usize = 2;
/// Processes at most.
pub const PROCESSES: usize = 5;
/// Messages at most.
pub const MESSAGES: usize = 6;

/// What a cell of the ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    /// No header.
    Zero,
    /// The header of a message.
    Head(u8),
    /// The header of a filler up to the end of the ring.
    Filler,
    /// A part of a message: bytes that may look like any header.
    Body(u8),
}

/// How a cursor line is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// By nobody.
    Free,
    /// Claimed; its cursor counts for nothing yet.
    Claiming,
    /// Its cursor holds the producer back.
    Counts,
    /// Its consumer was too slow and counts no more.
    Dropped,
}

/// A cursor line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// How it is used, and the process that claimed it; changed by compare-and-swap.
    pub word: (Use, u8),
    /// Everything before it has been read.
    pub cursor: u8,
}

/// What a process is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Nothing more.
    Done,
    /// Successor: take over from a dead producer.
    TakeOver,
    /// Walk the headers from the mark.
    Walk,
    /// Store the mark after a takeover.
    WalkEnd,
    /// Decide what is written next.
    Next,
    /// Store mark, then write limit.
    Mark,
    /// Look at a line's word; the scan before the write limit is stored (false) or after it (true).
    Word(u8, bool),
    /// Look at a line's cursor.
    Cursor(u8, bool),
    /// Store the write limit.
    WriteLimit,
    /// Decide by what the second scan found.
    Verdict,
    /// No room: wait, or drop a patient consumer.
    Wait,
    /// Write a part of the message.
    Body(u8),
    /// Zero the header after it.
    Zero,
    /// Release its header.
    Head,
    /// (broken) Zero the header after it, too late.
    LateZero,
    /// (broken) Store the write limit after the bytes.
    LateWriteLimit,
    /// (broken) Take the write limit of a cancelled reservation back.
    TakeBack,
    /// Consumer: claim a line.
    Claim,
    /// Read the mark or the write limit to begin from.
    Begin,
    /// Store the cursor.
    Store,
    /// Let the line count.
    Count,
    /// Read the write limit again.
    Again,
    /// Read the header.
    Poll,
    /// Copy a part of the message; the n-th, if what was copied is right so far.
    Copy(u8, bool),
    /// See whether it was overwritten meanwhile, and take it.
    Take(bool),
    /// Store the cursor.
    Publish,
    /// Give the line back.
    Leave,
}

/// A process: the private state that a kill destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Proc {
    /// Its next step.
    pub at: At,
    /// Where it writes or reads.
    pub position: u8,
    /// The message that it writes or expects.
    pub message: u8,
    /// Producer: how far it may write. Consumer: messages taken.
    pub allowance: u8,
    /// Producer: the least cursor of a scan. Consumer: its line.
    pub least: u8,
    /// Producer: what it writes is cancelled. Consumer: it walks to the end and takes nothing yet.
    pub walks: bool,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The ring.
    pub ring: [Cell; RING as usize],
    /// A header with its message, stored now and then: where a successor begins.
    pub mark: (u8, u8),
    /// Nobody writes at or behind it without looking at the cursors again.
    pub write_limit: u8,
    /// Cursor lines.
    pub lines: [Line; LINES],
    /// Processes.
    pub procs: [Proc; PROCESSES],
    /// Who was killed.
    pub dead: [bool; PROCESSES],
    /// Where each released message begins.
    pub released: ArrayVec<u8, MESSAGES>,
    /// Whether the one cancelled reservation is behind us.
    pub cancelled: bool,
    /// What went wrong first.
    pub wrong: Option<&'static str>,
}

impl State {
    /// The cell at a position.
    #[must_use]
    pub fn cell(&self, position: u8) -> Cell {
        self.ring[usize::from(position % RING)]
    }

    /// Changes the cell at a position.
    pub fn set(&mut self, position: u8, cell: Cell) {
        self.ring[usize::from(position % RING)] = cell;
    }

    /// Remembers what went wrong.
    pub fn blame(&mut self, what: &'static str) {
        self.wrong = self.wrong.or(Some(what));
    }
}
