//! Reading all rings in the order of time.
//!
//! There is a cursor per ring. The ring of the next line is known, and a heap has the first lines
//! of the others: several lines in a row of one ring leave the heap as it is. Within a ring the
//! order is that of writing, whatever the clock did. A line is copied, then validated by the ring's
//! floor. Overwritten lines are skipped and show as a gap in the sequence. Every step moves
//! forward, so damaged bytes end a ring early and never cause a hang.

use crate::log::layout::Layout;
use crate::log::line::{LogLine, ThreadId, ThreadInfo};
use crate::log::options::LogLevel;
use crate::log::ring::{Head, Kind, Ring};
use crate::sync::space::Space;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashSet};
use std::mem;
use std::sync::atomic::Ordering;

/// A line may be this far ahead of the reader's clock before its time counts as wrong: it may have
/// been written since.
const AHEAD_NS: u64 = 1_000_000_000;

/// A reader's position in one ring.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    pub(crate) position: u64,
    /// The sequence that the next line should have; `None` if that is not known.
    pub(crate) expected: Option<u32>,
    /// Begin of the lines that no collector has.
    collected: u64,
    /// End of the lines that this round reads.
    end: u64,
    /// True if the ring had no tenant when `end` was read: a later tenant looks at the clock
    /// afterwards.
    deserted: bool,
    /// The known writer of the last line.
    thread: u32,
    /// The time by which the line at a position was merged when it was first seen.
    keyed: (u64, u64),
    /// The line at the position `read`, which does not change while it is there.
    head: Head,
    /// [`UNREAD`](Cursor::UNREAD) if no line was read.
    read: u64,
}

impl Cursor {
    /// No position.
    const UNREAD: u64 = u64::MAX;

    pub(crate) fn new(position: u64, expected: Option<u32>, collected: u64) -> Cursor {
        let (end, keyed, read) = (position, (u64::MAX, 0), Cursor::UNREAD);
        let (head, deserted, thread) = (Head::NOTHING, false, 0);
        Cursor { position, expected, collected, end, deserted, thread, keyed, head, read }
    }

    /// Reads the next line, if there is one. Skips pads and overwritten lines.
    #[inline]
    fn peek(&mut self, ring: &Ring<'_>) -> bool {
        while self.position < self.end {
            let head = ring.head(self.position, self.end);
            if ring.is_overwritten(self.position) {
                // The floor is ahead, or the ring is damaged and ends here.
                self.position = ring.extent().1.max(self.position + 8) & !7;
                continue;
            }
            match head {
                Some(Head { kind: Kind::Pad, size, .. }) => self.position += size,
                Some(head) => {
                    (self.head, self.read) = (head, self.position);
                    return true;
                }
                None => self.position = self.end,
            }
        }
        // A head that went backwards is damage, too.
        self.position = self.position.min(self.end);
        false
    }

    /// True if the line at the cursor was read. The caller finds out whether it was overwritten
    /// since.
    #[inline]
    fn has_read(&self) -> bool {
        self.read == self.position && self.position < self.end
    }

    /// True if it is at its end and a writer may be about to write a line with an earlier time.
    #[inline]
    fn is_silent(&self) -> bool {
        self.position == self.end && !self.deserted
    }

    /// The time for merging the line that was read. A clock that is set back must not delay lines
    /// by that amount.
    #[inline]
    fn key(&mut self, now_ns: u64) -> u64 {
        if self.keyed.0 != self.position {
            let time_ns = self.head.time_ns;
            let ahead = time_ns > now_ns.saturating_add(AHEAD_NS);
            self.keyed = (self.position, if ahead { now_ns } else { time_ns });
        }
        self.keyed.1
    }
}

/// The cursors of all rings, and the state of their lines.
pub(crate) struct Merge {
    pub(crate) cursors: Vec<Cursor>,
    /// The next line: time and ring.
    first: Option<(u64, u32)>,
    /// The first lines of the other rings.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Rings that are read up to their end, but may still get a line older than the next one.
    silent: u32,
    /// Threads that were announced.
    known: HashSet<u32>,
    now_ns: u64,
    latest_ns: u64,
    /// The state to go back to: the latest time, and the threads that became known since.
    kept: (u64, Vec<u32>),
}

