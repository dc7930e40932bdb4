//! Reading: lock-free, without writing shared memory (except a cache's visited bits).
//!
//! Slot (acquire), tag, sequence (acquire), bounds, map and hash, key, copy; acquire fence; slot
//! again (acquire), sequence again, last. Any retry restarts at the directory. A mismatch counts
//! only if the slot is unchanged after it; a miss counts only if the directory still names the same
//! segment (protocols 2 and 3).

use crate::error::Result;
use crate::map::engine::bound::Bound;
use crate::map::engine::directory;
use crate::map::engine::take::Take;
use crate::map::layout::hash::Hash;
use crate::map::layout::record::{Record, has_tag};
use crate::map::layout::segment::{BUCKETS, CACHE_BUCKETS, Segment};
use crate::steps::step;
use crate::sync::space::Space;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Every retry means that a writer made progress meanwhile. This many in a row mean damage.
const TRIES: u32 = 1 << 20;
/// A slot that keeps naming something that is not a record contradicts the protocol: the slot
/// changes before its record is freed. One such observation may be a slot that changed in between
/// and back; this many cannot.
const SUSPICIONS: u32 = 1 << 12;

/// A record that matched, and the position of its slot.
pub(crate) struct Hit<'a> {
    pub(crate) record: Record<'a>,
    pub(crate) position: u32,
    segment: Segment<'a>,
}

/// The place of a record.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) segment: Segment<'a>,
    pub(crate) position: u32,
}

/// The result of a look at a slot or a segment.
enum Seen<R> {
    Is(R),
    IsNot,
    Changed,
    /// The slot names something that is not a record, and is unchanged.
    Suspect,
    /// The directory names no segment.
    Nowhere,
}

/// Looks a key up in a map of records of any mode.
///
/// # Errors
/// `NotFound` if the map was dropped; `Damaged`.
pub(crate) fn find_in_any<T: Take>(
    space: &Space,
    bound: &Bound,
    (hash, key): (Hash, &[u8]),
    mut taker: T,
) -> Result<Option<T::Taken>> {
    match bound.is_cache() {
        true => look_repeatedly::<CACHE_BUCKETS, T>(space, bound, hash, key, &mut taker),
        false => look_repeatedly::<BUCKETS, T>(space, bound, hash, key, &mut taker),
    }
}

/// Looks a key up in a map whose segments have `COUNT` buckets.
///
/// # Errors
/// As [`find_in_any`].
#[inline(always)]
pub(crate) fn find<const COUNT: u32, T: Take>(
    space: &Space,
    bound: &Bound,
    (hash, key): (Hash, &[u8]),
    mut taker: T,
) -> Result<Option<T::Taken>> {
    match try_find::<COUNT, T>(space, bound, (hash, key), &mut taker) {
        Some(found) => Ok(found),
        None => look_repeatedly::<COUNT, T>(space, bound, hash, key, &mut taker),
    }
}

/// The same the short way. `None` if it met a change, damage, the end of the map, a long record, or
/// another key with the same tag. The patient way finds out which.
#[inline(always)]
pub(crate) fn try_find<const COUNT: u32, T: Take>(
    space: &Space,
    bound: &Bound,
    (hash, key): (Hash, &[u8]),
    taker: &mut T,
) -> Option<Option<T::Taken>> {
    let found = short_read::<COUNT, T>(space, bound, hash, key, taker)?;
    bound.is_current(space).then_some(found)
}

/// Looks for a short record in the first slot that may have the tag. Straight-line code: whatever
/// is unusual is left to the patient way, which begins at the directory again.
#[inline(always)]
fn short_read<const COUNT: u32, T: Take>(
    space: &Space,
    bound: &Bound,
    hash: Hash,
    key: &[u8],
    taker: &mut T,
) -> Option<Option<T::Taken>> {
    let segment = directory::lookup(space, bound, hash.low())?;
    let row = segment.row(hash.buckets(COUNT));
    if let Some(at) = row.tagged(hash.tag()).next() {
        let slot = row.slot(at);
        let place = Place { segment, position: segment.position_of(slot) };
        // Acquire pairs with the release that committed the slot.
        let word = slot.load(Ordering::Acquire);
        return short_read_at(bound, hash, key, (slot, word, place), taker).map(Some);
    }
    is_absent(space, bound, hash, segment).then_some(None)
}

/// True if a key that was not found in the segment was absent at one moment, provided that the map
/// is current.
#[inline(always)]
pub(crate) fn is_absent(space: &Space, bound: &Bound, hash: Hash, segment: Segment<'_>) -> bool {
    // Pairs with the release of directory entries: the slots were read before.
    fence(Ordering::Acquire);
    let again = directory::lookup(space, bound, hash.low());
    again.is_some_and(|again| again.offset == segment.offset)
}

