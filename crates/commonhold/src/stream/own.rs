//! The memory of a stream: a run of extents that the map's root links.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::block;
use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, Kind, State, header};
use crate::memory::lane::LaneGuard;
use crate::memory::runs;
use crate::memory::writer::Writer;
use crate::os::location;
use crate::steps::step;
use crate::stream::append::LARGEST_PART;
use crate::stream::position::StreamPosition;
use crate::stream::words::{FARTHEST, Link, RING, Stream};
use crate::sync::owner::Owner;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

/// The smallest ring of a stream, and the largest.
const LEAST: u64 = EXTENT;
const MOST: u64 = 1 << 32;
/// The size of a ring if nothing else is asked for.
const USUAL: u64 = 64 << 20;

/// The size of the ring for a stream of this many bytes.
///
/// # Errors
/// `Invalid` if the size is absurd.
pub(crate) fn size(bytes: u64) -> Result<u64> {
    if bytes > MOST {
        let text = format!("expected a stream of 64 KiB to 4 GiB, got {bytes} bytes");
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    Ok(bytes.max(LEAST).next_power_of_two())
}

/// The size of the ring that has room for a frame of `frame` bytes; `None` if no ring has.
pub(crate) fn size_for(frame: u64) -> Option<u64> {
    let bytes = frame.checked_next_multiple_of(8)?.checked_mul(LARGEST_PART)?;
    size(bytes).ok()
}

/// When a stream is replaced by one of another size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resizing {
    /// Never: any stream stays.
    Never,
    /// If it is smaller.
    Grow,
    /// If its size differs.
    Any,
}

impl Resizing {
    pub(crate) fn replaces(self, old: u64, new: u64) -> bool {
        match self {
            Resizing::Never => false,
            Resizing::Grow => old < new,
            Resizing::Any => old != new,
        }
    }
}

/// Memory for a ring that is not yet linked. Dropping this frees it, unless it has been linked.
pub(crate) struct Claimed<'l, 'a> {
    lane: &'l LaneGuard<'a>,
    first: u64,
    bytes: u64,
}

impl Drop for Claimed<'_, '_> {
    fn drop(&mut self) {
        runs::free_claimed(self.lane.space(), self.first);
    }
}

/// Claims memory for a ring of `bytes`, a [`size`], and zeroes it.
///
/// # Errors
/// `Full`.
pub(crate) fn claim<'l, 'a>(lane: &'l LaneGuard<'a>, bytes: u64) -> Result<Claimed<'l, 'a>> {
    let space = lane.space();
    let first = runs::claim(space, lane, lane.lane(), bytes / EXTENT)?;
    let claimed = Claimed { lane, first, bytes };
    // It stays CLAIMED until it is linked, so a concurrent check does not look for a structure that
    // uses it.
    step!("stream.claimed-memory");
    for extent in first..first + bytes / EXTENT {
        extents::zero(space, extent, 0, EXTENT);
    }
    Ok(claimed)
}

/// Begins the map's stream in this memory, with a number of its own or, if it is the map's first
/// one, at a position of another map's stream, whose changes it continues. Of the numbers, which
/// [`draw_numbers`] has drawn, an old stream that ends gets the first one. Nothing fails. The
/// caller holds the freeze lock and the names lock, so nobody writes to the map and nobody drops
/// it. If the map has a stream already, it ends, or this returns false: `resizing` decides.
pub(crate) fn begin(
    stream: Stream<'_>,
    ring: Claimed<'_, '_>,
    resizing: Resizing,
    at: Option<StreamPosition>,
    numbers: [u64; 2],
) -> bool {
    let (link, head) = (stream.link, stream.head);
    if link.ring.load(Ordering::Acquire) != 0 {
        if !resizing.replaces(link.ring_bytes.load(Ordering::Relaxed), ring.bytes) {
            return false;
        }
        // Followers must see the new number before the old ring's memory becomes anything else.
        renumber(link, numbers[0]);
        step!("stream.renumbered");
        end(ring.lane, link);
        step!("stream.ended");
    }
    // A position of another machine may be anything. If the map had a stream, whose resizing was
    // killed, a follower of that one must not take this one for it, because the changes in between
    // are in neither.
    let is_first = link.ring_bytes.load(Ordering::Relaxed) == 0;
    let is_sound = |at: &StreamPosition| at.offset.is_multiple_of(8) && at.offset < FARTHEST;
    let at = at.filter(|at| is_first && is_sound(at));
    match at {
        Some(at) => link.number.store(at.stream, Ordering::Relaxed),
        None => renumber(link, numbers[1]),
    }
    let offset = at.map_or(0, |at| at.offset);
    head.claim.store(offset, Ordering::Relaxed);
    // Release pairs with the acquire in `Follower::end`: a follower that sees the new tail sees the
    // new number.
    head.tail.store(offset, Ordering::Release);
    for word in [&head.armed, &head.left_out] {
        word.store(0, Ordering::Relaxed);
    }
    link.ring_bytes.store(ring.bytes, Ordering::Relaxed);
    let (lane, first) = (ring.lane, ring.first);
    let head = header(lane.space(), first);
    head.set(State::owned(Kind::Block, RING, lane.lane(), lane.me()));
    // Release: the stream is complete when the root names it.
    link.ring.store(first * EXTENT, Ordering::Release);
    let _ = ManuallyDrop::new(ring);
    let given = UnwindGuard::new(|| head.set(State::unowned(Kind::Block, RING)));
    step!("stream.linked");
    drop(given);
    step!("stream.begun");
    true
}

/// Gives the map a ring that the dead `owner` had linked and not released. Called before the names
/// lock is released: a participant that drops the map frees what only the map owns.
pub(crate) fn adopt(space: &Space, link: &Link, owner: Owner) {
    let extent = link.ring.load(Ordering::Acquire) / EXTENT;
    if extent != 0 && extent < extents::committed(space) {
        let header = header(space, extent);
        let state = header.state();
        if state.is(Kind::Block) && state.class() == RING && state.owner() == Some(owner) {
            header.change(state, State::unowned(Kind::Block, RING));
        }
    }
}

/// Two numbers that no stream has yet.
///
/// # Errors
/// Those of drawing random numbers.
pub(crate) fn draw_numbers() -> Result<[u64; 2]> {
    let random = location::random_bytes::<16>().map_err(|e| Error::os("random number", &e))?;
    let random = u128::from_le_bytes(random);
    Ok([random as u64, (random >> 64) as u64])
}

/// Gives a stream a new number: from now on it has nothing in common with any other stream. Its
/// followers have to begin again.
pub(crate) fn renumber(link: &Link, number: u64) {
    // Release: pairs with the fence of followers. Memory that is freed later, and used again, shows
    // its new bytes only to a follower that sees this number.
    link.number.store(number, Ordering::Release);
}

/// Frees the memory of a stream that no participant can use any more. Its size stays, for the next
/// stream of the map. May be repeated.
fn end(writer: &impl Writer, link: &Link) {
    block::free_linked(writer, &link.ring, RING);
}

/// The same for the stream of a map that no participant can use any more.
pub(crate) fn end_of_map(writer: &impl Writer, link: &Link) {
    end(writer, link);
    link.ring_bytes.store(0, Ordering::Relaxed);
}

/// The size of the ring that a stream gets unless another one is asked for: that of the stream
/// before, if its resizing was interrupted.
pub(crate) fn usual_size(link: &Link) -> u64 {
    match link.ring_bytes.load(Ordering::Relaxed) {
        0 => USUAL,
        bytes => bytes,
    }
}
