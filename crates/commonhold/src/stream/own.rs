//! The memory of a stream: a run of extents that the map's root links.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::arena::Writer;
use crate::memory::block;
use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, Kind, State, header};
use crate::memory::lane::LaneGuard;
use crate::memory::runs;
use crate::os::place;
use crate::steps::step;
use crate::stream::words::{Link, Stream};
use crate::sync::robust_lock::Peers;
use std::sync::atomic::Ordering;

/// The smallest ring of a stream, and the largest.
const LEAST: u64 = EXTENT;
const MOST: u64 = 1 << 32;

/// The size of the ring that is made for so many bytes.
///
/// # Errors
/// `Invalid` if nobody can mean that.
pub(crate) fn size(bytes: u64) -> Result<u64> {
    if bytes > MOST {
        let text = format!("a stream of {bytes} bytes: want 64 KiB to 4 GiB");
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    Ok(bytes.max(LEAST).next_power_of_two())
}

/// Gives the map a stream of `bytes`, a [`size`]. Nobody writes to the map meanwhile, and nobody drops it. False if it
/// has one already.
///
/// # Errors
/// `Full`.
pub(crate) fn begin(lane: &LaneGuard<'_>, stream: Stream<'_>, bytes: u64) -> Result<bool> {
    let (space, link, head) = (lane.space(), stream.link, stream.head);
    if link.ring.load(Ordering::Acquire) != 0 {
        return Ok(false);
    }
    renumber(link)?;
    let first = runs::claim(space, lane, lane.lane(), bytes / EXTENT)?;
    header(space, first).set(State::owned(Kind::Block, 0, lane.lane(), lane.me()));
    step!("stream.claimed-memory");
    for extent in first..first + bytes / EXTENT {
        extents::zero(space, extent, 0, EXTENT);
    }
    for word in [&head.tail, &head.claim, &head.armed] {
        word.store(0, Ordering::Relaxed);
    }
    link.ring_bytes.store(bytes, Ordering::Relaxed);
    // Release: the stream is whole when it is named.
    link.ring.store(first * EXTENT, Ordering::Release);
    step!("stream.linked");
    header(space, first).set(State::unowned(Kind::Block, 0));
    step!("stream.begun");
    Ok(true)
}

/// Draws a number for a stream: it has nothing in common with any other from now on. Nobody follows it yet.
///
/// # Errors
/// Those of drawing random numbers.
pub(crate) fn renumber(link: &Link) -> Result<()> {
    let random = place::random_bytes::<8>().map_err(|e| Error::os("random number", &e))?;
    link.number.store(u64::from_le_bytes(random), Ordering::Relaxed);
    Ok(())
}

/// Frees the memory of a stream whose map is gone for everybody. May be repeated.
pub(crate) fn end(writer: &impl Writer, link: &Link) {
    block::free_linked(writer, &link.ring);
}
