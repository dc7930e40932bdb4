//! The short way of a change: one pair of a map of records without checksums, expiry and stream.
//!
//! The same loads and stores as the patient way ([`write`](crate::map::write)), in straight-line
//! code (protocol 2). Anything unusual ends it before the map has changed, and the patient way
//! begins again: a lazy entry of the directory, a full segment, a freeze, a long record, another
//! key with the same tag, memory that has to be found.

use crate::map::bound::Bound;
use crate::map::change::{Act, Outcome};
use crate::map::directory;
use crate::map::hash::Hash;
use crate::map::locked::{self, Locked, New, Old};
use crate::map::record::{Record, slot_word};
use crate::map::segment::{BUCKETS, Row, Segment};
use crate::map::write::Memory;
use crate::memory::arena::Arena;
use crate::memory::fetch::LARGE;
use crate::memory::freeze_lock::is_frozen;
use crate::memory::lane::{ANYTHING, LaneGuard};
use crate::steps::step;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The conditions that the short way knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    Absent,
    Present,
}

/// The act of a change. Each act is a type, so that the compiler specializes the code for it.
pub(crate) trait ShortAct: Copy {
    /// The new value as it is written before the lock; `None` to remove the pair.
    fn value(&self) -> Option<&[u8]>;

    /// Completes the new value under the lock. `None` leaves the change to the patient way.
    fn complete(&self, draft: Draft<'_>, old: Option<&Record<'_>>) -> Option<i64>;
}

/// A new record that is not published yet.
pub(crate) struct Draft<'a> {
    bound: &'a Bound,
    segment: Segment<'a>,
    offset: u64,
    key: &'a [u8],
}

#[derive(Clone, Copy)]
pub(crate) struct Put<'a>(pub(crate) &'a [u8]);

