//! One ring: whole lines between a floor and a head, written by one thread, read by any.
//!
//! Positions count bytes and never wrap. A line lies at its position modulo the ring's length, in
//! one piece; a pad fills the rest at the ring's end. A line is three words and its bytes, rounded
//! up to 8:
//!
//! ```text
//! length (24 bits) | level << 24 | kind << 28 | sequence << 32,
//! nanoseconds since 1970,   thread number,   bytes
//! ```
//!
//! Invariant: only whole lines lie between floor and head. The head is stored with release after a
//! line's bytes; that is the commit point, and half a line of a dead writer lies after it. The
//! floor is stored *before* anything below it is overwritten, with a release fence after it. A
//! reader copies first, and reads the floor again after an acquire fence. A ring that drops lines
//! keeps its floor at or below the collector's tail.
//!
//! # Safety
//! Raw copies stay inside the ring: lengths are checked against its end, and the ring against the
//! file ([`Space::reach`]).
#![allow(unsafe_code)]

use crate::log::layout::{Layout, RingHeader};
use crate::log::options::{LogLevel, Overflow};
use crate::memory::copy;
use crate::steps::step;
use crate::sync::space::{Shared, Space};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bytes before those of the line.
const FRONT: u64 = 24;
const LENGTH_BITS: u32 = 24;
/// The bits of a position; no writer ever reaches more.
const POSITION: u64 = (1 << 62) - 8;

/// The words before a line's bytes.
#[repr(C)]
struct Front {
    first: AtomicU64,
    time_ns: AtomicU64,
    thread: AtomicU64,
}

const _: () = assert!(size_of::<Front>() as u64 == FRONT);

// SAFETY: atomics only.
unsafe impl Shared for Front {}

/// The kind of an entry in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A line of a writer.
    Line = 1,
    /// The writer from here on: pid, tid (u32 each), name.
    Thread = 2,
    /// Nothing, up to the ring's end.
    Pad = 3,
}

/// A line's three words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) level: LogLevel,
    pub(crate) sequence: u32,
    pub(crate) time_ns: u64,
    pub(crate) thread: u32,
    len: usize,
    /// Bytes that it occupies in the ring.
    pub(crate) size: u64,
}

impl Head {
    /// A pad, which has no words but the first.
    pub(crate) const NOTHING: Head = Head {
        kind: Kind::Pad,
        level: LogLevel::Trace,
        sequence: 0,
        time_ns: 0,
        thread: 0,
        len: 0,
        size: 0,
    };
}

/// A line to write.
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) level: LogLevel,
    pub(crate) time_ns: u64,
    pub(crate) thread: u32,
    pub(crate) bytes: &'a [u8],
}

/// The state of a ring's writer; private memory of its process, changed by its thread alone.
#[derive(Default)]
pub(crate) struct Place {
    head: AtomicU64,
    floor: AtomicU64,
    /// Up to here the ring has room.
    limit: AtomicU64,
    next: AtomicU64,
}

/// A ring in the hold.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    space: &'a Space,
    pub(crate) header: &'a RingHeader,
    data: u64,
    bytes: u64,
    overflow: Overflow,
}

