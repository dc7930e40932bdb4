//! The directory: from a hash's low bits to a segment. It doubles by adding chunks that never move.
//!
//! Entries are segment offsets / 64 in 32 bits. Those below 2^14 lie in one extent; entries `2^m ..
//! 2^(m+1)` lie in a chunk of their own. The global depth is the commit point of doubling, which
//! adds a *zeroed* chunk. A zero entry means "drop the top set bit", so doubling copies nothing.
//! After Fagin et al., "Extendible Hashing" (1979), with Larson-style lazy entries.

use crate::error::{Error, ErrorKind, Result};
use crate::map::engine::bound::Bound;
use crate::map::layout::hash::MAX_DEPTH;
use crate::map::layout::root::{FIRST_BITS, Root};
use crate::map::layout::segment::{Phase, Segment};
use crate::memory::classes::{EXTENT, SEGMENT_BYTES};
use crate::memory::extents::{self, Kind, State, committed, header, header_and_address, header_of};
use crate::memory::lane::LaneGuard;
use crate::memory::runs;
use crate::memory::writer::Writer;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::{self, Held, Level, Peers};
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Depth of a new map: 16 segments, together half an extent.
pub(crate) const FIRST_DEPTH: u32 = 4;

/// The current depth of the directory.
#[inline]
pub(crate) fn depth(root: &Root) -> u32 {
    root.depth.load(Ordering::Acquire).min(MAX_DEPTH)
}

#[inline]
fn entry<'a>(space: &'a Space, root: &Root, index: u32) -> &'a AtomicU32 {
    if index < 1 << FIRST_BITS {
        let chunk = root.first_chunk.load(Ordering::Relaxed);
        return space.half(chunk.wrapping_add(u64::from(index) * 4));
    }
    let top = index.ilog2();
    let chunk = root.chunks[(top - FIRST_BITS) as usize].load(Ordering::Acquire);
    // A damaged offset may wrap around.
    space.half(chunk.wrapping_add(u64::from(index - (1 << top)) * 4))
}

/// The index of the entry of a key with these directory bits.
#[inline(always)]
fn index(root: &Root, bits: u32) -> u32 {
    // Acquire, as in `depth`. The shift takes the low bits of a damaged depth.
    bits & (1u32.wrapping_shl(root.depth.load(Ordering::Acquire)).wrapping_sub(1))
}

/// The segment for these directory bits; `None` only if the hold is damaged or the map is gone.
#[inline(always)]
pub(crate) fn lookup<'a>(space: &'a Space, bound: &Bound, bits: u32) -> Option<Segment<'a>> {
    let root = bound.root(space);
    let index = index(root, bits);
    let mut found = bound.chunks.load(space, root, index)?;
    if found == 0 {
        found = lookup_lazily(space, bound, index)?;
    }
    Segment::at(space, u64::from(found) * 64)
}

/// The segment for these directory bits, if the entry itself names it: for a writer, which would
/// have to fill a lazy entry.
#[inline(always)]
pub(crate) fn lookup_own<'a>(space: &'a Space, bound: &Bound, bits: u32) -> Option<Segment<'a>> {
    let root = bound.root(space);
    let found = bound.chunks.load(space, root, index(root, bits))?;
    segment_there(space, u64::from(found) * 64)
}

/// The segment that can begin at `offset`.
#[inline(always)]
#[allow(unsafe_code)]
fn segment_there(space: &Space, offset: u64) -> Option<Segment<'_>> {
    let (header, address) = header_and_address(space, offset)?;
    let is_segment = header.state().is(Kind::Segments) && can_begin_at(offset % EXTENT);
    // SAFETY: the extent exists, and the segment ends in it.
    is_segment.then(|| unsafe { Segment::there(space, offset, address) })
}

/// True if a segment can begin this many bytes after the beginning of an extent.
#[inline(always)]
fn can_begin_at(within: u64) -> bool {
    // The number of the segment: a division without a remainder is a multiplication by the inverse
    // of the odd factor. Any other number of bytes has a larger result.
    let times_inverse = (within as u16).wrapping_mul(INVERSE);
    times_inverse.rotate_right(SHIFT) < (EXTENT / SEGMENT_BYTES) as u16
}

