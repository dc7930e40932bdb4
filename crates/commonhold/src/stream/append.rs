//! Writing a change into the stream, in one step with the change itself.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::ring::Ring;
use crate::memory::writer::Writer;
use crate::steps::{fault, step};
use crate::stream::frame::{self, ChangeKind, HEADER};
use crate::stream::words::{self, KnownRing, Stream};
use crate::sync::robust_lock::{self, Level};
use crate::sync::unwind::UnwindGuard;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A frame takes at most one part in this number of the ring.
pub(crate) const LARGEST_PART: u64 = 4;
/// Frames of at most this many bytes are encoded without allocated memory.
const SHORT: usize = 128;
/// The most memory for encoding frames that a thread keeps.
const KEPT: usize = 1 << 20;

thread_local! {
    static FRAME: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The stream's lock, with the frame written and not announced. The change follows at once:
/// [`arm`](StreamLock::arm), the slot's store, [`finish`](StreamLock::finish).
#[must_use]
pub(crate) struct StreamLock<'a> {
    stream: Stream<'a>,
    end: u64,
}

/// Takes the stream's lock and writes the frame of a change that is certain to come. `position` is
/// the word in which the changed segment keeps the end of the stream. Key and value have `len`
/// bytes together, and `parts` appends them. The caller has locked the segment. `None` if the map
/// has no stream.
///
/// # Errors
/// `NotFound` if the map was dropped; those of locking. Nothing is changed then.
#[inline]
pub(crate) fn begin<'a>(
    writer: &impl Writer,
    stream: Stream<'a>,
    position: &AtomicU64,
    kind: ChangeKind,
    expires_ms: u64,
    (len, parts): (u64, impl FnOnce(&mut Vec<u8>) -> usize),
) -> Result<Option<StreamLock<'a>>> {
    // Relaxed: only tests whether there is a stream. A stream that begins waits for all holders of
    // a segment's lock.
    if stream.link.ring.load(Ordering::Relaxed) == 0 {
        return Ok(None);
    }
    // While a thread ends there may be no buffer, because another destructor writes.
    let mut frame = FRAME.try_with(Cell::take).unwrap_or_default();
    let fits = fits(HEADER as u64 + len, stream.link.ring_bytes.load(Ordering::Relaxed));
    // A frame is rounded up to 8 bytes.
    reserve(&mut frame, HEADER + if fits { len as usize + 8 } else { 0 })?;
    if fits {
        frame::encode(&mut frame, kind, expires_ms, parts);
    } else {
        // Relaxed: only a hint for whoever makes the ring larger.
        stream.head.left_out.fetch_max(HEADER as u64 + len, Ordering::Relaxed);
        frame::encode(&mut frame, ChangeKind::Gap, 0, |_| 0);
    }
    let stream_lock = write(writer, stream, position, &mut frame);
    frame.clear();
    frame.shrink_to(KEPT);
    let _ = FRAME.try_with(|kept| kept.set(frame));
    stream_lock
}

/// Allocates the memory for a frame before anything is begun. If there is none, the change fails
/// and the process continues.
fn reserve(frame: &mut Vec<u8>, bytes: usize) -> Result<()> {
    if frame.capacity() >= bytes {
        return Ok(());
    }
    let had = fault!("stream.frame").is_ok() && frame.try_reserve(bytes).is_ok();
    if had { Ok(()) } else { Err(no_memory(bytes)) }
}

#[cold]
fn no_memory(bytes: usize) -> Error {
    let text = format!(
        "out of memory for the {bytes} bytes of a change's frame in the map's stream; the change \
         was not made"
    );
    Error::new(ErrorKind::Io, text)
}

/// As [`begin`], without waiting and without an error, for a map that has a stream. `None` if
/// somebody else holds the stream's lock, or if anything unusual is in the way; then nothing is
/// changed.
pub(crate) fn try_begin<'a>(
    writer: &impl Writer,
    (stream, ring): (Stream<'a>, &KnownRing),
    position: &AtomicU64,
    (kind, expires_ms): (ChangeKind, u64),
    key: &[u8],
    value: &[u8],
) -> Option<StreamLock<'a>> {
    let len = (HEADER + key.len() + value.len()).next_multiple_of(8);
    if !fits(len as u64, stream.link.ring_bytes.load(Ordering::Relaxed)) {
        return None;
    }
    let mut short = [0; SHORT];
    let mut long = Vec::new();
    fault!("stream.frame").ok()?;
    let frame = match short.get_mut(..len) {
        Some(frame) => frame,
        None => {
            long.try_reserve_exact(len).ok()?;
            long.resize(len, 0);
            &mut long[..]
        }
    };
    frame::fill(frame, kind, expires_ms, key, value);
    if !robust_lock::try_lock(&stream.head.lock, writer.me()) {
        return None;
    }
    write_locked(stream, |stream| ring.of(stream), position, frame).ok()
}

