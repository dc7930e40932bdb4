//! The short way of a change: one pair of a map of records.
//!
//! The same loads and stores as the patient way ([`write`](crate::map::engine::write)), in
//! straight-line code (protocol 2). Anything unusual ends it before the map has changed, and the
//! patient way begins again: a lazy entry of the directory, a full segment, a freeze, a long
//! record, another key with the same tag, memory that has to be found, a cache at its limit, an
//! expired pair, a stream that somebody else is writing.
//!
//! The code is compiled twice: for plain maps, which are general maps in memory, and for maps whose
//! records have an expiry or a checksum, or fixed lengths.

use crate::map::engine::bound::Bound;
use crate::map::engine::cache;
use crate::map::engine::change::{Expiry, Outcome};
use crate::map::engine::directory;
use crate::map::engine::in_place::{self, Spot};
use crate::map::engine::locked::{self, New, Old};
use crate::map::engine::short_act::{Draft, ShortAct, When};
use crate::map::engine::write::Memory;
use crate::map::layout::hash::Hash;
use crate::map::layout::record::{Record, slot_word};
use crate::map::layout::segment::{BUCKETS, Row, Segment};
use crate::memory::arena::Arena;
use crate::memory::fetch::LARGE;
use crate::memory::freeze_lock::is_frozen;
use crate::memory::lane::{ANYTHING, LaneGuard};
use crate::steps::step;
use crate::stream::append;
use crate::stream::frame::ChangeKind;
use crate::sync::hold_clock;
use crate::sync::space::Space;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A change of one pair.
#[derive(Clone, Copy)]
pub(crate) struct Short<'a, A> {
    pub(crate) key: &'a [u8],
    pub(crate) when: When,
    pub(crate) act: A,
    /// Cache mode: when the pair expires.
    pub(crate) expiry: Expiry,
}

/// An `Option<Outcome>` that a function returns in two registers.
#[derive(Clone, Copy)]
pub(super) struct Answer(u64, i64);

impl Answer {
    const NONE: u64 = 2;

    #[inline(always)]
    pub(super) fn new(outcome: Option<Outcome>) -> Answer {
        match outcome {
            Some(Outcome { done, uid, number }) => {
                Answer(u64::from(uid) << 32 | u64::from(done), number)
            }
            None => Answer(Answer::NONE, 0),
        }
    }

    #[inline(always)]
    pub(super) fn outcome(self) -> Option<Outcome> {
        let Answer(done, number) = self;
        (done != Answer::NONE).then_some(Outcome {
            done: done & 1 != 0,
            uid: (done >> 32) as u32,
            number,
        })
    }
}

/// Applies a change of a plain map without waiting for anything. `None` if nothing was done, and
/// the patient way has to do it.
#[inline(always)]
pub(crate) fn try_apply_to_plain<A: ShortAct>(
    arena: &Arena,
    bound: &Bound,
    (key, when): (&[u8], When),
    act: A,
) -> Option<Outcome> {
    let answer = match key.len() {
        4 => apply_to_plain(arena, bound, key.first_chunk::<4>()?, when, act),
        8 => apply_to_plain(arena, bound, key.first_chunk::<8>()?, when, act),
        _ => apply_to_plain(arena, bound, key, when, act),
    };
    answer.outcome()
}

/// The arguments fit into registers, and a key of 4 or 8 bytes has a constant length.
#[inline(never)]
fn apply_to_plain<A: ShortAct, K: AsRef<[u8]> + ?Sized>(
    arena: &Arena,
    bound: &Bound,
    key: &K,
    when: When,
    act: A,
) -> Answer {
    let change = Short { key: key.as_ref(), when, act, expiry: Expiry::Own };
    Answer::new(in_lane::<A, true>(arena, bound, change))
}

/// The same for a map of records that is not plain.
pub(crate) fn try_apply<A: ShortAct>(
    arena: &Arena,
    bound: &Bound,
    change: Short<'_, A>,
) -> Option<Outcome> {
    in_lane::<A, false>(arena, bound, change)
}

#[inline(always)]
fn in_lane<A: ShortAct, const PLAIN: bool>(
    arena: &Arena,
    bound: &Bound,
    change: Short<'_, A>,
) -> Option<Outcome> {
    let (lane, hash) = (arena.try_enter_preferred(ANYTHING)?, bound.hasher.hash(change.key));
    let (segment, row) = place::<PLAIN>(lane.space(), bound, hash)?;
    if PLAIN && let Some(spot) = spot(bound, segment, &row, hash, change) {
        return in_place::change(&lane, bound, segment, hash, spot, change.act);
    }
    let lane = lane.stepping_aside();
    let done = with_records::<A, PLAIN>(&lane, bound, (segment, row, hash), change);
    lane.tidy();
    done
}