impl<'a> Ring<'a> {
    #[inline]
    pub(crate) fn new(space: &'a Space, layout: &Layout, number: u32) -> Ring<'a> {
        let header = layout.ring(space, number);
        let (data, bytes, overflow) = (layout.data(number), layout.ring_bytes, layout.overflow);
        Ring { space, header, data, bytes, overflow }
    }

    #[inline]
    fn within(&self, position: u64) -> u64 {
        position & (self.bytes - 1)
    }

    /// Head and floor, within their possible ranges: lines of a damaged ring do not count.
    pub(crate) fn extent(&self) -> (u64, u64) {
        // Acquire pairs with the release of the head: the lines before it are whole.
        let head = self.header.head.load(Ordering::Acquire) & POSITION;
        // Relaxed: a reader detects afterwards that it has read below the floor.
        let floor = self.header.floor.load(Ordering::Relaxed);
        let sound = floor <= head && head - floor <= self.bytes && floor.is_multiple_of(8);
        (head, if sound { floor } else { head })
    }

    /// The tail, within its possible range.
    pub(crate) fn tail(&self) -> u64 {
        let (head, floor) = self.extent();
        // Relaxed: a caller that depends on the collector's earlier work loads it with acquire.
        let tail = self.header.tail.load(Ordering::Relaxed);
        if tail <= head && tail.is_multiple_of(8) { tail.max(floor) } else { floor }
    }

    // ---- writing -----------------------------------------------------------------------------

    /// Takes over the ring's state from the previous writer. For its tenant.
    pub(crate) fn catch_up(&self, place: &Place) {
        let (head, floor) = self.extent();
        // Relaxed: private to the thread; see `Place`.
        place.head.store(head, Ordering::Relaxed);
        place.floor.store(floor, Ordering::Relaxed);
        place.limit.store(floor + self.bytes, Ordering::Relaxed);
        // Relaxed: ordered by the claim.
        place.next.store(self.header.next.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Writes a line; false if it was dropped. For the ring's tenant, which does not interrupt
    /// itself.
    #[inline]
    pub(crate) fn put(&self, place: &Place, record: &Record<'_>) -> bool {
        let next = place.next.load(Ordering::Relaxed);
        let len = record.bytes.len() as u64;
        let size = FRONT + len.next_multiple_of(8);
        let head = place.head.load(Ordering::Relaxed);
        let rest = self.bytes - self.within(head);
        let pad = if size > rest { rest } else { 0 };
        let end = head + pad + size;
        if end > place.limit.load(Ordering::Relaxed) && !self.make_room(place, head, end) {
            self.count_dropped(place, next);
            return false;
        }
        if pad > 0 {
            let word = pad | (Kind::Pad as u64) << 28;
            self.space.word(self.data + self.within(head)).store(word, Ordering::Relaxed);
        }
        let at = self.data + self.within(head + pad);
        let Some(to) = self.space.reach(at, size) else { return false };
        let front: &Front = self.space.view(at);
        let first = len
            | u64::from(record.level.code()) << LENGTH_BITS
            | (record.kind as u64) << 28
            | next << 32;
        // Relaxed, all three: the head's release publishes them.
        front.first.store(first, Ordering::Relaxed);
        front.time_ns.store(record.time_ns, Ordering::Relaxed);
        front.thread.store(u64::from(record.thread), Ordering::Relaxed);
        // SAFETY: `size` bytes at `to` exist, are inside the ring, and only this thread may write
        // them.
        unsafe { copy::write(to.add(FRONT as usize), record.bytes) };
        step!("log.copied");
        // The commit point. Release: the line is whole; pairs with the acquire in `extent`.
        self.header.head.store(end, Ordering::Release);
        // At once: after a panic, no other line may be written in its place.
        place.head.store(end, Ordering::Relaxed);
        self.advance(place, next);
        step!("log.committed");
        true
    }

    /// After the head: after a kill in between, the next tenant's first line has the same sequence,
    /// which is harmless.
    #[inline]
    fn advance(&self, place: &Place, next: u64) {
        let next = next.wrapping_add(1);
        place.next.store(next, Ordering::Relaxed);
        // Relaxed: for the next tenant, by way of the tenant word.
        self.header.next.store(next, Ordering::Relaxed);
    }

    #[cold]
    fn count_dropped(&self, place: &Place, next: u64) {
        // Relaxed: a counter with one writer.
        let dropped = self.header.dropped.load(Ordering::Relaxed).wrapping_add(1);
        self.header.dropped.store(dropped, Ordering::Relaxed);
        self.advance(place, next);
    }

    /// Raises the floor until there is room up to `end`, and some more. False if that is
    /// impossible.
    #[cold]
    fn make_room(&self, place: &Place, head: u64, end: u64) -> bool {
        let wanted = end + self.bytes / 16;
        // Acquire pairs with the collector's release: it has copied everything before.
        let tail = self.header.tail.load(Ordering::Acquire).min(head);
        let mut floor = place.floor.load(Ordering::Relaxed);
        let stop = if self.overflow == Overflow::Drop { tail } else { head };
        let mut overwritten = 0;
        while floor + self.bytes < wanted && floor < stop {
            // The writer's own lines: if one is damaged, so are all later ones.
            let line = self.head(floor, head);
            overwritten += u64::from(floor >= tail && line.is_some_and(|l| l.kind == Kind::Line));
            floor = line.map_or(stop, |line| floor + line.size);
        }
        place.floor.store(floor, Ordering::Relaxed);
        place.limit.store(floor + self.bytes, Ordering::Relaxed);
        // Relaxed, then the fence: the floor before the bytes that will overwrite. Pairs with
        // `is_overwritten`.
        self.header.floor.store(floor, Ordering::Relaxed);
        fence(Ordering::Release);
        step!("log.made-room");
        // Relaxed: a counter with one writer.
        let before = self.header.overwritten.load(Ordering::Relaxed);
        self.header.overwritten.store(before.wrapping_add(overwritten), Ordering::Relaxed);
        end <= floor + self.bytes
    }

    // ---- reading -----------------------------------------------------------------------------

    /// The entry at a position before `end`; `None` for damage (or while it is being overwritten).
    #[inline]
    pub(crate) fn head(&self, position: u64, end: u64) -> Option<Head> {
        let at = self.data + self.within(position);
        // Relaxed: published by the head, and validated by the floor.
        let first = self.space.word(at).load(Ordering::Relaxed);
        let len = first & ((1 << LENGTH_BITS) - 1);
        let most = (self.bytes - self.within(position)).min(end.saturating_sub(position));
        let (kind, size) = match first >> 28 & 0xf {
            1 => (Kind::Line, FRONT + len.next_multiple_of(8)),
            2 => (Kind::Thread, FRONT + len.next_multiple_of(8)),
            // A pad's length may need more bits than a line's.
            3 => (Kind::Pad, first & ((1 << 28) - 1)),
            _ => return None,
        };
        if size == 0 || size > most || !size.is_multiple_of(8) {
            return None;
        }
        if kind == Kind::Pad {
            return Some(Head { size, ..Head::NOTHING });
        }
        let front: &Front = self.space.view(at);
        Some(Head {
            kind,
            level: LogLevel::from_code((first >> LENGTH_BITS & 0xf) as u32),
            sequence: (first >> 32) as u32,
            time_ns: front.time_ns.load(Ordering::Relaxed),
            thread: front.thread.load(Ordering::Relaxed) as u32,
            len: len as usize,
            size,
        })
    }

    /// Appends the bytes of the line at a position.
    #[inline]
    pub(crate) fn append(&self, position: u64, head: &Head, out: &mut Vec<u8>) {
        let at = self.data + self.within(position) + FRONT;
        if let Some(from) = self.space.reach(at, head.len as u64) {
            // SAFETY: `head.len` bytes at `from` exist.
            unsafe { copy::append(from, head.len, out) };
        }
    }

    /// True if the bytes read at the position may have been overwritten meanwhile.
    #[inline]
    pub(crate) fn is_overwritten(&self, position: u64) -> bool {
        // The copy before the second look at the floor; pairs with the fence in `make_room`.
        fence(Ordering::Acquire);
        // Relaxed: ordered by the fence.
        self.header.floor.load(Ordering::Relaxed) > position
    }
}