/// The length of a segment is an odd number, shifted by this.
const SHIFT: u32 = SEGMENT_BYTES.trailing_zeros();
/// The inverse of that odd number, modulo 2^16. Each round doubles the number of right bits.
const INVERSE: u16 = {
    let odd = (SEGMENT_BYTES >> SHIFT) as u16;
    let (mut inverse, mut bits) = (odd, 3);
    while bits < u16::BITS {
        inverse = inverse.wrapping_mul(2u16.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
};

/// True if the entry of these bits still names the segment.
#[inline(always)]
pub(crate) fn is_own(space: &Space, bound: &Bound, bits: u32, segment: Segment<'_>) -> bool {
    let root = bound.root(space);
    let found = bound.chunks.load(space, root, index(root, bits));
    found.is_some_and(|found| u64::from(found) * 64 == segment.offset)
}

/// The entry that stands in for a lazy one.
#[inline(never)]
fn lookup_lazily(space: &Space, bound: &Bound, index: u32) -> Option<u32> {
    let (root, mut index) = (bound.root(space), index);
    loop {
        index &= !(1 << index.checked_ilog2()?);
        let found = bound.chunks.load(space, root, index)?;
        if found != 0 {
            return Some(found);
        }
    }
}

/// The same for a writer: checks that the offset is that of a segment.
pub(crate) fn lookup_checked<'a>(
    space: &'a Space,
    bound: &Bound,
    bits: u32,
) -> Result<Segment<'a>> {
    let found = lookup(space, bound, bits).filter(|s| is_segment(space, s.offset));
    match found {
        Some(segment) => Ok(segment),
        None => {
            bound.ensure_current(space)?;
            Err(bound.damaged("its directory names no segment"))
        }
    }
}

/// The segment at `offset`, if one can begin there.
pub(crate) fn segment_at(space: &Space, offset: u64) -> Option<Segment<'_>> {
    Segment::at(space, offset).filter(|_| offset != 0 && is_segment(space, offset))
}

/// True if a segment can begin at `offset`.
#[inline]
pub(crate) fn is_segment(space: &Space, offset: u64) -> bool {
    header_of(space, offset).is_some_and(|header| header.state().is(Kind::Segments))
        && (offset % EXTENT).is_multiple_of(SEGMENT_BYTES)
        && offset % EXTENT + SEGMENT_BYTES <= EXTENT
}

/// Fills the entry of these bits if it is still lazy. Under the lock of its segment.
#[inline]
pub(crate) fn fill(space: &Space, bound: &Bound, bits: u32, segment: Segment<'_>) {
    let root = bound.root(space);
    let index = index(root, bits);
    let own = bound.chunks.entry(space, root, index);
    if let Some(own) = own.filter(|own| own.load(Ordering::Relaxed) == 0) {
        fill_lazy(own, is_stored_in_a_chunk(space, root, index), segment);
    }
}

#[inline(never)]
fn fill_lazy(own: &AtomicU32, is_stored: bool, segment: Segment<'_>) {
    if is_stored {
        step!("fill.locked");
        own.store((segment.offset / 64) as u32, Ordering::Release);
    }
}

/// The directory's lock, and the depth that was read under it: everything that publishing a split
/// needs.
pub(crate) struct Entries<'a> {
    space: &'a Space,
    root: &'a Root,
    depth: u32,
    _lock: Held<'a>,
}

