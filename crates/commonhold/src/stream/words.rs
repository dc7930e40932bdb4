//! The words of a stream in its map's root, and their recovery.
//!
//! A root's memory never becomes anything else, so a reader may look at these words before it has
//! made sure that the map still exists.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::classes::EXTENT;
use crate::memory::extents::{Kind, committed, header};
use crate::memory::ring::Ring;
use crate::memory::runs;
use crate::steps::step;
use crate::stream::position::StreamPosition;
use crate::sync::event::Event;
use crate::sync::owner::Owner;
use crate::sync::robust_lock;
use crate::sync::space::{Shared, Space};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The class of a block that is a ring. The blocks of other structures have class 0.
pub(crate) const RING: u8 = 1;

/// No stream becomes this long in a lifetime.
pub(crate) const FARTHEST: u64 = 1 << 62;

/// The words that hardly ever change, 32 bytes.
#[repr(C)]
pub(crate) struct Link {
    /// Offset of the ring; 0 if the map has no stream.
    pub(crate) ring: AtomicU64,
    /// Its size, a power of two.
    pub(crate) ring_bytes: AtomicU64,
    /// The stream's own number, which no other stream has.
    pub(crate) number: AtomicU64,
    /// Followers wait for frames with this event.
    pub(crate) event: Event,
}

/// The words that every change updates, 56 bytes.
#[repr(C)]
pub(crate) struct Head {
    /// Robust lock; taken after the lock of a segment.
    pub(crate) lock: AtomicU32,
    spare: AtomicU32,
    /// Everything below this offset is committed.
    pub(crate) tail: AtomicU64,
    /// Everything below this offset may have been written.
    pub(crate) claim: AtomicU64,
    /// 0, or the offset of the slot whose change is in progress (the two words below describe it).
    pub(crate) armed: AtomicU64,
    /// The contents of that slot before the change.
    pub(crate) old: AtomicU64,
    /// The tail after the change.
    pub(crate) end: AtomicU64,
    /// Bytes of the largest frame that did not fit into the ring, since the stream began.
    pub(crate) left_out: AtomicU64,
}

/// Their position in the root, and that of the map's incarnation.
pub(crate) const LINK_AT: usize = 160;
pub(crate) const HEAD_AT: usize = 456;
pub(crate) const INCARNATION_AT: usize = 8;

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Link {}
// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Head {}

const _: () = assert!(size_of::<Link>() == 32 && size_of::<Head>() == 56);

/// The stream of one map, for a handle that has bound the map.
#[derive(Clone, Copy)]
pub(crate) struct Stream<'a> {
    pub(crate) space: &'a Space,
    pub(crate) link: &'a Link,
    pub(crate) head: &'a Head,
    /// The map's incarnation, and its expected value.
    pub(crate) incarnation: (&'a AtomicU64, u64),
}

impl<'a> Stream<'a> {
    /// The stream of the map with this root and incarnation.
    pub(crate) fn of(space: &'a Space, root: u64, incarnation: u64) -> Stream<'a> {
        Stream {
            space,
            link: space.view(root + LINK_AT as u64),
            head: space.view(root + HEAD_AT as u64),
            incarnation: (space.word(root + INCARNATION_AT as u64), incarnation),
        }
    }

    /// True if the map is still the one that was bound.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        // Acquire: everything read before belongs to the map.
        self.incarnation.0.load(Ordering::Acquire) == self.incarnation.1
    }

    /// The ring, if there is one.
    ///
    /// # Errors
    /// `Damaged` if the root's fields cannot be those of a ring.
    pub(crate) fn ring(&self) -> Result<Option<Ring>> {
        loop {
            // Acquire: the ring is complete when the root names it.
            let offset = self.link.ring.load(Ordering::Acquire);
            if offset == 0 {
                return Ok(None);
            }
            if let Some(ring) = self.ring_at(offset) {
                return Ok(Some(ring));
            }
            // The map may have been dropped meanwhile. Acquire, as above.
            if !self.is_current() {
                return Ok(None);
            }
            // Or the stream has got another ring, and the memory of this one was freed.
            if self.link.ring.load(Ordering::Acquire) == offset {
                let text = "a map's root names no ring for its stream; drop the map";
                return Err(Error::new(ErrorKind::Damaged, text));
            }
        }
    }

    /// The ring at an offset that the root has named.
    fn ring_at(&self, offset: u64) -> Option<Ring> {
        let bytes = self.link.ring_bytes.load(Ordering::Relaxed);
        let extent = offset / EXTENT;
        let there = offset.is_multiple_of(EXTENT)
            && extent < committed(self.space)
            && header(self.space, extent).state().is(Kind::Block)
            && header(self.space, extent).state().class() == RING
            && bytes <= runs::length(self.space, extent) * EXTENT;
        Ring::new(self.space, offset, bytes).filter(|_| there)
    }
}

