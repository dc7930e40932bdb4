//! The layout of a channel in its block: a line for each word that one side changes and another
//! reads, cursor lines, the ring.
//!
//! Positions count bytes from the channel's beginning and never wrap; a ring's byte is a position
//! modulo its size. Every stored position is a multiple of 8 at which a frame begins.

use crate::sync::event::Event;
use crate::sync::owner::Owner;
use crate::sync::space::Shared;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The most consumers of a channel at a time, lossy ones included.
pub(super) const LINES: usize = 64;
/// Bytes from one cursor line to the next: processors fetch lines in pairs.
pub(super) const LINE_STEP: u64 = 128;
/// Offset of the cursor lines.
pub(super) const LINES_OFFSET: u64 = 1024;
/// Offset of the ring.
pub(super) const RING_OFFSET: u64 = 12288;
/// Positions and sequences beyond this are damage.
pub(super) const LAST: u64 = 1 << 62;

/// The words before the cursor lines.
#[repr(C)]
pub(super) struct Head {
    /// Bytes of the ring, a power of two. Never changes.
    pub(super) ring_bytes: AtomicU64,
    spare: [AtomicU64; 15],
    /// The [`Owner`] of the producer; 0 for none.
    pub(super) producer: AtomicU64,
    spare2: [AtomicU64; 15],
    /// The number of moves of the mark; the mark is `marks[moves % 2]`.
    moves: AtomicU64,
    marks: [MarkWords; 2],
    /// The producer does not write at or after it without looking at the cursors again. Never
    /// decreases.
    pub(super) write_limit: AtomicU64,
    spare3: [AtomicU64; 10],
    /// Consumers wait for messages.
    pub(super) messages: Event,
    spare4: [AtomicU64; 15],
    /// The producer waits for room.
    pub(super) room: Event,
    spare5: [AtomicU64; 15],
    /// All cursor lines that were ever used have numbers below this.
    pub(super) lines_used: AtomicU32,
    spare6: [AtomicU32; 31],
}

#[repr(C)]
struct MarkWords {
    position: AtomicU64,
    sequence: AtomicU64,
}

/// A consumer's line.
#[repr(C)]
pub(super) struct Line {
    /// See [`Word`].
    pub(super) word: AtomicU64,
    /// Everything before it has been read.
    pub(super) cursor: AtomicU64,
    /// The message expected there.
    pub(super) sequence: AtomicU64,
    /// Messages missed, by a lossy consumer.
    pub(super) missed: AtomicU64,
    /// How long the producer waits for a patient consumer.
    pub(super) patience_ms: AtomicU64,
    spare: [AtomicU64; 3],
}

const _: () = assert!(size_of::<Head>() == 768 && size_of::<Line>() == 64);
const _: () = assert!(size_of::<Head>() as u64 <= LINES_OFFSET);
const _: () = assert!(LINES_OFFSET + LINES as u64 * LINE_STEP <= RING_OFFSET);

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Head {}
// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Line {}

/// The use of a cursor line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Free,
    /// Its cursor does not count yet.
    Claiming,
    Lossless,
    Patient,
    Lossy,
    /// A patient consumer that was too slow and was dropped.
    Dropped,
    /// Damage.
    Unknown,
}

/// The word of a line: owner in the low 32 bits, use in the next 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    pub(super) const FREE: Word = Word(0);

    pub(super) fn new(kind: Use, owner: Owner) -> Word {
        Word((kind as u64) << 32 | u64::from(owner.bits()))
    }

    #[inline]
    pub(super) fn kind(self) -> Use {
        match self.0 >> 32 {
            0 => Use::Free,
            1 => Use::Claiming,
            2 => Use::Lossless,
            3 => Use::Patient,
            4 => Use::Lossy,
            5 => Use::Dropped,
            _ => Use::Unknown,
        }
    }

    pub(super) fn owner(self) -> Option<Owner> {
        Owner::from_bits(self.0 as u32)
    }

    /// True if the producer waits for it.
    #[inline]
    pub(super) fn counts(self) -> bool {
        matches!(self.kind(), Use::Lossless | Use::Patient)
    }
}

/// A message that was sent a while ago, or the next one: a starting point for a walk over the
/// headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) position: u64,
    pub(super) sequence: u64,
}

impl Head {
    /// The mark; `None` if its values are impossible.
    pub(super) fn mark(&self) -> Option<Mark> {
        // A producer moves the mark every few thousand bytes, so this rarely takes many attempts.
        for _ in 0..1 << 20 {
            // Acquire: pairs with the release in `set_mark`.
            let moves = self.moves.load(Ordering::Acquire);
            let words = &self.marks[(moves & 1) as usize];
            // Relaxed: the fence below orders them before the second look.
            let position = words.position.load(Ordering::Relaxed);
            let sequence = words.sequence.load(Ordering::Relaxed);
            // Pairs with the release fence in `set_mark`.
            fence(Ordering::Acquire);
            if self.moves.load(Ordering::Relaxed) == moves {
                let sound = position.max(sequence) <= LAST && position.is_multiple_of(8);
                return sound.then_some(Mark { position, sequence });
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Moves the mark. Only the producer calls this. A kill at any instant leaves the old mark or
    /// the new one.
    pub(super) fn set_mark(&self, mark: Mark) {
        // Relaxed: only the producer stores it.
        let moves = self.moves.load(Ordering::Relaxed).wrapping_add(1);
        let words = &self.marks[(moves & 1) as usize];
        // The previous move comes first: a reader that still reads the older mark in this place
        // notices. Pairs with the acquire fence in `mark`.
        fence(Ordering::Release);
        words.position.store(mark.position, Ordering::Relaxed);
        words.sequence.store(mark.sequence, Ordering::Relaxed);
        crate::steps::step!("channel.mark-written");
        // Release: the mark is whole; pairs with the acquire in `mark`.
        self.moves.store(moves, Ordering::Release);
        crate::steps::step!("channel.marked");
    }

    /// The number of lines to check.
    pub(super) fn lines_used(&self) -> usize {
        (self.lines_used.load(Ordering::Acquire) as usize).min(LINES)
    }
}