/// The same in a lane that the caller has entered, for one of many pairs. The caller tidies up.
#[inline(never)]
pub(crate) fn try_apply_in<A: ShortAct>(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    change: Short<'_, A>,
) -> Option<Outcome> {
    if !bound.has_short_changes {
        return None;
    }
    let hash = bound.hasher.hash(change.key);
    if !bound.is_plain {
        let (segment, row) = place::<false>(lane.space(), bound, hash)?;
        return with_records::<A, false>(lane, bound, (segment, row, hash), change);
    }
    let (segment, row) = place::<true>(lane.space(), bound, hash)?;
    match spot(bound, segment, &row, hash, change) {
        Some(spot) => in_place::change(lane, bound, segment, hash, spot, change.act),
        None => with_records::<A, true>(lane, bound, (segment, row, hash), change),
    }
}

/// Where a key belongs. The memory arrives while the record is written.
#[inline(always)]
fn place<'a, const PLAIN: bool>(
    space: &'a Space,
    bound: &Bound,
    hash: Hash,
) -> Option<(Segment<'a>, Row<'a>)> {
    let segment = directory::lookup_own(space, bound, hash.low())?;
    let row = segment.row(hash.buckets(if PLAIN { BUCKETS } else { bound.buckets }));
    segment.prefetch_header();
    row.prefetch();
    Some((segment, row))
}

/// The record of a plain map that the change may replace in place.
#[inline(always)]
fn spot<'a, A: ShortAct>(
    bound: &Bound,
    segment: Segment<'a>,
    row: &Row<'a>,
    hash: Hash,
    Short { key, when, act, .. }: Short<'_, A>,
) -> Option<Spot<'a>> {
    if has_stream(bound, segment.space) {
        return None;
    }
    in_place::find(bound, segment, row, (hash, key), (when, act))
}

/// Replaces, adds or removes the key's record.
#[inline(always)]
fn with_records<A: ShortAct, const PLAIN: bool>(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    (segment, row, hash): (Segment<'_>, Row<'_>, Hash),
    change: Short<'_, A>,
) -> Option<Outcome> {
    let value = change.act.value();
    if !PLAIN {
        bound.check_lengths(change.key, value.map(<[u8]>::len)).ok()?;
    }
    let Some(value) = value else {
        step!("write.prepared");
        let locked = locked::try_lock_this(lane, segment)?;
        return under_lock::<A, PLAIN>(lane, bound, *locked, (row, hash), change, None);
    };
    let draft = write::<PLAIN>(lane, bound, hash, (change.key, value), change.expiry)?;
    step!("write.prepared");
    let locked = locked::try_lock_this(lane, segment)?;
    let done = under_lock::<A, PLAIN>(lane, bound, *locked, (row, hash), change, Some(&draft));
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
    /// The record, if it has a checksum.
    record: Option<Record<'a>>,
    expiry: u64,
}

/// Writes the new record.
#[inline(always)]
fn write<'l, 'a, const PLAIN: bool>(
    lane: &'l LaneGuard<'a>,
    bound: &Bound,
    hash: Hash,
    (key, value): (&[u8], &[u8]),
    expiry: Expiry,
) -> Option<Written<'l, 'a>> {
    if key.len() >= LARGE / 4 || value.len() >= LARGE / 4 {
        return None;
    }
    let (space, ids) = (lane.space(), (bound.id, hash));
    let len = bound.shape.short_len(key.len(), value.len() as u64);
    let room = bound.shape.short_len(key.len(), bound.room_for(value.len()));
    if !PLAIN && bound.is_cache() && !cache::has_room(space, bound, room) {
        return None;
    }
    let offset = lane.allocate_again(room)?;
    let memory = Memory { lane, offset, room, is_public: Cell::new(false) };
    if PLAIN {
        let state_word = bound.shape.write_short(space, offset, ids, key, value)?;
        return Some(Written { memory, state_word, record: None, expiry: 0 });
    }
    let expiry = cache::expiry(space, bound, expiry);
    bound.shape.write(space, offset, ids, key, value, expiry);
    let record = match bound.shape.checksum {
        true => Some(bound.shape.measure(space, offset, 0, len)?),
        false => None,
    };
    Some(Written { memory, state_word: space.word(offset), record, expiry })
}