impl ShortAct for Put<'_> {
    #[inline(always)]
    fn value(&self) -> Option<&[u8]> {
        Some(self.0)
    }

    #[inline(always)]
    fn complete(&self, _: Draft<'_>, _: Option<&Record<'_>>) -> Option<i64> {
        Some(0)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Remove;

impl ShortAct for Remove {
    #[inline(always)]
    fn value(&self) -> Option<&[u8]> {
        None
    }

    #[inline(always)]
    fn complete(&self, _: Draft<'_>, _: Option<&Record<'_>>) -> Option<i64> {
        Some(0)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Add(pub(crate) i64);

impl ShortAct for Add {
    #[inline(always)]
    fn value(&self) -> Option<&[u8]> {
        Some(&[0; 8])
    }

    #[inline(always)]
    fn complete(&self, draft: Draft<'_>, old: Option<&Record<'_>>) -> Option<i64> {
        let mut number = [0; 8];
        if let Some(old) = old
            && (old.value_len != 8 || old.read_value(&mut number) != 8)
        {
            return None;
        }
        let sum = i64::from_le_bytes(number).wrapping_add(self.0);
        let Draft { bound, segment, offset, key } = draft;
        bound.shape.rewrite_short(segment.space, offset, key.len(), sum.to_le_bytes())?;
        Some(sum)
    }
}

impl<'a> From<Put<'a>> for Act<'a> {
    fn from(Put(value): Put<'a>) -> Act<'a> {
        Act::Put(value)
    }
}

impl From<Remove> for Act<'_> {
    fn from(_: Remove) -> Self {
        Act::Delete
    }
}

impl From<Add> for Act<'_> {
    fn from(Add(by): Add) -> Self {
        Act::Add(by)
    }
}

/// Applies a change without waiting for anything. `None` if nothing was done, and the patient way
/// has to do it.
pub(crate) fn try_apply<A: ShortAct>(
    arena: &Arena,
    bound: &Bound,
    key: &[u8],
    when: When,
    act: A,
) -> Option<Outcome> {
    let lane = arena.try_enter_preferred(ANYTHING)?.stepping_aside(arena);
    let done = in_lane(&lane, bound, key, when, act);
    lane.tidy();
    done
}

#[inline(always)]
fn in_lane<A: ShortAct>(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    key: &[u8],
    when: When,
    act: A,
) -> Option<Outcome> {
    let hash = bound.hasher.hash(key);
    let segment = directory::lookup_own(lane.space(), bound, hash.directory())?;
    // The memory arrives while the record is written.
    let row = segment.row(hash.buckets(BUCKETS));
    segment.prefetch_header();
    row.prefetch();
    let Some(value) = act.value() else {
        step!("write.prepared");
        let locked = locked::try_lock_this(lane, segment)?;
        return under_lock(lane, bound, &locked, row, (hash, key), when, act, None);
    };
    let draft = write(lane, bound, hash, key, value)?;
    step!("write.prepared");
    let locked = locked::try_lock_this(lane, segment)?;
    let done = under_lock(lane, bound, &locked, row, (hash, key), when, act, Some(&draft));
    drop(locked);
    if draft.memory.is_public.get() {
        // A short record does not take a run of extents, so there is nothing to release.
        std::mem::forget(draft.memory);
    }
    done
}

/// The memory of a new record, whose key and value are written.
struct Written<'l, 'a> {
    memory: Memory<'l, 'a>,
    state_word: &'a AtomicU64,
}

/// Writes the new record.
#[inline(always)]
fn write<'l, 'a>(
    lane: &'l LaneGuard<'a>,
    bound: &Bound,
    hash: Hash,
    key: &[u8],
    value: &[u8],
) -> Option<Written<'l, 'a>> {
    if key.len() >= LARGE / 4 || value.len() >= LARGE / 4 {
        return None;
    }
    let room = bound.shape.short_len(key.len(), bound.room_for(value.len()));
    let offset = lane.allocate_again(room)?;
    let memory = Memory { lane, offset, room, is_public: Cell::new(false) };
    let state_word = bound.shape.write_short(lane.space(), offset, (bound.id, hash), key, value)?;
    Some(Written { memory, state_word })
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn under_lock<'a, A: ShortAct>(
    lane: &LaneGuard<'a>,
    bound: &Bound,
    segment: &Locked<'_, 'a, LaneGuard<'a>>,
    row: Row<'a>,
    (hash, key): (Hash, &[u8]),
    when: When,
    act: A,
    draft: Option<&Written<'_, '_>>,
) -> Option<Outcome> {
    let segment = **segment;
    ensure_undisturbed(lane, bound, hash, segment)?;
    let first = row.tagged(hash.tag()).next();
    let (at, old_word, record) = match first {
        Some(at) => {
            let (word, record) = present(bound, segment, &row, at, hash, key)?;
            (at, word, Some(record))
        }
        None => (row.free()?, 0, None),
    };
    let refused = match record {
        Some(_) => when == When::Absent,
        None => when == When::Present || draft.is_none(),
    };
    if refused {
        return Some(Outcome::default());
    }
    let number = match draft {
        Some(Written { memory, .. }) => {
            let draft = Draft { bound, segment, offset: memory.offset, key };
            act.complete(draft, record.as_ref())?
        }
        None => 0,
    };
    let place = (row.slot(at), row.position(at));
    let old = record.map(|record| Old { word: old_word, sequence: record.sequence });
    let new = draft.map(|Written { memory, state_word }| New {
        word: slot_word(memory.offset, hash),
        state_word,
        checksum: None,
        is_public: &memory.is_public,
    });
    locked::commit(lane, bound, segment, place, old, new, None);
    Some(Outcome { done: true, uid: hash.directory() << 8 | place.1, number })
}

/// `None` if the locked segment is not the key's any more, or a freeze or a stream is in the way.
#[inline(always)]
pub(crate) fn ensure_undisturbed(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    hash: Hash,
    segment: Segment<'_>,
) -> Option<()> {
    let space = segment.space;
    let same = directory::is_own(space, bound, hash.directory(), segment);
    step!("write.locked");
    if !same || !bound.is_current(space) || is_frozen(lane) {
        return None;
    }
    // After the look at the freeze lock: a stream begins while the hold is frozen. Either the
    // freezing process waits for this segment's lock, or the acquire of a free freeze lock makes
    // the stream visible.
    (bound.root(space).stream.ring.load(Ordering::Relaxed) == 0).then_some(())
}

/// The pair in a slot that has the tag; `None` if it is another key's.
#[inline(always)]
fn present<'a>(
    bound: &Bound,
    segment: Segment<'a>,
    row: &Row<'a>,
    at: u32,
    hash: Hash,
    key: &[u8],
) -> Option<(u64, Record<'a>)> {
    // Relaxed: nobody else changes slots under the lock.
    let word = row.slot(at).load(Ordering::Relaxed);
    let record = bound.shape.open_short(segment.space, word)?;
    (record.is_of(bound.id, hash) && record.key_is(key)).then_some((word, record))
}