fn fits(len: u64, ring_bytes: u64) -> bool {
    len.next_multiple_of(8) <= ring_bytes / LARGEST_PART
}

fn write<'a>(
    writer: &impl Writer,
    stream: Stream<'a>,
    position: &AtomicU64,
    frame: &mut [u8],
) -> Result<Option<StreamLock<'a>>> {
    robust_lock::lock(&stream.head.lock, writer, Level::Streams)?;
    write_locked(stream, Stream::ring, position, frame).map(Some)
}

/// Writes the frame, under the stream's lock, which is released if there is an error.
#[inline(always)]
fn write_locked<'a>(
    stream: Stream<'a>,
    ring: impl FnOnce(&Stream<'a>) -> Result<Option<Ring>>,
    position: &AtomicU64,
    frame: &mut [u8],
) -> Result<StreamLock<'a>> {
    let head = stream.head;
    let mut stream_lock = StreamLock { stream, end: 0 };
    step!("stream.locked");
    let ring = match ring(&stream).and_then(|ring| stream.ensure_sound().map(|()| ring)) {
        Ok(Some(ring)) if stream.is_current() => ring,
        other => {
            drop(stream_lock);
            if stream.is_current() {
                other?;
            }
            return Err(Error::new(
                ErrorKind::NotFound,
                "the map was dropped; open it again by name",
            ));
        }
    };
    let frame = match frame.len() as u64 > ring.size() {
        // Only in a damaged hold, whose ring has been replaced by another.
        true => frame::gap(frame),
        false => frame,
    };
    // Relaxed: nobody else changes these under the lock.
    let tail = head.tail.load(Ordering::Relaxed);
    let end = tail + frame.len() as u64;
    frame::seal(frame, tail);
    let claim = head.claim.load(Ordering::Relaxed).max(end);
    head.claim.store(claim, Ordering::Relaxed);
    // The claim before the bytes: a follower that has copied one of these bytes sees that it was
    // lapped. Pairs with the fence of followers.
    fence(Ordering::Release);
    step!("stream.claimed");
    ring.write_around(tail, frame);
    // The prefetch is for the next change, which may come from another process.
    ring.prefetch_to_write(end);
    step!("stream.written");
    // Before the commit: the value may be too large, but never too small.
    position.store(end, Ordering::Relaxed);
    step!("stream.positioned");
    stream_lock.end = end;
    Ok(stream_lock)
}

impl Drop for StreamLock<'_> {
    /// Decides an incomplete change in the same way as after a death.
    fn drop(&mut self) {
        let Stream { space, link, head, .. } = self.stream;
        words::recover_held(space, link, head);
    }
}

impl StreamLock<'_> {
    /// Stores which slot is about to be changed; `slot` is its offset.
    #[inline]
    pub(crate) fn arm(&self, slot: u64) {
        let head = self.stream.head;
        // Relaxed: nobody else changes it under the segment's lock.
        let old = self.stream.space.word(slot).load(Ordering::Relaxed);
        head.old.store(old, Ordering::Relaxed);
        head.end.store(self.end, Ordering::Relaxed);
        step!("stream.armed-fields");
        // Release: the fields are whole when the word is armed, and the frame and the position are
        // visible.
        head.armed.store(slot, Ordering::Release);
        step!("stream.armed");
    }

    /// Announces the change, which is committed now, and releases the stream.
    #[inline]
    pub(crate) fn finish(self) {
        let Stream { head, link, .. } = self.stream;
        let woken = UnwindGuard::new(|| link.event.wake_all());
        // Release: a reader that sees the tail sees the frame.
        head.tail.store(self.end, Ordering::Release);
        step!("stream.announced");
        head.armed.store(0, Ordering::Release);
        step!("stream.disarmed");
        let _ = ManuallyDrop::new(self);
        robust_lock::unlock(&head.lock);
        step!("stream.unlocked");
        woken.done();
        link.event.wake();
    }
}
