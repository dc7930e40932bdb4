//! The extent table: the use of each 64 KiB of the file; claiming extents, freeing them, growing.
//!
//! Every extent has a 32-byte header. Headers of the first 1,024 extents lie in extent 0. Those of
//! extents `2^m .. 2^(m+1)` lie at the beginning of extent `2^m` itself, so a header is found by
//! arithmetic and nothing ever moves. The **state** word is authoritative and changes by CAS. The
//! group words (one bit per claimable extent, in every 64th header) are only hints where to look.
//!
//! Invariants: exactly one CAS from EMPTY or FREE claims an extent. While an extent's state names
//! an owner, only that participant (or its recoverer) changes it. `committed` never shrinks, and
//! every header below it lies in populated memory.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::classes::EXTENT;
use crate::memory::copy;
use crate::os::clock;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::{self, Level, Peers};
use crate::sync::space::{Shared, Space};
use crate::sync::unwind::UnwindGuard;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Offset of [`Growth`] in the superblock page.
pub(crate) const GROWTH_OFFSET: u64 = 512;
const FIRST_HEADERS: u64 = 32768;
const FIRST_RANGE: u64 = 1024;
const HEADER: u64 = 32;
/// Extents in 2 MiB: a huge page, and the step by which larger holds grow.
pub(crate) const BLOCK: u64 = 32;

/// The hold's size, and where to look for free extents.
#[repr(C)]
pub(crate) struct Growth {
    /// Robust lock over growing.
    pub(crate) lock: AtomicU32,
    /// 1 while a cache map exists: bounded maps keep their memory.
    pub(crate) keep_memory: AtomicU32,
    /// Extents whose headers exist; the file is at least that long.
    pub(crate) committed: AtomicU64,
    /// The size limit of the hold.
    pub(crate) max_bytes: AtomicU64,
    /// Group (32 bits) | frees (32 bits): no group (of 64 extents) below this one has a claimable
    /// extent, as of this number of frees.
    pub(crate) group_hint: AtomicU64,
    /// Per class, an extent that was released partly full; 0 for none.
    pub(crate) partial: [AtomicU32; 48],
    /// Extents freed since the last trim round began, and those that were too young then.
    pub(crate) freed: AtomicU64,
    /// When that round began, in monotonic milliseconds.
    pub(crate) trimmed_ms: AtomicU64,
    /// The block up to which memory has been freed to the system; 0 if no round is running
    /// (`memory::trim`).
    pub(crate) trim_cursor: AtomicU64,
}

/// The header of one extent.
#[repr(C)]
pub(crate) struct Header {
    /// [`State`].
    pub(crate) state: AtomicU64,
    /// Up to 64 records: their bitmap. A run's head: its length in extents.
    pub(crate) bits: AtomicU64,
    /// When it was freed, in monotonic milliseconds.
    pub(crate) freed_at: AtomicU64,
    /// In every 64th header: the extents of this group that look claimable.
    pub(crate) group: AtomicU64,
}

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Growth {}
// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Header {}

/// The use of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Unused; reads as zeros once populated; may have no memory.
    Empty = 0,
    /// Unused; holds old bytes.
    Free = 1,
    /// Claimed by its owner, which is about to change it to another kind.
    Claimed = 2,
    /// Records of one class.
    Records = 3,
    /// The first extent of a run with one large record.
    Run = 4,
    /// A later extent of a run or of a directory chunk; the state names the first.
    Body = 5,
    /// Segments of maps. Never changes.
    Segments = 6,
    /// The first extent of a directory chunk. Never changes.
    Directory = 7,
    /// A directory chunk that no map uses.
    SpareDirectory = 8,
    /// The hold's own tables. Never changes.
    Table = 9,
    /// The first extent of a structure's block. While it has an owner, no root names it.
    Block = 10,
    /// Not a kind: damage.
    Unknown = 15,
}

impl Kind {
    fn from_bits(bits: u64) -> Kind {
        use Kind::{Block, Body, Claimed, Directory, Empty, Free, Records, Run, Segments};
        use Kind::{SpareDirectory, Table, Unknown};
        match bits & 15 {
            0 => Empty,
            1 => Free,
            2 => Claimed,
            3 => Records,
            4 => Run,
            5 => Body,
            6 => Segments,
            7 => Directory,
            8 => SpareDirectory,
            9 => Table,
            10 => Block,
            _ => Unknown,
        }
    }
}