impl<'a> Entries<'a> {
    /// Takes the lock and checks that every entry of the split of this segment can be stored.
    ///
    /// # Errors
    /// Those of locking; damage. Nothing is changed then.
    pub(crate) fn lock(
        writer: &impl Writer,
        root: &'a Root,
        space: &'a Space,
        phase: Phase,
    ) -> Result<Entries<'a>> {
        let _lock = robust_lock::hold(&root.directory_lock, writer, Level::Directories)?;
        let entries = Entries { space, root, depth: depth(root), _lock };
        step!("split.entries-locked");
        let is_there = |index| is_stored_in_a_chunk(space, root, index);
        if entries.covered(phase).all(is_there) { Ok(entries) } else { Err(damaged(space)) }
    }

    /// Indices of the entries of a segment and of the child that it is split into.
    fn covered(&self, phase: Phase) -> impl Iterator<Item = u32> + use<> {
        (phase.prefix..1 << self.depth).step_by(1 << phase.depth)
    }

    /// Stores every entry that the child of a split covers and the lazy ones of the parent, then
    /// unlocks.
    pub(crate) fn publish(self, phase: Phase, parent: Segment<'_>) {
        let rest = UnwindGuard::new(|| self.store_all(phase, parent));
        step!("split.publishing");
        self.store_all(phase, parent);
        rest.done();
        drop(self);
        step!("split.entries-stored");
    }

    fn store_all(&self, phase: Phase, parent: Segment<'_>) {
        for index in self.covered(phase) {
            let is_child = index & 1 << phase.depth != 0;
            let owner = if is_child { phase.child } else { parent.offset };
            let entry = entry(self.space, self.root, index);
            entry.store((owner / 64) as u32, Ordering::Release);
            step!("split.entry-stored");
        }
    }
}

/// Doubles the directory unless its depth exceeds `local` already.
pub(crate) fn double(lane: &LaneGuard<'_>, root: &Root, local: u32) -> Result<()> {
    let _lock = robust_lock::hold(&root.directory_lock, lane, Level::Directories)?;
    step!("double.locked");
    if depth(root) > local { Ok(()) } else { add_chunk(lane, root, depth(root)) }
}

/// Zeroes the chunk that depth + 1 needs, then commits the depth. Under the directory lock.
fn add_chunk(lane: &LaneGuard<'_>, root: &Root, depth: u32) -> Result<()> {
    if depth >= FIRST_BITS {
        let space = lane.space();
        let link = &root.chunks[(depth - FIRST_BITS) as usize];
        let count = 1u64 << (depth - FIRST_BITS);
        let mut chunk = link.load(Ordering::Acquire);
        let fresh = chunk == 0;
        if fresh {
            chunk = claim_chunk(lane, count)? * EXTENT;
        }
        // An unlinked chunk becomes spare.
        let made_spare = UnwindGuard::new(|| {
            let kind = if is_linked(root, chunk) { Kind::Directory } else { Kind::SpareDirectory };
            if fresh {
                header(space, chunk / EXTENT).set(State::unowned(kind, 0));
            }
        });
        if fresh {
            step!("double.claimed");
        }
        if !is_chunk(space, chunk) || runs::length(space, chunk / EXTENT) < count {
            return Err(damaged(space));
        }
        // This includes a chunk that a dead predecessor linked without committing the depth.
        extents::zero(space, chunk / EXTENT, 0, count * EXTENT);
        if fresh {
            link.store(chunk, Ordering::Release);
            step!("double.linked");
        }
        drop(made_spare);
    }
    // Release: a reader that sees the depth sees the zeroed chunk.
    root.depth.store(depth + 1, Ordering::Release);
    step!("double.committed");
    Ok(())
}

/// Gives the map the chunk that the dead `owner` had linked and not released. Called before the
/// directory's lock is released: while it is held, the splitter's segment is locked too, and so no
/// participant that drops the map can free the chunk.
pub(crate) fn adopt(space: &Space, root: &Root, owner: Owner) {
    for chunk in root.chunks.iter().map(|link| link.load(Ordering::Acquire)) {
        let header = is_chunk(space, chunk).then(|| header(space, chunk / EXTENT));
        let state = header.map(|header| (header, header.state()));
        if let Some((header, state)) = state.filter(|(_, state)| state.owner() == Some(owner)) {
            header.change(state, State::unowned(Kind::Directory, 0));
        }
    }
}