/// The last ring that a handle found sound, so that the handle need not check the ring's memory
/// again: the ring's offset, a multiple of 64 KiB, and the binary logarithm of its size.
#[derive(Default)]
pub(crate) struct KnownRing(AtomicU64);

impl KnownRing {
    /// Like [`Stream::ring`], but under the segment's lock: no ring begins or ends in the meantime.
    /// A ring of this offset and size may have ended and another one begun, which is equally sound.
    #[inline(always)]
    pub(crate) fn of(&self, stream: &Stream<'_>) -> Result<Option<Ring>> {
        // Acquire: as in `Stream::ring`.
        let offset = stream.link.ring.load(Ordering::Acquire);
        let bytes = stream.link.ring_bytes.load(Ordering::Relaxed);
        // Relaxed: a hint of this process. With any value of it, the ring lies in the mapped file.
        if self.0.load(Ordering::Relaxed) == KnownRing::word(offset, bytes)
            && let Some(ring) = Ring::new(stream.space, offset, bytes)
        {
            return Ok(Some(ring));
        }
        self.find(stream)
    }

    #[cold]
    fn find(&self, stream: &Stream<'_>) -> Result<Option<Ring>> {
        let ring = stream.ring()?;
        if let Some(ring) = &ring {
            self.0.store(KnownRing::word(ring.offset(), ring.size()), Ordering::Relaxed);
        }
        Ok(ring)
    }

    fn word(offset: u64, bytes: u64) -> u64 {
        offset | u64::from(bytes.trailing_zeros())
    }
}

impl Stream<'_> {
    /// Whether the values of tail and claim are possible. Under the stream's lock, or while nobody
    /// writes.
    ///
    /// # Errors
    /// `Damaged`.
    pub(crate) fn ensure_sound(&self) -> Result<()> {
        let bytes = self.link.ring_bytes.load(Ordering::Relaxed);
        let (tail, claim) =
            (self.head.tail.load(Ordering::Relaxed), self.head.claim.load(Ordering::Relaxed));
        if tail <= claim && claim < FARTHEST && claim - tail <= bytes {
            return Ok(());
        }
        let text = "the words of a map's stream contradict each other; drop the map";
        Err(Error::new(ErrorKind::Damaged, text))
    }
}

/// The statistics of a map's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StreamStat {
    /// The bytes of changes that the stream keeps.
    pub bytes: u64,
    /// The end of the stream. The offset is the number of bytes of frames since the stream began.
    pub end: StreamPosition,
}

impl Stream<'_> {
    /// Its statistics, if there is one.
    pub(crate) fn stat(&self) -> Option<StreamStat> {
        let ring = self.ring().ok().flatten()?;
        let stream = self.link.number.load(Ordering::Relaxed);
        let offset = self.head.tail.load(Ordering::Acquire);
        Some(StreamStat { bytes: ring.size(), end: StreamPosition { stream, offset } })
    }
}

/// Decides the change that the dead `owner` was making, if it holds the lock, by what the slot
/// holds: while the dead participant still holds the segment's lock, that is the old word or the
/// new one. Then releases the lock. May be repeated. The root may belong to another kind of
/// structure by now: a caller that asks for the end of a stream locks it before it checks that the
/// map still exists.
pub(crate) fn recover(space: &Space, root: u64, owner: Owner) {
    let Stream { link, head, .. } = Stream::of(space, root, 0);
    if robust_lock::holder(&head.lock) != Some(owner) {
        return;
    }
    recover_held(space, link, head);
}

/// The same for the holder of the lock.
pub(crate) fn recover_held(space: &Space, link: &Link, head: &Head) {
    let armed = head.armed.load(Ordering::Acquire);
    if armed != 0 {
        if is_changed(space, head, armed) {
            head.tail.store(head.end.load(Ordering::Relaxed), Ordering::Release);
        }
        step!("recover.stream-decided");
        head.armed.store(0, Ordering::Release);
    }
    robust_lock::unlock(&head.lock);
    // The writer of the change may not have woken the followers.
    link.event.wake_all();
    step!("recover.stream-unlocked");
}

fn is_changed(space: &Space, head: &Head, armed: u64) -> bool {
    let (tail, end) = (head.tail.load(Ordering::Relaxed), head.end.load(Ordering::Relaxed));
    // Anything else is damage.
    let sound = armed.is_multiple_of(8)
        && armed / EXTENT < committed(space)
        && header(space, armed / EXTENT).state().is(Kind::Segments)
        && end >= tail
        && end <= head.claim.load(Ordering::Relaxed);
    sound && space.word(armed).load(Ordering::Acquire) != head.old.load(Ordering::Relaxed)
}