/// kind (4 bits) | class (8) | lane (4) | owner (31, 0 for nobody), or for a body: kind | first
/// extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    pub(crate) fn idle(kind: Kind) -> State {
        State(kind as u64)
    }

    pub(crate) fn owned(kind: Kind, class: u8, lane: u32, owner: Owner) -> State {
        State(
            State::unowned(kind, class).0
                | u64::from(lane & 15) << 12
                | u64::from(owner.bits()) << 16,
        )
    }

    /// True if it is of this kind.
    #[inline]
    pub(crate) fn is(self, kind: Kind) -> bool {
        self.0 & 15 == kind as u64
    }

    pub(crate) fn unowned(kind: Kind, class: u8) -> State {
        State(kind as u64 | u64::from(class) << 4)
    }

    pub(crate) fn body(first: u64) -> State {
        State(Kind::Body as u64 | first << 4)
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        Kind::from_bits(self.0)
    }

    #[inline]
    pub(crate) fn class(self) -> u8 {
        (self.0 >> 4) as u8
    }

    /// The participant that may allocate from it; `None` for bodies too.
    pub(crate) fn owner(self) -> Option<Owner> {
        if self.kind() == Kind::Body { None } else { Owner::from_bits((self.0 >> 16) as u32) }
    }

    pub(crate) fn first(self) -> u64 {
        self.0 >> 4
    }
}

impl Header {
    #[inline]
    pub(crate) fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    pub(crate) fn change(&self, from: State, to: State) -> bool {
        // AcqRel: this side sees what the previous owner stored; the next owner sees what this side
        // stored.
        self.state.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Stores a state. Only the owner may call this.
    pub(crate) fn set(&self, state: State) {
        self.state.store(state.0, Ordering::Release);
    }
}

pub(crate) fn growth(space: &Space) -> &Growth {
    space.fixed::<Growth, GROWTH_OFFSET>()
}

/// Extents that exist and that this handle can see.
#[inline]
pub(crate) fn committed(space: &Space) -> u64 {
    growth(space).committed.load(Ordering::Acquire).min(space.reserved() / EXTENT)
}

/// Offset of the header of `extent`.
#[inline]
pub(crate) fn header_offset(extent: u64) -> u64 {
    if extent < FIRST_RANGE {
        return FIRST_HEADERS + extent * HEADER;
    }
    let first = 1 << extent.ilog2();
    first * EXTENT + (extent - first) * HEADER
}

/// The header of `extent`, which is below [`committed`].
#[inline]
pub(crate) fn header(space: &Space, extent: u64) -> &Header {
    space.view(header_offset(extent))
}

/// The header of the extent of `offset`; `None` if that extent does not exist. Otherwise its header
/// does, because it lies before it.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn header_of(space: &Space, offset: u64) -> Option<&Header> {
    if !space.covers_extent_of(offset) {
        return None;
    }
    // SAFETY: the header's bytes exist; the mapping is aligned, and atomics are valid with any
    // bytes.
    Some(unsafe { space.there(header_offset(offset / EXTENT)).cast().as_ref() })
}

/// The same, and the address of `offset`.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn header_and_address(space: &Space, offset: u64) -> Option<(&Header, NonNull<u8>)> {
    if !space.covers_extent_of(offset) {
        return None;
    }
    // One base for both addresses: the compiler does not know that it never changes.
    let base = space.base();
    // SAFETY: as in `header_of`; both are inside the mapping.
    unsafe {
        let header = base.add(header_offset(offset / EXTENT) as usize).cast().as_ref();
        Some((header, base.add(offset as usize)))
    }
}

/// Extents at the beginning of the range of `first` (a power of two) that hold its headers.
fn table_extents(first: u64) -> u64 {
    (first * HEADER).div_ceil(EXTENT)
}

/// The full error of a hold.
pub(crate) fn full(space: &Space, what: &str) -> Error {
    let limit = growth(space).max_bytes.load(Ordering::Relaxed);
    let text = format!(
        "{}: no room for {what}: the size limit ({} MiB), the file system, a quota or a file size \
         limit is reached; delete something or make room",
        space.file().path().display(),
        limit >> 20
    );
    Error::new(ErrorKind::Full, text)
}

