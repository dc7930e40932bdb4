//! How far the producer may write.
//!
//! The **write limit** in the hold is the furthest position that the producer may write without
//! looking at the cursors again: a frame boundary plus one ring. Before it writes beyond, it moves
//! the mark to its own position, stores a larger write limit, and after a full fence looks at all
//! cursors *again*. A joiner stores its cursor and after a full fence reads the write limit, so one
//! of the two sees the other. If the producer then finds a smaller cursor, it waits. The write
//! limit never decreases, and it is stored before any byte that it allows. It is therefore also the
//! claim that lossy consumers compare with after they have copied, and the oldest message kept
//! begins one ring before it.
//!
//! The write limit moves by at most an eighth of the ring where nobody holds it back, so that older
//! messages stay for joiners that read them. Dead consumers are skipped. The producer writes to no
//! other participant's line, with one exception: it drops a patient consumer that is alive by a
//! compare-and-swap of its word.

use crate::channel::bound::Bound;
use crate::channel::frame::HEADER;
use crate::channel::layout::{LINES, Mark, Use, Word};
use crate::channel::options::Peer;
use crate::channel::takeover::Begin;
use crate::os::clock;
use crate::steps::step;
use crate::sync::participant;
use std::collections::VecDeque;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// The number of frame boundaries known per lap.
pub(super) const KEPT: u64 = 8;
/// The largest distance of the mark behind the producer.
const MARK_BYTES: u64 = 64 << 10;
/// The shortest time between two questions whether a consumer is alive.
const ASK_NS: u64 = 1_000_000;

/// The producer's notes about a line that was in its way.
#[derive(Clone, Copy, Default)]
struct Doubt {
    /// Found dead, which is final.
    dead: u64,
    /// The time of the last question whether the consumer is alive.
    asked_ns: u64,
    /// Word, cursor, and the time since which they have been in the way.
    in_way: (u64, u64, u64),
}

/// How far the producer may write; private memory.
pub(super) struct WriteLimit {
    /// The next position at which something has to be done first.
    pub(super) stop: u64,
    allowance: u64,
    marked: u64,
    /// Earlier frame boundaries, an eighth of a ring apart.
    kept: VecDeque<u64>,
    doubts: [Doubt; LINES],
    /// The consumer that was in the way last.
    pub(super) waits_for: Option<Peer>,
    /// When the first patient consumer in the way will be dropped, on the monotonic clock.
    patience_ends_ns: Option<u64>,
}

impl WriteLimit {
    /// For a producer that has just moved the mark to its position.
    pub(super) fn new(Begin { end, kept }: Begin) -> WriteLimit {
        let position = end.position;
        WriteLimit {
            stop: position,
            allowance: position,
            marked: position,
            kept,
            doubts: [Doubt::default(); LINES],
            waits_for: None,
            patience_ends_ns: None,
        }
    }

    /// Makes room up to `end` and the header after it, without waiting. False if a consumer is in
    /// the way.
    pub(super) fn make(&mut self, bound: &Bound, now: Mark, end: u64) -> bool {
        let need = end + HEADER;
        if now.position != self.marked {
            bound.head().set_mark(now);
            self.marked = now.position;
        }
        let stride = bound.ring.size() / KEPT;
        if self.kept.back().is_none_or(|last| now.position >= last + stride) {
            self.kept.push_back(now.position);
        }
        while need > self.allowance {
            self.raise(bound, now.position, need);
            if need > self.allowance && !self.clear_the_way(bound, need) {
                return false;
            }
        }
        let next_mark = now.position + stride.min(MARK_BYTES);
        // A message may be longer than the distance to the next mark.
        self.stop = self.allowance.min(next_mark.max(need));
        self.waits_for = None;
        true
    }

    /// Looks at the cursors, moves the write limit, looks again.
    fn raise(&mut self, bound: &Bound, position: u64, need: u64) {
        let (head, size) = (bound.head(), bound.ring.size());
        let least = self.least_cursor(bound, position);
        // Relaxed: only the producer stores it.
        let write_limit = head.write_limit.load(Ordering::Relaxed);
        let wanted = write_limit.max(self.frame_boundary(least, position, need, size) + size);
        if wanted > write_limit {
            // Release: the mark comes before the write limit that needs it; pairs with the acquire
            // of joiners.
            head.write_limit.store(wanted, Ordering::Release);
            step!("channel.limited");
        }
        // The write limit before the cursors; pairs with the fence of joiners. It also comes before
        // every byte that it allows; pairs with the acquire fence of lossy consumers.
        fence(Ordering::SeqCst);
        let least = self.least_cursor(bound, position);
        self.allowance = self.allowance.max(wanted.min(least + size));
        step!("channel.scanned");
        while self.kept.front().is_some_and(|kept| kept + size < wanted) {
            self.kept.pop_front();
        }
    }