/// Directory memory for `count` extents of entries, owned by the lane until it is linked. Spare
/// chunks of the same length come first, because this memory is never used for anything else.
pub(crate) fn claim_chunk(lane: &LaneGuard<'_>, count: u64) -> Result<u64> {
    let space = lane.space();
    let owned = State::owned(Kind::Directory, 0, lane.lane(), lane.me());
    let spare = State::unowned(Kind::SpareDirectory, 0);
    for extent in 0..committed(space) {
        let header = header(space, extent);
        if header.state() == spare
            && runs::length(space, extent) == count
            && header.change(spare, owned)
        {
            return Ok(extent);
        }
    }
    let first = runs::claim(space, lane, lane.lane(), count)?;
    header(space, first).set(owned);
    Ok(first)
}

/// Makes a chunk spare that the map of this link no longer needs, when the map ends. May be
/// repeated.
pub(crate) fn free_chunk(writer: &impl Writer, link: &AtomicU64) {
    let (space, me) = (&writer.arena().space, writer.me());
    let chunk = link.load(Ordering::Acquire);
    let mut mine = false;
    if is_chunk(space, chunk) {
        let header = header(space, chunk / EXTENT);
        let state = header.state();
        let free = state == State::unowned(Kind::Directory, 0);
        mine = state.owner() == Some(me)
            || (free && header.change(state, State::owned(Kind::Directory, 0, 0, me)));
    }
    let made_spare = UnwindGuard::new(|| {
        link.store(0, Ordering::Release);
        if mine {
            header(space, chunk / EXTENT).set(State::unowned(Kind::SpareDirectory, 0));
        }
    });
    step!("drop.directory-taken");
    // Release: from here on only its owner accounts for it. Another map gets it only when it is
    // spare.
    link.store(0, Ordering::Release);
    step!("drop.directory-unlinked");
    drop(made_spare);
}

/// True if this offset is that of a directory's chunk.
fn is_chunk(space: &Space, chunk: u64) -> bool {
    chunk != 0
        && chunk.is_multiple_of(EXTENT)
        && chunk / EXTENT < committed(space)
        && header(space, chunk / EXTENT).state().kind() == Kind::Directory
}

/// True if the entry can be stored: a damaged depth or link could lead anywhere.
fn is_stored_in_a_chunk(space: &Space, root: &Root, index: u32) -> bool {
    let link = match index.checked_ilog2() {
        Some(top) if top >= FIRST_BITS => &root.chunks[(top - FIRST_BITS) as usize],
        _ => &root.first_chunk,
    };
    is_chunk(space, link.load(Ordering::Acquire))
}

fn damaged(space: &Space) -> Error {
    let path = space.file().path().display();
    let text = format!("{path}: the directory of a map is damaged; run 'hold repair --salvage'");
    Error::new(ErrorKind::Damaged, text)
}

/// True if the map of `root` uses the chunk at `offset`.
pub(crate) fn is_linked(root: &Root, offset: u64) -> bool {
    root.first_chunk.load(Ordering::Acquire) == offset
        || root.stream.ring.load(Ordering::Acquire) == offset
        || root.chunks.iter().any(|chunk| chunk.load(Ordering::Acquire) == offset)
}

/// Every segment of a map, once, in the order of the smallest index that names it.
pub(crate) fn segments<'a>(
    space: &'a Space,
    root: &'a Root,
) -> impl Iterator<Item = Segment<'a>> + use<'a> {
    // The depth is read each time, because a concurrent split may double the directory.
    (0..1u32 << MAX_DEPTH).take_while(move |index| *index < 1 << depth(root)).filter_map(
        move |index| {
            let found = entry(space, root, index).load(Ordering::Acquire);
            let segment = Segment::at(space, u64::from(found) * 64)?;
            (found != 0 && segment.phase().prefix == index).then_some(segment)
        },
    )
}

/// The entry words themselves, for creation and dropping. `None` where there is no chunk, or no
/// longer one.
pub(crate) fn raw_entry<'a>(space: &'a Space, root: &Root, index: u32) -> Option<&'a AtomicU32> {
    is_stored_in_a_chunk(space, root, index).then(|| entry(space, root, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_begin_at_multiples_of_their_length_and_end_in_their_extent() {
        for within in 0..EXTENT {
            let is = within.is_multiple_of(SEGMENT_BYTES) && within + SEGMENT_BYTES <= EXTENT;
            assert_eq!(can_begin_at(within), is, "{within}");
        }
    }
}