/// The error of allocating memory: that of a full hold if any limit leaves no room, else the
/// system's error.
pub(crate) fn not_had(space: &Space, what: &str, error: Error) -> Error {
    if error.is_full() { full(space, what) } else { error }
}

/// Claims one extent for `lane` of the participant; it reads as zeros.
///
/// # Errors
/// `Full` if there is none and the hold cannot grow.
pub(crate) fn claim(space: &Space, peers: &impl Peers, lane: u32) -> Result<u64> {
    let extent = claim_bare(space, peers, lane)?;
    prepare(space, extent, 0, EXTENT)?;
    Ok(extent)
}

/// The same, but the caller still has to [`prepare`] it.
///
/// # Errors
/// `Full` if there is none and the hold cannot grow.
pub(crate) fn claim_bare(space: &Space, peers: &impl Peers, lane: u32) -> Result<u64> {
    loop {
        let seen = committed(space);
        if let Some(extent) = claim_hinted(space, peers.me(), lane, seen) {
            return Ok(extent);
        }
        grow(space, peers, seen, seen + 1)?;
    }
}

fn claim_hinted(space: &Space, me: Owner, lane: u32, committed: u64) -> Option<u64> {
    // Acquire pairs with the release of `look_from`: the bits of freed extents are visible.
    let seen = growth(space).group_hint.load(Ordering::Acquire);
    for group in u64::from(seen as u32)..committed.div_ceil(64) {
        let mut bits = group_bits(space, group);
        while bits != 0 {
            let extent = group * 64 + u64::from(bits.trailing_zeros());
            bits &= bits - 1;
            if extent < committed && take(space, extent, me, lane) {
                skip_to(space, seen, group);
                return Some(extent);
            }
        }
    }
    skip_to(space, seen, committed / 64);
    None
}

/// The extents of a group that look claimable.
pub(crate) fn group_bits(space: &Space, group: u64) -> u64 {
    header(space, group * 64).group.load(Ordering::Relaxed)
}

/// The number of frees of extents, modulo 2^32.
pub(crate) fn frees(space: &Space) -> u32 {
    (growth(space).group_hint.load(Ordering::Acquire) >> 32) as u32
}