#[inline(always)]
fn under_lock<'a, A: ShortAct, const PLAIN: bool>(
    lane: &LaneGuard<'a>,
    bound: &Bound,
    segment: Segment<'a>,
    (row, hash): (Row<'a>, Hash),
    Short { key, when, act, .. }: Short<'_, A>,
    draft: Option<&Written<'_, '_>>,
) -> Option<Outcome> {
    let is_streamed = ensure_current(bound, hash, segment)?;
    let first = row.tagged(hash.tag()).next();
    let (at, old_word, record) = match first {
        Some(at) => {
            let (word, record) = present(bound, segment, &row, at, hash, key)?;
            if !PLAIN && cache::is_expired(segment.space, &record) {
                return None;
            }
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
        Some(Written { memory, record: new, .. }) => {
            let draft = Draft { bound, segment, offset: memory.offset, key, record: new.as_ref() };
            act.complete(draft, record.as_ref())?
        }
        None => 0,
    };
    let place = (row.slot(at), segment.position_of(row.slot(at)));
    let old = record.map(|record| Old { word: old_word, sequence: record.sequence });
    let new = draft.map(|Written { memory, state_word, record, .. }| New {
        word: slot_word(memory.offset, hash),
        state_word,
        checksum: record.as_ref(),
        is_public: &memory.is_public,
    });
    if is_streamed {
        let bytes = number.to_le_bytes();
        let set = draft.map(|draft| (act.completed(&bytes), draft.expiry));
        commit_streamed(lane, bound, segment, place, (old, new), key, set)?;
    } else {
        locked::commit(lane, bound, segment, place, old, new, None);
    }
    if !PLAIN && draft.is_some() && bound.is_cache() {
        cache::begin_unvisited(segment, place.1, record.is_some());
        step!("short.marked");
    }
    Some(Outcome { done: true, uid: hash.directory() << 8 | place.1, number })
}

/// Commits a change together with its frame in the stream: `set` is the new value and when it
/// expires, `None` for a removal. `None` if somebody else holds the stream's lock, or if the stream
/// is damaged; then nothing is changed. A function of its own, so that maps without a stream have
/// shorter code.
#[inline(never)]
fn commit_streamed(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    segment: Segment<'_>,
    place: (&AtomicU64, u32),
    (old, new): (Option<Old>, Option<New<'_>>),
    key: &[u8],
    set: Option<(&[u8], u64)>,
) -> Option<()> {
    let (stream, position) = (bound.stream(segment.space), &segment.header().stream_position);
    let (kind, (value, expiry)) = match set {
        Some(set) => (ChangeKind::Set, set),
        None => (ChangeKind::Delete, (&[][..], 0)),
    };
    let expires_ms = hold_clock::to_wall(segment.space, expiry);
    let frame =
        append::try_begin(lane, (stream, &bound.ring), position, (kind, expires_ms), key, value)?;
    step!("short.framed");
    locked::commit(lane, bound, segment, place, old, new, Some(frame));
    Some(())
}

/// `None` if the locked segment is not the key's any more, or a freeze or a stream is in the way.
#[inline(always)]
pub(crate) fn ensure_undisturbed(bound: &Bound, hash: Hash, segment: Segment<'_>) -> Option<()> {
    let is_streamed = ensure_current(bound, hash, segment)?;
    (!is_streamed).then_some(())
}

/// `None` if the locked segment is not the key's any more, or a freeze is in the way. True if the
/// map has a stream.
#[inline(always)]
fn ensure_current(bound: &Bound, hash: Hash, segment: Segment<'_>) -> Option<bool> {
    step!("short.locked");
    let space = segment.space;
    let same = directory::is_own(space, bound, hash.low(), segment);
    if !same || !bound.is_current(space) || is_frozen(space) {
        return None;
    }
    // As in the patient way: the change will be made, whatever happens to the map from here on.
    step!("write.locked");
    // After the look at the freeze lock: a stream begins while the hold is frozen. Either the
    // freezing process waits for this segment's lock, or the acquire of a free freeze lock makes
    // the stream visible.
    Some(has_stream(bound, space))
}

#[inline(always)]
fn has_stream(bound: &Bound, space: &Space) -> bool {
    // Relaxed: only tests whether there is a stream.
    bound.root(space).stream.ring.load(Ordering::Relaxed) != 0
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
    let record = bound.open_short(segment.space, word, (hash, key))?;
    Some((word, record))
}
