//! The parts of a queue in its block, and their layout.
//!
//! ```text
//! header (64 bytes), per named queue 4 lines (head, tail, event, name),
//! holders (u32 per element), per named queue a ring (u32, a power of two of them), elements
//! ```
//!
//! An element is in exactly one place: either one ring contains its id between head and tail, or
//! its word among the holders names the owner that has it in flight. All parts begin on cache
//! lines.

use crate::error::Result;
use crate::memory::block::Block;
use crate::queue::options::QueueOptions;
use crate::sync::event::Event;
use crate::sync::space::{CheckedSlice, Shared, Space};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The most named queues.
pub(crate) const MAX_QUEUES: u32 = 64;
/// Bytes of a name, with at least one NUL after it.
pub(crate) const NAME_BYTES: usize = 64;
const LINE: u64 = 64;
/// Lines per named queue.
const LINES: u64 = 4;

/// The first line.
#[repr(C)]
struct Header {
    elements: AtomicU32,
    element_bytes: AtomicU32,
    queues: AtomicU32,
    orphans: AtomicU32,
    spare: [AtomicU64; 6],
}

/// One end of a named queue: a line of its own.
#[repr(C)]
pub(crate) struct End {
    /// Robust lock over this end.
    pub(crate) lock: AtomicU32,
    spare: AtomicU32,
    /// The index after the move in progress: armed if it is ahead of the index.
    pub(crate) intent: AtomicU64,
    /// The number of elements that ever passed this end. Its store commits a move.
    pub(crate) index: AtomicU64,
    /// The opposite index when it was last read; protected by this end's lock.
    pub(crate) opposite: AtomicU64,
    spare2: [AtomicU64; 4],
}

/// The event to wake when elements were pushed: a line of its own.
#[repr(C)]
struct EventLine {
    event: Event,
    spare: [AtomicU64; 7],
}

const _: () = assert!(size_of::<Header>() == 64 && size_of::<End>() == 64);
const _: () = assert!(size_of::<EventLine>() == 64);

/// The lines of a named queue.
#[repr(C)]
struct QueueLines {
    ends: [End; 2],
    event: EventLine,
    name: [AtomicU64; NAME_BYTES / 8],
}

const _: () = assert!(size_of::<QueueLines>() as u64 == LINES * LINE);

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Header {}
// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for QueueLines {}

/// The two ends of a named queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The end at which elements are pulled.
    Head = 0,
    /// The end at which elements are pushed.
    Tail = 1,
}

/// The parts, which were seen to exist.
pub(crate) struct Layout {
    offsets: Offsets,
    lines: CheckedSlice<QueueLines>,
    holders: CheckedSlice<AtomicU32>,
    rings: CheckedSlice<AtomicU32>,
}

impl Deref for Layout {
    type Target = Offsets;
    #[inline(always)]
    fn deref(&self) -> &Offsets {
        &self.offsets
    }
}

/// The offsets of all parts: computed from four numbers, in private memory.
pub(crate) struct Offsets {
    /// Offset of the header.
    own: u64,
    pub(crate) elements: u32,
    pub(crate) element_bytes: u32,
    pub(crate) queues: u32,
    pub(crate) orphans: u32,
    pub(crate) stride: u64,
    /// Ids in a ring, minus one: a power of two minus one.
    mask: u64,
    holders: u64,
    rings: u64,
    ring_bytes: u64,
    payload: u64,
    /// The total length in bytes.
    bytes: u64,
}

impl Layout {
    /// Bytes of the block that a queue with these options needs.
    pub(crate) fn bytes_for(options: &QueueOptions) -> u64 {
        let queues = options.names.len() as u32;
        Offsets::new(0, [options.elements, options.element_bytes, queues, 0]).bytes
    }

    /// The parts of a queue with these numbers; `None` if they do not all exist.
    fn at(space: &Space, own: u64, numbers: [u32; 4]) -> Option<Layout> {
        let offsets = Offsets::new(own, numbers);
        let queues = u64::from(offsets.queues);
        let lines = CheckedSlice::new(space, offsets.line(0, 0), queues)?;
        let holders = CheckedSlice::new(space, offsets.holders, offsets.elements.into())?;
        let rings = CheckedSlice::new(space, offsets.rings, queues * offsets.ring_bytes / 4)?;
        Some(Layout { offsets, lines, holders, rings })
    }