/// Records that nothing was found below a group since the hint was `seen`. Leaves the hint as it is
/// if somebody freed something meanwhile.
fn skip_to(space: &Space, seen: u64, group: u64) {
    let next = seen >> 32 << 32 | group.min(u32::MAX.into());
    if next != seen {
        let hint = &growth(space).group_hint;
        let _ = hint.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Called after the bits of freed extents were set, the first of which is `extent`. A search then
/// begins there or before.
pub(crate) fn look_from(space: &Space, extent: u64) {
    let hint = &growth(space).group_hint;
    let lower = |seen: u64| {
        let frees = (seen >> 32).wrapping_add(1) << 32;
        Some(frees | (seen & u64::from(u32::MAX)).min(extent / 64))
    };
    // Release: the bits come first. Pairs with the acquire of a search.
    let _ = hint.fetch_update(Ordering::Release, Ordering::Relaxed, lower);
}

/// CASes an extent from EMPTY or FREE to CLAIMED; its group bit follows.
pub(crate) fn take(space: &Space, extent: u64, me: Owner, lane: u32) -> bool {
    let header = header(space, extent);
    let state = header.state();
    let claimable = matches!(state.kind(), Kind::Empty | Kind::Free);
    let class = state.kind() as u8;
    if claimable && header.change(state, State::owned(Kind::Claimed, class, lane, me)) {
        let rolled_back = UnwindGuard::new(|| release_unused(space, extent));
        step!("extent.claimed");
        rolled_back.done();
        unhint(space, extent);
        return true;
    }
    if !claimable {
        // A stale hint. Clear it, then look again: the extent may have been freed in between.
        unhint(space, extent);
        if matches!(header.state().kind(), Kind::Empty | Kind::Free) {
            hint(space, extent);
            look_from(space, extent);
        }
    }
    false
}

/// Allocates memory for `len` bytes of a claimed extent and zeroes them. Releases the extent on
/// failure.
///
/// # Errors
/// `Full` if there is no memory; those of the system.
pub(crate) fn prepare(space: &Space, extent: u64, from: u64, len: u64) -> Result<()> {
    // A free extent may have lost its memory in part. A reader that meets such a part could have
    // the whole extent covered (`os::page_guard`) while this thread writes zeros to another.
    let missing = if was_free(space, extent) { (0, EXTENT) } else { (from, len) };
    if let Err(error) = populate_bytes(space, extent * EXTENT + missing.0, missing.1) {
        release_unused(space, extent);
        return Err(not_had(space, "more memory", error));
    }
    let rolled_back = UnwindGuard::new(|| release_unused(space, extent));
    step!("extent.populated");
    rolled_back.done();
    if was_free(space, extent) {
        zero(space, extent, from, len);
    }
    header(space, extent).bits.store(0, Ordering::Relaxed);
    Ok(())
}

/// Releases a claimed extent that was not used for anything.
pub(crate) fn release_unused(space: &Space, extent: u64) {
    let kind = if was_free(space, extent) { Kind::Free } else { Kind::Empty };
    header(space, extent).set(State::idle(kind));
    hint(space, extent);
    look_from(space, extent);
}

/// While the kind is CLAIMED, the class field contains the extent's previous kind.
fn was_free(space: &Space, extent: u64) -> bool {
    header(space, extent).state().class() == Kind::Free as u8
}

/// Zeroes bytes of an extent that the caller owns.
#[allow(unsafe_code)]
pub(crate) fn zero(space: &Space, extent: u64, from: u64, len: u64) {
    // SAFETY: the extent is committed and owned by the caller.
    unsafe { copy::zero(space.at(extent * EXTENT + from, len), len as usize) }
}

/// Makes sure that `count` extents have memory, so that touching them never faults.
pub(crate) fn populate(space: &Space, extent: u64, count: u64) -> Result<()> {
    populate_bytes(space, extent * EXTENT, count * EXTENT)
}

fn populate_bytes(space: &Space, start: u64, len: u64) -> Result<()> {
    let failed = |e: std::io::Error| Error::os(space.file().path().display(), &e);
    if !space.in_memory() {
        space.file().allocate(start, len).map_err(failed)?;
    }
    space.populate(start, len).map_err(failed)
}

fn hint(space: &Space, extent: u64) {
    // Release: a reader that follows the hint sees the state stored before.
    header(space, extent & !63).group.fetch_or(1 << (extent & 63), Ordering::Release);
}

pub(crate) fn unhint(space: &Space, extent: u64) {
    header(space, extent & !63).group.fetch_and(!(1 << (extent & 63)), Ordering::AcqRel);
}

/// Frees an extent that the caller owns.
pub(crate) fn free(space: &Space, extent: u64) {
    let header = header(space, extent);
    header.freed_at.store(clock::monotonic_ns() / 1_000_000, Ordering::Relaxed);
    header.set(State::idle(Kind::Free));
    let hinted = UnwindGuard::new(|| {
        hint(space, extent);
        look_from(space, extent);
    });
    step!("free.freed");
    // Relaxed: only determines when to begin a trim round.
    growth(space).freed.fetch_add(1, Ordering::Relaxed);
    drop(hinted);
}

/// Changes an extent that the caller claimed and punched to EMPTY. A call of [`look_from`] must
/// follow.
pub(crate) fn empty(space: &Space, extent: u64) {
    header(space, extent).set(State::idle(Kind::Empty));
    hint(space, extent);
}

/// Sets the hint bits of all claimable extents, after a crash between a state and its hint.
pub(crate) fn rebuild_hints(space: &Space) {
    for extent in 0..committed(space) {
        if matches!(header(space, extent).state().kind(), Kind::Empty | Kind::Free) {
            hint(space, extent);
        }
    }
    look_from(space, 0);
}

/// Grows the hold to at least `wanted` extents, unless somebody else has grown it past `seen`.
///
/// # Errors
/// `Full` at the size limit, at the end of the reservation, or when the file system is full.
pub(crate) fn grow(space: &Space, peers: &impl Peers, seen: u64, wanted: u64) -> Result<()> {
    let growth = growth(space);
    // Before the lock: a call in a hold that cannot grow waits for nobody.
    let new = allowed(space, seen, wanted)?;
    let _lock = robust_lock::hold(&growth.lock, peers, Level::Growth)?;
    step!("grow.locked");
    match committed(space) == seen {
        true => extend(space, seen, new),
        false => Ok(()),
    }
}

/// The size to which a hold of `old` extents grows if it needs `wanted`. The limit never changes.
///
/// # Errors
/// `Full` if the limit is below what is needed.
fn allowed(space: &Space, old: u64, wanted: u64) -> Result<u64> {
    let limit = growth(space).max_bytes.load(Ordering::Relaxed).min(space.reserved()) / EXTENT;
    let (new, least) = target(old, wanted);
    if limit < least {
        return Err(full(space, "more extents"));
    }
    Ok(new.min(limit))
}

/// Under the growth lock.
fn extend(space: &Space, old: u64, new: u64) -> Result<()> {
    lengthen(space, old, new)?;
    for first in ranges(old, new) {
        for extent in first..first + table_extents(first) {
            header(space, extent).set(State::idle(Kind::Table));
        }
    }
    step!("grow.extended");
    // Release: the headers are ready before anybody can access them.
    growth(space).committed.store(new, Ordering::Release);
    let hinted = UnwindGuard::new(|| {
        let empty = |extent: &u64| header(space, *extent).state().kind() == Kind::Empty;
        (old..new).filter(empty).for_each(|extent| hint(space, extent));
    });
    step!("grow.committed");
    drop(hinted);
    Ok(())
}

/// The size to grow to, and the least sufficient one. Small holds grow by a quarter, larger ones by
/// 2 MiB. Both sizes have room for the headers of every range that they enter.
fn target(old: u64, wanted: u64) -> (u64, u64) {
    let step = |extents: u64| match extents < 2 * BLOCK {
        true => extents.max(old + old / 4),
        false => extents.next_multiple_of(BLOCK),
    };
    let mut new = step(wanted);
    loop {
        let least = wanted + ranges(old, new).map(table_extents).sum::<u64>();
        if step(least) == new {
            return (new, least);
        }
        new = step(least);
    }
}

/// The first extents of the header ranges that begin within `old..new`.
fn ranges(old: u64, new: u64) -> impl Iterator<Item = u64> {
    (FIRST_RANGE.ilog2()..48).map(|m| 1u64 << m).filter(move |first| (old..new).contains(first))
}

fn lengthen(space: &Space, old: u64, new: u64) -> Result<()> {
    let file = space.file();
    let failed = |error: std::io::Error| {
        not_had(space, "a longer file", Error::os(file.path().display(), &error))
    };
    // A predecessor may have died after it lengthened the file: never shorten it.
    if file.len().map_err(failed)? < new * EXTENT {
        file.set_len(new * EXTENT).map_err(failed)?;
    }
    space.has_been_lengthened(new * EXTENT);
    // The headers of the new extents, by whole pages.
    let mut extent = old;
    while extent < new {
        let last = (extent | 127).min(new - 1);
        let page = header_offset(extent) & !4095;
        let end = header_offset(last) + HEADER;
        if extent >= FIRST_RANGE {
            if !space.in_memory() {
                file.allocate(page, end - page).map_err(failed)?;
            }
            space.mapping().populate(page, (end - page).next_multiple_of(4096)).map_err(failed)?;
        }
        extent = last + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_leaves_room_for_the_headers_it_enters() {
        assert_eq!(target(4, 5), (5, 5));
        assert_eq!(target(40, 41), (50, 41));
        assert_eq!(target(1024, 1025), (1056, 1026));
        assert_eq!(target(1 << 17, (1 << 17) + 1), ((1 << 17) + 96, (1 << 17) + 65));
        let (new, least) = target(500, 3000);
        assert!(new >= least && least == 3002);
    }

    #[test]
    fn headers_never_overlap_their_neighbours() {
        assert_eq!(header_offset(1023) + HEADER, EXTENT);
        assert_eq!(header_offset(1024), 1024 * EXTENT);
        assert_eq!(table_extents(1024), 1);
        assert_eq!(header_offset(2047) + HEADER, 1024 * EXTENT + EXTENT / 2);
    }
}