    /// The frame boundary one ring before the new write limit: as far back as `need` permits, and
    /// some more.
    fn frame_boundary(&self, least: u64, position: u64, need: u64, size: u64) -> u64 {
        let wanted = (need + size / KEPT).min(position + size);
        let kept = self.kept.iter().find(|kept| **kept + size >= wanted);
        kept.map_or(least, |kept| least.min(*kept))
    }

    /// The least cursor that counts, including the producer's own position.
    fn least_cursor(&self, bound: &Bound, position: u64) -> u64 {
        let mut least = position;
        for number in 0..bound.head().lines_used() {
            let line = bound.line(number);
            // Acquire: a cursor that counts was stored before; pairs with the release of joiners.
            let word = Word(line.word.load(Ordering::Acquire));
            if word.counts() && word.0 != self.doubts[number].dead {
                // Acquire: everything before it has been read; pairs with the release in
                // `Consumer::publish`.
                least = least.min(line.cursor.load(Ordering::Acquire));
            }
        }
        least
    }

    /// Finds a consumer in the way. True if one of them no longer counts; false if the producer has
    /// to wait for one.
    fn clear_the_way(&mut self, bound: &Bound, need: u64) -> bool {
        let now = clock::monotonic_ns();
        let mut cleared = false;
        self.waits_for = None;
        self.patience_ends_ns = None;
        for number in 0..bound.head().lines_used() {
            let line = bound.line(number);
            let word = Word(line.word.load(Ordering::Acquire));
            let cursor = line.cursor.load(Ordering::Acquire);
            let in_way = cursor.saturating_add(bound.ring.size()) < need;
            if !word.counts() || !in_way || word.0 == self.doubts[number].dead {
                continue;
            }
            if self.is_dead(bound, number, word, cursor, now) {
                cleared = true;
            } else if self.has_no_patience(bound, number, word, now) {
                step!("channel.dropped");
                cleared = true;
            } else if let Some(owner) = word.owner() {
                self.waits_for = self.waits_for.or(Some(bound.peer(owner)));
            }
        }
        // A consumer may have moved meanwhile: then nobody was in the way.
        cleared || self.waits_for.is_none()
    }

    fn is_dead(&mut self, bound: &Bound, number: usize, word: Word, cursor: u64, now: u64) -> bool {
        let doubt = &mut self.doubts[number];
        let known = (doubt.in_way.0, doubt.in_way.1) == (word.0, cursor);
        if known && now.saturating_sub(doubt.asked_ns) < ASK_NS {
            return false;
        }
        if !known {
            doubt.in_way = (word.0, cursor, now);
        }
        doubt.asked_ns = now;
        let dead = word.owner().is_none_or(|owner| participant::has_died(bound.space(), owner));
        if dead {
            doubt.dead = word.0;
        }
        dead
    }

    /// Drops a patient consumer that has been in the way too long.
    fn has_no_patience(&mut self, bound: &Bound, number: usize, word: Word, now: u64) -> bool {
        let (Use::Patient, Some(owner)) = (word.kind(), word.owner()) else { return false };
        let line = bound.line(number);
        let patience = line.patience_ms.load(Ordering::Relaxed).saturating_mul(1_000_000);
        let ends = self.doubts[number].in_way.2.saturating_add(patience);
        if now < ends {
            self.patience_ends_ns = Some(self.patience_ends_ns.map_or(ends, |at| at.min(ends)));
            return false;
        }
        let dropped = Word::new(Use::Dropped, owner).0;
        // AcqRel: a consumer that reads bytes written from now on finds itself dropped. If the word
        // has changed, the consumer has left.
        let _ = line.word.compare_exchange(word.0, dropped, Ordering::AcqRel, Ordering::Relaxed);
        true
    }

    /// The longest sleep before checking whether to drop a patient consumer.
    pub(super) fn patience_left(&self) -> Option<Duration> {
        let ends = self.patience_ends_ns?;
        Some(Duration::from_nanos(ends.saturating_sub(clock::monotonic_ns()).max(1)))
    }
}