impl Merge {
    /// Begins at the given positions.
    pub(crate) fn new(cursors: Vec<Cursor>) -> Merge {
        Merge {
            cursors,
            first: None,
            heap: BinaryHeap::new(),
            silent: 0,
            known: HashSet::new(),
            now_ns: 0,
            latest_ns: 0,
            kept: (0, Vec::new()),
        }
    }

    /// Completes everything that was read up to here.
    pub(crate) fn keep(&mut self) {
        self.kept.0 = self.latest_ns;
        self.kept.1.clear();
    }

    /// Goes back to the cursors of the last [`keep`](Self::keep): the same lines are then read
    /// again in the same way.
    pub(crate) fn go_back(&mut self, cursors: &[Cursor]) {
        self.cursors.clone_from_slice(cursors);
        self.latest_ns = self.kept.0;
        for thread in self.kept.1.drain(..) {
            self.known.remove(&thread);
        }
    }

    /// True if it was not known before.
    fn introduce(&mut self, thread: u32) -> bool {
        let is_new = self.known.insert(thread);
        if is_new {
            self.kept.1.push(thread);
        }
        is_new
    }

    /// Reads how far the rings extend now. The time was taken before.
    pub(crate) fn refresh(&mut self, space: &Space, layout: &Layout, now_ns: u64) {
        self.now_ns = now_ns;
        self.heap.clear();
        for (number, cursor) in (0..layout.rings).zip(&mut self.cursors) {
            let ring = Ring::new(space, layout, number);
            cursor.end = ring.extent().0;
            if cursor.peek(&ring) {
                self.heap.push(Reverse((cursor.key(now_ns), number)));
            }
        }
        self.first = self.heap.pop().map(|Reverse(first)| first);
        self.silent = 0;
        for (number, cursor) in (0..layout.rings).zip(&mut self.cursors) {
            let ring = Ring::new(space, layout, number);
            // Acquire: tenants are read after all heads. If a head has not moved by then, no line
            // came in between either.
            let is_free = ring.header.tenant.load(Ordering::Acquire) == 0;
            cursor.deserted = is_free && ring.extent().0 == cursor.end;
            self.silent += u32::from(cursor.is_silent());
        }
    }

    /// The ends of all rings at the last refresh.
    pub(crate) fn ends(&self) -> Vec<u64> {
        self.cursors.iter().map(|cursor| cursor.end).collect()
    }

    /// Whether all lines before these ends were read.
    pub(crate) fn has_reached(&self, ends: &[u64]) -> bool {
        self.cursors.iter().zip(ends).all(|(cursor, end)| cursor.position >= *end)
    }

    /// Puts the next line into `line`: one that was written at `until_ns` or before, or one that no
    /// older line can precede any more, since each writer has written a younger one. False if there
    /// is none.
    pub(crate) fn next(
        &mut self,
        space: &Space,
        layout: &Layout,
        until_ns: u64,
        line: &mut LogLine,
    ) -> bool {
        loop {
            let Some((key, number)) = self.first else { return false };
            if key > until_ns && self.silent > 0 {
                return false;
            }
            let ring = Ring::new(space, layout, number);
            let taken = self.take(&ring, number, key, line);
            let Some(cursor) = self.cursors.get_mut(number as usize) else { return false };
            let next = cursor.peek(&ring).then(|| (cursor.key(self.now_ns), number));
            self.silent += u32::from(cursor.is_silent());
            self.first = self.earliest(next);
            if taken {
                return true;
            }
        }
    }

    /// The earliest of `next` and the heap's lines. The heap keeps the others.
    #[inline]
    fn earliest(&mut self, next: Option<(u64, u32)>) -> Option<(u64, u32)> {
        let Some(mut top) = self.heap.peek_mut() else { return next };
        match next {
            Some(next) if next <= top.0 => Some(next),
            Some(next) => Some(mem::replace(&mut *top, Reverse(next)).0),
            None => Some(PeekMut::pop(top).0),
        }
    }

