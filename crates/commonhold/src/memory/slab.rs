//! State words and bitmaps: allocating and retiring records inside an extent (protocol 1).
//!
//! The first word of a record is its state word: FREE (0), WRITING|owner, a sequence (bit 63
//! clear), or RETIRED|owner. FREE implies that the record's bit is clear. Only the owner of the
//! extent allocates from it. Only the participant that unlinked a record under its segment's lock
//! retires it. The recoverer of a dead participant acts as that participant. So no two participants
//! ever change one state word at the same time (docs/internals/concurrency.md, "Records").

use crate::memory::classes::{EXTENT, Geometry, geometry};
use crate::memory::extents::{self, Header, Kind, State, header};
use crate::memory::runs;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const NOT_SEQUENCE: u64 = 1 << 63;
/// All bits that a sequence can have.
pub(crate) const SEQUENCE_BITS: u64 = NOT_SEQUENCE - 1;
const RETIRED: u64 = 1 << 62;

/// The state word of a record that `owner` is writing.
pub(crate) fn writing(owner: Owner) -> u64 {
    NOT_SEQUENCE | u64::from(owner.bits())
}

/// The state word of a record that `owner` is freeing.
pub(crate) fn retired(owner: Owner) -> u64 {
    NOT_SEQUENCE | RETIRED | u64::from(owner.bits())
}

/// True if a state word is the sequence of a published record.
#[inline]
pub(crate) fn is_sequence(state_word: u64) -> bool {
    state_word != 0 && state_word & NOT_SEQUENCE == 0
}

/// The participant that is writing or retiring the record, if any.
pub(crate) fn state_owner(state_word: u64) -> Option<Owner> {
    if state_word & NOT_SEQUENCE == 0 { None } else { Owner::from_bits(state_word as u32) }
}

/// The bitmap word `word` of an extent.
#[inline]
pub(crate) fn bitmap<'a>(
    space: &'a Space,
    header: &'a Header,
    extent: u64,
    geometry: &Geometry,
    word: u32,
) -> &'a AtomicU64 {
    match geometry.front {
        0 => &header.bits,
        _ => space.word(extent * EXTENT + u64::from(word) * 8),
    }
}

/// Takes a free record of an extent that `me` owns, starting at bitmap word `from`. Returns its
/// offset and the number of the bitmap word.
pub(crate) fn allocate(
    space: &Space,
    extent: u64,
    class: u8,
    from: u32,
    me: Owner,
) -> Option<(u64, u32)> {
    let geometry = geometry(class);
    let words = geometry.words();
    let mut words = (from..words).chain(0..from.min(words));
    words.find_map(|word| Some((allocate_in(space, extent, geometry, word, me)?, word)))
}

/// The same from one word of the bitmap of an extent that exists.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn allocate_in(
    space: &Space,
    extent: u64,
    geometry: &Geometry,
    word: u32,
    me: Owner,
) -> Option<u64> {
    let bits = match geometry.front {
        0 => &header(space, extent).bits,
        // SAFETY: the bitmap is the front of the extent.
        _ => unsafe { space.word_there(extent * EXTENT + u64::from(word) * 8) },
    };
    // Acquire pairs with the release of the clearing in `retire`.
    let mut free = !bits.load(Ordering::Acquire) & geometry.valid(word);
    while free != 0 {
        let bit = free.trailing_zeros();
        let offset = extent * EXTENT + geometry.within(word * 64 + bit);
        // SAFETY: a record of the extent.
        let state_word = unsafe { space.word_there(offset) };
        // Acquire pairs with the release of FREE: the last user has finished with the record.
        if state_word.load(Ordering::Acquire) == 0 {
            take(bits, 1 << bit, state_word, me);
            return Some(offset);
        }
        free &= free - 1;
    }
    None
}

#[inline(always)]
fn take(bits: &AtomicU64, bit: u64, state_word: &AtomicU64, me: Owner) {
    let rolled_back = UnwindGuard::new(|| give_back(bits, bit, state_word));
    state_word.store(writing(me), Ordering::Relaxed);
    // A reader that sees new bytes also sees that the state word is no longer its sequence: pairs
    // with the acquire fence after its copy.
    fence(Ordering::Release);
    step!("record.state-written");
    bits.fetch_or(bit, Ordering::Release);
    step!("record.allocated");
    rolled_back.done();
}

/// Frees a record whose state word names the caller, at any stage of allocating or retiring it.
fn give_back(bits: &AtomicU64, bit: u64, state_word: &AtomicU64) {
    // As in `retire`.
    bits.fetch_and(!bit, Ordering::AcqRel);
    state_word.store(0, Ordering::Release);
}

/// The effect of retiring a record on its extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retired {
    /// The record's extent has a free record now.
    Room(u64),
    /// The record's bitmap word is empty: its extent may be all free.
    PerhapsEmpty(u64),
    /// A run that began with this extent was freed.
    Run(u64),
    /// No record is at the offset: damage, nothing was done.
    Nothing,
}

