//! Changing the value of a record in place, by one store.
//!
//! A value that one load reads whole may change while its record stays published: 1, 2, 4 or 8
//! bytes at a multiple of their number, in a record without expiry and checksum. The holder of the
//! segment's lock replaces these bytes by one store, which commits.
//!
//! The record keeps its sequence, so a sequence alone does not identify the value of such a record:
//! a process that relies on both compares the value, too ([`Record::still_has`]). The segment's
//! counter grows before the store, as with every change, so images of segments stay right.

use crate::map::engine::bound::Bound;
use crate::map::engine::change::Outcome;
use crate::map::engine::locked;
use crate::map::engine::short_act::{ShortAct, When};
use crate::map::engine::short_change;
use crate::map::layout::hash::Hash;
use crate::map::layout::packing::uid;
use crate::map::layout::record::Record;
use crate::map::layout::segment::{Row, Segment};
use crate::memory::lane::Entered;
use crate::memory::writer::Sequences;
use crate::steps::step;
use std::sync::atomic::{AtomicU64, Ordering};

/// A record of the key as it was found without the lock.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    pub(crate) slot: &'a AtomicU64,
    pub(crate) word: u64,
    pub(crate) position: u32,
    pub(crate) record: Record<'a>,
}

/// The key's record, if the act may change its value in place. Only a hint: nothing is locked.
#[inline(always)]
pub(crate) fn find<'a, A: ShortAct>(
    bound: &Bound,
    segment: Segment<'a>,
    row: &Row<'a>,
    (hash, key): (Hash, &[u8]),
    (when, act): (When, A),
) -> Option<Spot<'a>> {
    let len = act.short_len().filter(|_| when != When::Absent)?;
    // The bytes before the key are a multiple of 8: no expiry, no checksum, no long lengths.
    if key.len() & (len as usize - 1) != 0 {
        return None;
    }
    let at = row.tagged(hash.tag()).next()?;
    let slot = row.slot(at);
    let position = segment.position_of(slot);
    // Acquire pairs with the release that committed the slot.
    let word = slot.load(Ordering::Acquire);
    let record = bound.open_short(segment.space, word, (hash, key))?;
    (record.value_len == len).then_some(Spot { slot, word, position, record })
}

/// Changes the value at a spot of this segment in place. `None` if nothing was done: somebody has
/// the lock, the spot has changed, or anything unusual is in the way.
#[inline(always)]
pub(crate) fn change<A: ShortAct>(
    lane: &Entered<'_>,
    bound: &Bound,
    segment: Segment<'_>,
    hash: Hash,
    spot: Spot<'_>,
    act: A,
) -> Option<Outcome> {
    let segment = locked::try_lock_this(lane, segment)?;
    short_change::ensure_undisturbed(bound, hash, *segment)?;
    let Spot { slot, word, position, record } = spot;
    // Relaxed, here and below: under the lock, nobody else changes slots or retires what they name.
    // The same word and the same sequence: this is the record whose key was compared.
    let same = slot.load(Ordering::Relaxed) == word
        && record.state_word().load(Ordering::Relaxed) == record.sequence;
    if !same {
        return None;
    }
    let (value, number) = act.in_place(&record)?;
    let counter = &segment.header().state_word;
    // No record gets this sequence. Release: as in every change, for images.
    let next = lane.next_sequence(counter.load(Ordering::Relaxed));
    counter.store(next, Ordering::Release);
    step!("replace.counted");
    record.replace_value(value);
    step!("replace.committed");
    Some(Outcome { done: true, uid: uid(hash, position), number })
}