/// If `word`, which was loaded (acquire) from the slot, names a short record of the key, and still
/// does after the copy, that is the key's record. However long ago it was loaded: a hit needs no
/// look at the directory. The record proves by its key whose it is, so the slot's tag is not
/// compared again.
#[inline(always)]
pub(crate) fn short_read_at<T: Take>(
    bound: &Bound,
    hash: Hash,
    key: &[u8],
    (slot, word, Place { segment, position }): (&AtomicU64, u64, Place<'_>),
    taker: &mut T,
) -> Option<T::Taken> {
    step!("read.found");
    #[allow(clippy::question_mark, reason = "only a build with steps does more than return")]
    let Some(record) = bound.open_short(segment.space, word, (hash, key)) else {
        step!("read.gone");
        return None;
    };
    step!("read.opened");
    let hit = Hit { record, position, segment };
    let taken = taker.take(&hit);
    step!("read.copied");
    unchanged(slot, word, &hit.record).then_some(taken)
}

/// Looks until the result is certain.
#[cold]
#[inline(never)]
fn look_repeatedly<const COUNT: u32, T: Take>(
    space: &Space,
    bound: &Bound,
    hash: Hash,
    key: &[u8],
    taker: &mut T,
) -> Result<Option<T::Taken>> {
    let mut suspicions = 0;
    for _ in 0..TRIES {
        let seen = look::<COUNT, T>(space, bound, hash, key, taker);
        bound.ensure_current(space)?;
        match seen {
            Seen::Is(taken) => return Ok(Some(taken)),
            Seen::IsNot => return Ok(None),
            Seen::Changed => std::hint::spin_loop(),
            Seen::Suspect if suspicions > SUSPICIONS => break,
            Seen::Suspect => suspicions += 1,
            Seen::Nowhere => break,
        }
    }
    Err(bound.damaged("a lookup finds no consistent state"))
}

/// Looks once at whatever may be of the key. The result counts only if the map is current
/// afterwards.
fn look<const COUNT: u32, T: Take>(
    space: &Space,
    bound: &Bound,
    hash: Hash,
    key: &[u8],
    taker: &mut T,
) -> Seen<T::Taken> {
    let Some(segment) = directory::lookup(space, bound, hash.low()) else {
        return Seen::Nowhere;
    };
    let row = segment.row(hash.buckets(COUNT));
    for at in row.tagged(hash.tag()) {
        let slot = row.slot(at);
        // Acquire pairs with the release that committed the slot.
        let word = slot.load(Ordering::Acquire);
        if !has_tag(hash.tag(), word) {
            continue;
        }
        match examine(bound, segment, (slot, word, segment.position_of(slot)), hash, key, taker) {
            Seen::IsNot => {}
            decided => return decided,
        }
    }
    if is_absent(space, bound, hash, segment) { Seen::IsNot } else { Seen::Changed }
}

fn examine<T: Take>(
    bound: &Bound,
    segment: Segment<'_>,
    (slot, word, position): (&AtomicU64, u64, u32),
    hash: Hash,
    key: &[u8],
    taker: &mut T,
) -> Seen<T::Taken> {
    step!("read.found");
    let Some(record) = bound.shape.open(segment.space, word) else {
        let same = slot.load(Ordering::Acquire) == word;
        return if same { Seen::Suspect } else { Seen::Changed };
    };
    step!("read.opened");
    let is = record.is_of(bound.id, hash) && record.key_is(key);
    let hit = Hit { record, position, segment };
    let taken = is.then(|| taker.take(&hit));
    step!("read.copied");
    if !unchanged(slot, word, &hit.record) {
        return Seen::Changed;
    }
    taken.map_or(Seen::IsNot, Seen::Is)
}

/// True if everything that was read of the record was its content during the whole read.
#[inline]
pub(crate) fn unchanged(slot: &AtomicU64, word: u64, record: &Record<'_>) -> bool {
    // Pairs with the release fence after WRITING: a reader that saw new bytes sees a new state
    // word.
    fence(Ordering::Acquire);
    // Acquire: the sequence is read after the slot. It is the last load (Relaxed is enough).
    slot.load(Ordering::Acquire) == word
        && record.state_word().load(Ordering::Relaxed) == record.sequence
}

/// Reads a slot until it is empty or holds one record throughout; `None` if that never happens.
pub(crate) fn unchanging<R>(
    space: &Space,
    bound: &Bound,
    slot: &AtomicU64,
    mut look: impl FnMut(u64, &Record<'_>) -> R,
) -> Option<Option<R>> {
    let mut suspicions = 0;
    for _ in 0..TRIES {
        let word = slot.load(Ordering::Acquire);
        if word == 0 {
            return Some(None);
        }
        step!("read.found");
        match bound.shape.open(space, word) {
            Some(record) => {
                let result = look(word, &record);
                step!("read.copied");
                if unchanged(slot, word, &record) {
                    return Some(Some(result));
                }
            }
            None if suspicions > SUSPICIONS => return None,
            None => suspicions += u32::from(slot.load(Ordering::Acquire) == word),
        }
    }
    None
}

/// Looks up the record at a position, for reads by uid and iteration. `directory` is its 24 hash
/// bits.
pub(crate) fn at_position<R>(
    space: &Space,
    bound: &Bound,
    directory: u32,
    position: u32,
    mut copy: impl FnMut(&Hit<'_>) -> R,
) -> Result<Option<R>> {
    for _ in 0..TRIES {
        let Some(segment) = directory::lookup(space, bound, directory) else { break };
        let slot = segment.slot(position);
        let seen = unchanging(space, bound, slot, |_, &record| {
            let hit = Hit { record, position, segment };
            let is = hit.record.map() == bound.id && hit.record.directory() == directory;
            is.then(|| copy(&hit))
        });
        let Some(seen) = seen else { break };
        let result = seen.flatten();
        fence(Ordering::Acquire);
        let again = directory::lookup(space, bound, directory);
        if result.is_some() || again.is_some_and(|again| again.offset == segment.offset) {
            bound.ensure_current(space)?;
            return Ok(result);
        }
    }
    bound.ensure_current(space)?;
    Err(bound.damaged("a lookup by uid finds no consistent state"))
}

impl<'a> Hit<'a> {
    #[inline(always)]
    pub(crate) fn space(&self) -> &'a Space {
        self.segment.space
    }

    /// The offset of its segment, and its position there.
    pub(crate) fn place(&self) -> (u64, u32) {
        (self.segment.offset, self.position)
    }

    /// Marks the position as recently used. Stores only if it is not marked already.
    #[inline]
    pub(crate) fn mark_visited(&self) {
        let word = self.segment.visited(self.position / 64);
        let bit = 1 << (self.position % 64);
        // Relaxed: a hint for eviction.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }
}