    /// Reads the header of a queue.
    ///
    /// # Errors
    /// `Damaged` if it does not fit its block.
    pub(crate) fn read(space: &Space, block: &Block) -> Result<Layout> {
        let header: &Header = space.view(block.own());
        let numbers = [&header.elements, &header.element_bytes, &header.queues, &header.orphans]
            .map(|number| number.load(Ordering::Relaxed));
        let [elements, element_bytes, queues, orphans] = numbers;
        let sound = (1..=1 << 31).contains(&elements)
            && element_bytes > 0
            && (1..=MAX_QUEUES).contains(&queues)
            && orphans < queues
            && block.own_bytes() >= size_of::<Header>() as u64;
        let fits = sound && Offsets::new(block.own(), numbers).bytes <= block.own_bytes();
        match fits.then(|| Layout::at(space, block.own(), numbers)).flatten() {
            Some(layout) => Ok(layout),
            None => Err(block.damaged("its header is damaged")),
        }
    }

    /// Writes a new queue into a block that is zero: all elements are in the first queue.
    pub(crate) fn write(space: &Space, block: &Block, options: &QueueOptions) {
        let header: &Header = space.view(block.own());
        let numbers = [
            options.elements,
            options.element_bytes,
            options.names.len() as u32,
            options.orphans_number(),
        ];
        // Relaxed, here and below: the store of LIVE publishes it.
        let words = [&header.elements, &header.element_bytes, &header.queues, &header.orphans];
        words.iter().zip(numbers).for_each(|(word, number)| word.store(number, Ordering::Relaxed));
        // The block exists. If it did not, the queue would be found to be damaged.
        let Some(layout) = Layout::at(space, block.own(), numbers) else { return };
        for (number, name) in (0..).zip(&options.names) {
            let mut bytes = [0; NAME_BYTES];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            let words = &layout.lines(space, number).name;
            for (word, part) in words.iter().zip(bytes.chunks_exact(8)) {
                let part = u64::from_le_bytes(part.try_into().unwrap_or_default());
                word.store(part, Ordering::Relaxed);
            }
        }
        for (id, place) in (0..options.elements).zip(layout.ring(space, 0)) {
            place.store(id, Ordering::Relaxed);
        }
        let tail = layout.end(space, 0, Side::Tail);
        tail.index.store(options.elements.into(), Ordering::Relaxed);
        tail.intent.store(options.elements.into(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn lines<'a>(&self, space: &'a Space, queue: u32) -> &'a QueueLines {
        &self.lines.of(space)[queue as usize]
    }

    #[inline(always)]
    pub(crate) fn end<'a>(&self, space: &'a Space, queue: u32, side: Side) -> &'a End {
        &self.lines(space, queue).ends[side as usize]
    }

    #[inline]
    pub(crate) fn event<'a>(&self, space: &'a Space, queue: u32) -> &'a Event {
        &self.lines(space, queue).event.event
    }

    pub(crate) fn name(&self, space: &Space, queue: u32) -> String {
        let words = self.lines(space, queue).name.iter();
        let bytes: Vec<u8> = words.flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).collect();
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(NAME_BYTES);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    #[inline(always)]
    fn ring<'a>(&self, space: &'a Space, queue: u32) -> &'a [AtomicU32] {
        let first = queue as usize * (self.ring_bytes / 4) as usize;
        &self.rings.of(space)[first..][..self.mask as usize + 1]
    }

    /// The places in a ring for the `count` indices from `index` on, at most as many as the ring
    /// has: those up to its end, and those from its beginning on.
    #[inline]
    pub(crate) fn places_at<'a>(
        &self,
        space: &'a Space,
        queue: u32,
        index: u64,
        count: u64,
    ) -> [&'a [AtomicU32]; 2] {
        let ring = self.ring(space, queue);
        let (start, count) = ((index & self.mask) as usize, count as usize);
        let (before, behind) = ring.split_at(start.min(ring.len()));
        let straight = count.min(behind.len());
        [&behind[..straight], &before[..(count - straight).min(before.len())]]
    }

    /// The place in a ring for an index.
    #[inline(always)]
    pub(crate) fn place_at<'a>(
        &self,
        space: &'a Space,
        queue: u32,
        index: u64,
    ) -> Option<&'a AtomicU32> {
        self.ring(space, queue).get((index & self.mask) as usize)
    }

    /// Per element the owner that has it in flight, as bits, or 0.
    #[inline(always)]
    pub(crate) fn holders<'a>(&self, space: &'a Space) -> &'a [AtomicU32] {
        self.holders.of(space)
    }
}