    /// All existing lines that were written at `until_ns` or before.
    pub(crate) fn gather(
        &mut self,
        space: &Space,
        layout: &Layout,
        now_ns: u64,
        until_ns: u64,
    ) -> Vec<LogLine> {
        self.refresh(space, layout, now_ns);
        let (mut lines, mut line) = (Vec::new(), LogLine::default());
        while self.next(space, layout, until_ns, &mut line) {
            lines.push(line.clone());
        }
        lines
    }

    /// True if there are lines that are still too young.
    pub(crate) fn is_waiting(&self) -> bool {
        self.first.is_some()
    }

    /// Copies the line at a ring's cursor and moves on. False if there is nothing to show.
    fn take(&mut self, ring: &Ring<'_>, number: u32, key: u64, line: &mut LogLine) -> bool {
        let Some(cursor) = self.cursors.get_mut(number as usize) else { return false };
        // Another line, if the first has been overwritten meanwhile: it has to wait for its time.
        if !cursor.has_read() && (!cursor.peek(ring) || cursor.key(self.now_ns) != key) {
            return false;
        }
        let head = cursor.head;
        line.text.clear();
        let announced = head.kind == Kind::Line
            && head.thread != cursor.thread
            && !self.known.contains(&head.thread);
        let announced = announced.then(|| tenant(ring, head.thread)).flatten();
        // If this announces a thread instead, the line is read again next time.
        let announces = announced.is_some();
        if !announces {
            ring.append(cursor.position, &head, &mut line.text);
            if ring.is_overwritten(cursor.position) {
                cursor.read = Cursor::UNREAD;
                return false;
            }
        }
        line.time_ns = head.time_ns;
        line.thread = ThreadId(head.thread);
        line.late = key < self.latest_ns;
        line.collected = cursor.position < cursor.collected;
        (line.level, line.lost, line.announces) = (None, 0, announced);
        if announces {
            self.introduce(head.thread);
            return true;
        }
        self.latest_ns = self.latest_ns.max(key);
        cursor.position += head.size;
        let ahead = cursor.expected.map_or(0, |expected| head.sequence.wrapping_sub(expected));
        // Backwards: the previous writer died between the line and the counter.
        line.lost = u32::try_from(ahead as i32).unwrap_or(0);
        cursor.expected = Some(head.sequence.wrapping_add(1));
        cursor.thread = head.thread;
        match head.kind {
            Kind::Line => line.level = Some(head.level),
            _ => {
                line.announces = Some(ThreadInfo::read(&line.text));
                line.text.clear();
                return self.introduce(head.thread) || line.lost > 0;
            }
        }
        true
    }
}

/// The description of the thread, if it is still the ring's tenant.
fn tenant(ring: &Ring<'_>, thread: u32) -> Option<ThreadInfo> {
    let header = ring.header;
    let is_tenant = || (header.tenant.load(Ordering::Acquire) >> 32) as u32 == thread;
    if thread == 0 || !is_tenant() {
        return None;
    }
    let who = header.introduction();
    is_tenant().then_some(who)
}

/// Begins at the oldest existing lines.
pub(crate) fn from_the_oldest(space: &Space, layout: &Layout) -> Merge {
    let begin = |number| {
        let ring = Ring::new(space, layout, number);
        Cursor::new(ring.extent().1, None, ring.tail())
    };
    Merge::new((0..layout.rings).map(begin).collect())
}

/// All existing lines.
pub(crate) fn all(space: &Space, layout: &Layout) -> Vec<LogLine> {
    from_the_oldest(space, layout).gather(space, layout, u64::MAX, u64::MAX)
}

/// The level of a line for a filter: the log's own messages always pass.
pub(crate) fn is_wanted(line: &LogLine, level: LogLevel) -> bool {
    line.level.is_none_or(|of| of <= level)
}
