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
use crate::stream::words::{Link, RING, Stream};
use crate::sync::owner::Owner;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use crate::sync::unwind::Mend;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

/// The smallest ring of a stream, and the largest.
const LEAST: u64 = EXTENT;
const MOST: u64 = 1 << 32;

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

/// Begins the map's stream in this memory. The caller holds the freeze lock and the names lock, so
/// nobody writes to the map and nobody drops it. False if the map has a stream already.
///
/// # Errors
/// Those of drawing a number.
pub(crate) fn begin(stream: Stream<'_>, ring: Claimed<'_, '_>) -> Result<bool> {
    let (link, head) = (stream.link, stream.head);
    if link.ring.load(Ordering::Acquire) != 0 {
        return Ok(false);
    }
    renumber(link)?;
    for word in [&head.tail, &head.claim, &head.armed] {
        word.store(0, Ordering::Relaxed);
    }
    link.ring_bytes.store(ring.bytes, Ordering::Relaxed);
    let (lane, first) = (ring.lane, ring.first);
    let head = header(lane.space(), first);
    head.set(State::owned(Kind::Block, RING, lane.lane(), lane.me()));
    // Release: the stream is complete when the root names it.
    link.ring.store(first * EXTENT, Ordering::Release);
    let _ = ManuallyDrop::new(ring);
    let given = Mend::new(|| head.set(State::unowned(Kind::Block, RING)));
    step!("stream.linked");
    drop(given);
    step!("stream.begun");
    Ok(true)
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

/// Draws a new number for a stream: from now on it has nothing in common with any other stream.
/// Nobody follows it yet.
///
/// # Errors
/// Those of drawing random numbers.
pub(crate) fn renumber(link: &Link) -> Result<()> {
    let random = location::random_bytes::<8>().map_err(|e| Error::os("random number", &e))?;
    link.number.store(u64::from_le_bytes(random), Ordering::Relaxed);
    Ok(())
}

/// Frees the memory of a stream whose map no participant can use any more. May be repeated.
pub(crate) fn end(writer: &impl Writer, link: &Link) {
    block::free_linked(writer, &link.ring, RING);
}