impl Offsets {
    fn new(own: u64, [elements, element_bytes, queues, orphans]: [u32; 4]) -> Offsets {
        let stride = match u64::from(element_bytes) {
            bytes if bytes >= LINE => bytes.next_multiple_of(LINE),
            bytes => bytes.next_multiple_of(8),
        };
        let slots = u64::from(elements).next_power_of_two();
        let holders = own + LINE + u64::from(queues) * LINES * LINE;
        let rings = holders + (u64::from(elements) * 4).next_multiple_of(LINE);
        let ring_bytes = (slots * 4).next_multiple_of(LINE);
        let payload = rings + u64::from(queues) * ring_bytes;
        let bytes = payload + u64::from(elements) * stride - own;
        let mask = slots - 1;
        Offsets {
            own,
            elements,
            element_bytes,
            queues,
            orphans,
            stride,
            mask,
            holders,
            rings,
            ring_bytes,
            payload,
            bytes,
        }
    }

    fn line(&self, queue: u32, line: u64) -> u64 {
        self.own + LINE + (u64::from(queue) * LINES + line) * LINE
    }

    /// Offset of the line of one end, as it is listed before its lock is taken.
    #[inline]
    pub(crate) fn end_offset(&self, queue: u32, side: Side) -> u64 {
        self.line(queue, side as u64)
    }

    /// The end whose line begins at `offset`, if any.
    pub(crate) fn end_at(&self, offset: u64) -> Option<(u32, Side)> {
        let line = offset.checked_sub(self.own + LINE).filter(|at| at % LINE == 0)? / LINE;
        let side = match line % LINES {
            0 => Side::Head,
            1 => Side::Tail,
            _ => return None,
        };
        u32::try_from(line / LINES).ok().filter(|queue| *queue < self.queues).map(|q| (q, side))
    }

    /// Places in a ring.
    pub(crate) fn places(&self) -> u64 {
        self.mask + 1
    }

    /// Offset of the bytes of an element.
    #[inline]
    pub(crate) fn payload(&self, id: u32) -> u64 {
        self.payload + u64::from(id) * self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_behind_the_other() {
        for (elements, bytes, queues) in [(1, 1, 1), (17, 8, 3), (1000, 64, 64), (70_000, 100, 2)] {
            let layout = Offsets::new(8192, [elements, bytes, queues, 0]);
            let last = layout.line(queues - 1, 3) + LINE;
            let parts = [layout.holders, layout.rings, layout.payload];
            assert!(last <= layout.holders && parts.iter().all(|at| at.is_multiple_of(64)));
            assert!(layout.holders + u64::from(elements) * 4 <= layout.rings);
            assert!(layout.places() >= elements.into());
            assert_eq!(layout.payload(elements - 1) + layout.stride, 8192 + layout.bytes);
            assert!(
                layout.stride >= bytes.into() && (bytes < 64 || layout.stride.is_multiple_of(64))
            );
            for queue in 0..queues {
                for side in [Side::Head, Side::Tail] {
                    let offset = layout.end_offset(queue, side);
                    assert_eq!(layout.end_at(offset), Some((queue, side)));
                    assert_eq!(layout.end_at(offset + 8), None);
                }
                assert_eq!(layout.end_at(layout.line(queue, 2)), None);
            }
            assert_eq!(layout.end_at(layout.line(queues, 0)), None);
        }
    }
}
