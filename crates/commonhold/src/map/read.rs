//! Reading: lock-free, without writing shared memory (except a cache's visited bits).
//!
//! Slot (acquire), tag, sequence (acquire), bounds, map and hash, key, copy; acquire fence; slot
//! again (acquire), sequence again, last. Any retry restarts at the directory. A mismatch counts
//! only if the slot is unchanged after it; a miss counts only if the directory still names the same
//! segment (protocols 2 and 3).

use crate::error::Result;
use crate::map::bound::Bound;
use crate::map::directory;
use crate::map::hash::Hash;
use crate::map::record::{Record, has_tag};
use crate::map::segment::Segment;
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

/// The place where a key seemed to be a moment ago.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) segment: Segment<'a>,
    pub(crate) position: u32,
}

/// The contents of a slot.
enum Seen<R> {
    Is(R),
    IsNot,
    Changed,
    /// The slot names something that is not a record, and is unchanged.
    Suspect,
}

/// Looks a key up in a map of records, first in the place where it was seen. `copy` copies what the
/// caller needs and may run several times.
#[inline]
pub(crate) fn find<R>(
    space: &Space,
    bound: &Bound,
    (hash, key): (Hash, &[u8]),
    seen: Option<Place<'_>>,
    mut copy: impl FnMut(&Hit<'_>) -> R,
) -> Result<Option<R>> {
    if let Some(result) = seen.and_then(|seen| find_again(bound, hash, key, seen, &mut copy)) {
        bound.ensure_current(space)?;
        return Ok(Some(result));
    }
    let root = bound.root(space);
    let mut suspicions = 0;
    for _ in 0..TRIES {
        let Some(segment) = directory::lookup(space, root, hash.directory()) else { break };
        match scan(bound, segment, hash, key, &mut copy) {
            Seen::Changed => std::hint::spin_loop(),
            Seen::Suspect if suspicions > SUSPICIONS => break,
            Seen::Suspect => suspicions += 1,
            Seen::Is(result) => {
                bound.ensure_current(space)?;
                return Ok(Some(result));
            }
            Seen::IsNot => {
                // Pairs with the release of directory entries: the slots were read before.
                fence(Ordering::Acquire);
                let again = directory::lookup(space, root, hash.directory());
                if again.is_some_and(|again| again.offset == segment.offset) {
                    bound.ensure_current(space)?;
                    return Ok(None);
                }
            }
        }
    }
    bound.ensure_current(space)?;
    Err(bound.damaged("a lookup finds no consistent state"))
}

/// If the place contains a record of the key, that is the key's record: a hit needs no second look
/// at the directory, however the place was found.
#[inline]
fn find_again<R>(
    bound: &Bound,
    hash: Hash,
    key: &[u8],
    Place { segment, position }: Place<'_>,
    copy: &mut impl FnMut(&Hit<'_>) -> R,
) -> Option<R> {
    let slot = segment.slot(position);
    // Acquire pairs with the release that committed the slot.
    let word = slot.load(Ordering::Acquire);
    if !has_tag(hash.tag(), word) {
        return None;
    }
    match examine(bound, segment, (slot, word, position), hash, key, copy) {
        Seen::Is(result) => Some(result),
        _ => None,
    }
}

#[inline(always)]
fn scan<R>(
    bound: &Bound,
    segment: Segment<'_>,
    hash: Hash,
    key: &[u8],
    copy: &mut impl FnMut(&Hit<'_>) -> R,
) -> Seen<R> {
    let row = segment.row(hash.buckets(bound.buckets));
    for at in row.tagged(hash.tag()) {
        let slot = row.slot(at);
        // Acquire pairs with the release that committed the slot.
        let word = slot.load(Ordering::Acquire);
        if !has_tag(hash.tag(), word) {
            continue;
        }
        match examine(bound, segment, (slot, word, row.position(at)), hash, key, copy) {
            Seen::IsNot => {}
            decided => return decided,
        }
    }
    Seen::IsNot
}

#[inline(always)]
fn examine<R>(
    bound: &Bound,
    segment: Segment<'_>,
    (slot, word, position): (&AtomicU64, u64, u32),
    hash: Hash,
    key: &[u8],
    copy: &mut impl FnMut(&Hit<'_>) -> R,
) -> Seen<R> {
    step!("read.found");
    let Some(record) = bound.shape.open(segment.space, word) else {
        let same = slot.load(Ordering::Acquire) == word;
        return if same { Seen::Suspect } else { Seen::Changed };
    };
    let is = record.is_of(bound.id, hash) && record.key_is(key);
    let hit = Hit { record, position, segment };
    let result = is.then(|| copy(&hit));
    step!("read.copied");
    if !unchanged(slot, word, &hit.record) {
        return Seen::Changed;
    }
    result.map_or(Seen::IsNot, Seen::Is)
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
    let root = bound.root(space);
    for _ in 0..TRIES {
        let Some(segment) = directory::lookup(space, root, directory) else { break };
        let slot = segment.slot(position);
        let seen = unchanging(space, bound, slot, |_, &record| {
            let hit = Hit { record, position, segment };
            let is = hit.record.map() == bound.id && hit.record.directory() == directory;
            is.then(|| copy(&hit))
        });
        let Some(seen) = seen else { break };
        let result = seen.flatten();
        fence(Ordering::Acquire);
        let again = directory::lookup(space, root, directory);
        if result.is_some() || again.is_some_and(|again| again.offset == segment.offset) {
            bound.ensure_current(space)?;
            return Ok(result);
        }
    }
    bound.ensure_current(space)?;
    Err(bound.damaged("a lookup by uid finds no consistent state"))
}

impl Hit<'_> {
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