/// Frees a record that `me` has unlinked or never published.
pub(crate) fn retire(space: &Space, offset: u64, me: Owner) -> Retired {
    let Some(header) = extents::header_of(space, offset) else { return Retired::Nothing };
    let extent = offset / EXTENT;
    match header.state().kind() {
        Kind::Records | Kind::Segments => match retire_among(space, header, offset, me) {
            Some(true) => Retired::Room(extent),
            Some(false) => Retired::PerhapsEmpty(extent),
            None => Retired::Nothing,
        },
        Kind::Run if offset.is_multiple_of(EXTENT) => {
            space.word(offset).store(retired(me), Ordering::Release);
            let rest = UnwindGuard::new(|| runs::free_claimed(space, extent));
            step!("retire.state-written");
            rest.done();
            runs::free_claimed(space, extent);
            Retired::Run(extent)
        }
        _ => Retired::Nothing,
    }
}

/// The same for a record among others in its extent; `None` if there is none at the offset. True if
/// its word of the bitmap is not empty.
#[inline(always)]
pub(crate) fn try_retire(space: &Space, offset: u64, me: Owner) -> Option<bool> {
    let header = extents::header_of(space, offset)?;
    if !header.state().is(Kind::Records) {
        return None;
    }
    retire_among(space, header, offset, me)
}

#[inline(always)]
#[allow(unsafe_code)]
fn retire_among(space: &Space, header: &Header, offset: u64, me: Owner) -> Option<bool> {
    let (extent, geometry) = (offset / EXTENT, geometry(header.state().class()));
    let index = geometry.index(offset % EXTENT)?;
    let bits = match geometry.front {
        0 => &header.bits,
        // SAFETY: the bitmap is the front of an extent that exists.
        _ => unsafe { space.word_there(extent * EXTENT + u64::from(index / 64) * 8) },
    };
    // SAFETY: a record of the extent.
    let state_word = unsafe { space.word_there(offset) };
    let others = !(1 << (index % 64));
    let rest = UnwindGuard::new(|| give_back(bits, !others, state_word));
    // Release: the store that unlinked the record becomes visible first.
    state_word.store(retired(me), Ordering::Release);
    step!("retire.state-written");
    // Release: RETIRED is visible before the bit is clear; acquire: FREE is not stored early.
    let left = bits.fetch_and(others, Ordering::AcqRel) & others;
    step!("retire.cleared");
    state_word.store(0, Ordering::Release);
    rest.done();
    Some(left != 0)
}

/// Frees an extent of records that nobody owns and nobody uses. True if it did.
pub(crate) fn free_if_unused(space: &Space, extent: u64, me: Owner, lane: u32) -> bool {
    let header = header(space, extent);
    let state = header.state();
    if state.kind() != Kind::Records || state.owner().is_some() {
        return false;
    }
    let geometry = geometry(state.class());
    let empty = |word| bitmap(space, header, extent, geometry, word).load(Ordering::Acquire) == 0;
    if !(0..geometry.words()).all(empty) {
        return false;
    }
    // Ownership keeps allocators out; then look again.
    let closing = State::owned(Kind::Records, state.class(), lane, me);
    if !header.change(state, closing) {
        return false;
    }
    let opened = UnwindGuard::new(|| header.set(state));
    step!("free.closing");
    opened.done();
    // A clear bit is not enough: the participant that retires the record may not have stored FREE
    // yet.
    let free =
        |index| space.word(extent * EXTENT + geometry.within(index)).load(Ordering::Acquire) == 0;
    if (0..geometry.words()).all(empty) && (0..geometry.count).all(free) {
        extents::free(space, extent);
        return true;
    }
    header.set(state);
    false
}

/// The number of records of an extent whose bit is set.
pub(crate) fn used(space: &Space, extent: u64, class: u8) -> u32 {
    let (header, geometry) = (header(space, extent), geometry(class));
    (0..geometry.words())
        .map(|word| {
            let bits = bitmap(space, header, extent, geometry, word).load(Ordering::Relaxed);
            (bits & geometry.valid(word)).count_ones()
        })
        .sum()
}

/// True if a record of an extent can be allocated. A clear bit is not enough: the participant that
/// retires the record may not have stored FREE yet.
pub(crate) fn has_free(space: &Space, extent: u64, class: u8) -> bool {
    let (header, geometry) = (header(space, extent), geometry(class));
    (0..geometry.words()).any(|word| {
        // Acquire, here and below: as in `allocate_in`.
        let used = bitmap(space, header, extent, geometry, word).load(Ordering::Acquire);
        let free = !used & geometry.valid(word);
        (0..64).filter(|bit| free >> bit & 1 == 1).any(|bit| {
            let offset = extent * EXTENT + geometry.within(word * 64 + bit);
            space.word(offset).load(Ordering::Acquire) == 0
        })
    })
}

/// Offsets of the records of an extent.
pub(crate) fn offsets(extent: u64, class: u8) -> impl Iterator<Item = u64> {
    let geometry = geometry(class);
    (0..geometry.count).map(move |index| extent * EXTENT + geometry.within(index))
}
