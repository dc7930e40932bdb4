//! Writing to a map of records: the record is prepared before the lock, then published under it.

use crate::error::{Error, ErrorKind, Result};
use crate::map::engine::bound::Bound;
use crate::map::engine::cache;
use crate::map::engine::change::{Act, Change, Outcome, Rule, add};
use crate::map::engine::compact;
use crate::map::engine::locked::{self, Found, New};
use crate::map::engine::read;
use crate::map::engine::split;
use crate::map::engine::take::ValueAndSequence;
use crate::map::layout::hash::Hash;
use crate::map::layout::record::{Record, slot_word};
use crate::map::layout::segment::Segment;
use crate::memory::arena::Arena;
use crate::memory::lane::LaneGuard;
use crate::memory::writer::Writer;
use crate::steps::step;
use crate::stream::frame::ChangeKind;
use crate::sync::space::Space;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// A value to return that has at least this many bytes is copied before the segment is locked.
const COPIED_FIRST: u32 = 1024;
/// The number of such copies while others change the value; after that it is copied under the lock.
const COPIES: u32 = 8;

/// A record that is written and not yet published, or has been published.
struct Draft<'l, 'a> {
    record: Record<'a>,
    word: u64,
    memory: Memory<'l, 'a>,
}

/// The memory of a record. Dropping this frees it, unless the record was published.
pub(crate) struct Memory<'l, 'a> {
    pub(crate) lane: &'l LaneGuard<'a>,
    pub(crate) offset: u64,
    /// Bytes that were allocated for it.
    pub(crate) room: u64,
    pub(crate) is_public: Cell<bool>,
}

impl Drop for Memory<'_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.is_public.get() {
            true => self.lane.published(self.offset, self.room),
            false => self.lane.retire(self.offset),
        }
    }
}

/// Applies one change. `old` gets the value that it replaced or removed.
///
/// # Errors
/// Those of entering an operation, of lengths, `Full`, `Mismatch` for an addition to a value that
/// is not 8 bytes.
pub(crate) fn apply(
    arena: &Arena,
    bound: &Bound,
    change: &Change<'_>,
    mut old: Option<&mut Vec<u8>>,
) -> Result<Outcome> {
    arena.operate(|lane| apply_in(lane, bound, change, old.as_deref_mut()))
}

/// The same, in a lane that has been entered already. If there is no room, this makes some.
pub(crate) fn apply_in(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    change: &Change<'_>,
    mut old: Option<&mut Vec<u8>>,
) -> Result<Outcome> {
    let once = || apply_once(lane, bound, change, old.as_deref_mut());
    let result = compact::with_room(lane, once);
    lane.tidy();
    result
}

/// The same, without making room.
pub(crate) fn apply_once(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    change: &Change<'_>,
    old: Option<&mut Vec<u8>>,
) -> Result<Outcome> {
    let hash = bound.hasher.hash(change.key);
    locked::fetch(lane.space(), bound, hash);
    let draft = prepare(lane, bound, change, hash)?;
    step!("write.prepared");
    publish(lane, bound, change, hash, draft.as_ref(), old)
}

fn prepare<'l, 'a>(
    lane: &'l LaneGuard<'a>,
    bound: &Bound,
    change: &Change<'_>,
    hash: Hash,
) -> Result<Option<Draft<'l, 'a>>> {
    let zero = [0u8; 8];
    let value = match change.act {
        Act::Put(value) => value,
        Act::Add(_) => &zero,
        Act::Delete => {
            bound.check_lengths(change.key, None)?;
            return Ok(None);
        }
    };
    bound.check_lengths(change.key, Some(value.len()))?;
    let expiry = cache::expiry(lane.space(), bound, change.expiry);
    let len = bound.shape.record_len(change.key.len() as u64, value.len() as u64);
    let room = bound.shape.record_len(change.key.len() as u64, bound.room_for(value.len()));
    if bound.is_cache() {
        cache::make_room(lane, bound, room)?;
    }
    let offset = lane.allocate(room)?;
    let memory = Memory { lane, offset, room, is_public: Cell::new(false) };
    let ids = (bound.id, hash);
    bound.shape.write(lane.space(), offset, ids, change.key, value, expiry);
    match bound.shape.measure(lane.space(), offset, 0, len) {
        Some(record) => Ok(Some(Draft { record, word: slot_word(offset, hash), memory })),
        None => Err(bound.damaged("a record just written cannot be read")),
    }
}

fn publish(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    change: &Change<'_>,
    hash: Hash,
    draft: Option<&Draft<'_, '_>>,
    old: Option<&mut Vec<u8>>,
) -> Result<Outcome> {
    let mut taken = old.map(Taken::new);
    loop {
        let segment = locked::lock(lane, bound, hash.directory())?;
        let found = locked::find(bound, *segment, hash, change.key)?;
        let is_replayed = change.replayed.is_some();
        let fresh =
            found.as_ref().filter(|f| is_replayed || !cache::is_expired(segment.space, &f.record));
        let right = change.is_there(fresh.map(|f| f.position)) && holds(change.rule, fresh);
        if !right || (draft.is_none() && fresh.is_none()) {
            return Ok(Outcome::default());
        }
        if let (Some(taken), Some(fresh)) = (&mut taken, fresh)
            && !taken.has(&fresh.record)
        {
            drop(segment);
            taken.copy(lane.space(), bound, (hash, change.key))?;
            continue;
        }
        let place = found.as_ref().map(|f| f.position);
        let row = segment.row(hash.buckets(bound.buckets));
        let free = || row.free().map(|at| segment.position_of(row.slot(at)));
        let Some(position) = place.or_else(free) else {
            split::split(lane, bound, segment)?;
            continue;
        };
        let number = sum(bound, change, fresh, draft)?;
        let frame = match (draft, &found) {
            (Some(draft), _) if change.streamed => Some((ChangeKind::Set, &draft.record)),
            (None, Some(found)) => Some((change.removal, &found.record)),
            _ => None,
        };
        let stream_lock = match frame {
            Some(frame) => locked::begin_frame(lane, bound, *segment, frame, change.replayed)?,
            None => None,
        };
        cache::count_expired(bound, segment.space, found.is_some() && fresh.is_none());
        let new = draft.map(|d| New {
            word: d.word,
            state_word: d.record.state_word(),
            checksum: Some(&d.record),
            is_public: &d.memory.is_public,
        });
        let old = found.as_ref().map(Found::old);
        let place = (segment.slot(position), position);
        locked::commit(lane, bound, *segment, place, old, new, stream_lock);
        if draft.is_some() && bound.is_cache() {
            cache::begin_unvisited(*segment, position, found.is_some());
        }
        return Ok(Outcome { done: true, uid: hash.directory() << 8 | position, number });
    }
}

/// The destination of a value that is replaced or removed.
struct Taken<'a> {
    value: &'a mut Vec<u8>,
    /// The sequence of the record whose value has been copied already.
    copied: Option<u64>,
    tries: u32,
}

impl<'a> Taken<'a> {
    fn new(value: &'a mut Vec<u8>) -> Taken<'a> {
        Taken { value, copied: None, tries: 0 }
    }

    /// True if the record's value is copied; a small one is copied here, under the lock. A large
    /// one is copied without the lock.
    #[cold]
    fn has(&mut self, record: &Record<'_>) -> bool {
        // A short value may have changed in place since it was copied.
        let is_long = record.value_len >= COPIED_FIRST;
        if is_long && self.copied == Some(record.sequence) {
            return true;
        }
        if is_long && self.tries < COPIES {
            return false;
        }
        self.value.clear();
        record.append_value(self.value);
        true
    }

    /// Copies the value of a key with nothing locked, so that nobody waits for the copy.
    #[cold]
    fn copy(&mut self, space: &Space, bound: &Bound, key: (Hash, &[u8])) -> Result<()> {
        self.tries += 1;
        self.copied = read::find_in_any(space, bound, key, ValueAndSequence(self.value))?;
        Ok(())
    }
}

fn holds(rule: Rule<'_>, found: Option<&Found<'_>>) -> bool {
    match (rule, found) {
        (Rule::Always, _) | (Rule::Absent, None) | (Rule::Present, Some(_)) => true,
        (Rule::Equals(None) | Rule::Unchanged(None), found) => found.is_none(),
        (Rule::Equals(Some(value)), Some(found)) => found.record.value_is(value),
        (Rule::Unchanged(Some((sequence, value))), Some(found)) => {
            found.record.still_has(sequence, value)
        }
        _ => false,
    }
}

/// For an addition: writes the sum into the draft, which is still private.
fn sum(
    bound: &Bound,
    change: &Change<'_>,
    found: Option<&Found<'_>>,
    draft: Option<&Draft<'_, '_>>,
) -> Result<i64> {
    let (Act::Add(by), Some(draft)) = (change.act, draft) else { return Ok(0) };
    let mut value = [0; 8];
    match found.map(|found| &found.record) {
        Some(record) if record.value_len == 8 => drop(record.read_value(&mut value)),
        Some(record) => return Err(not_a_number(bound, record.value_len.into())),
        None => {}
    }
    let number = add(&value, by).unwrap_or(by);
    draft.record.rewrite_value(&number.to_le_bytes());
    draft.record.resum(change.key, &number.to_le_bytes());
    Ok(number)
}

/// The error of an addition to a value that is not a number.
#[cold]
pub(crate) fn not_a_number(bound: &Bound, len: u64) -> Error {
    let text = format!(
        "map '{}': expected a counter (8 bytes, little-endian), got a value of length {len}",
        bound.name
    );
    Error::new(ErrorKind::Mismatch, text)
}

/// Deletes the pair in a slot of a locked segment: clearing, dropping, eviction, expiry. `kind` is
/// the kind of change in the stream; `None` if nobody can follow any more.
pub(crate) fn remove_at(
    writer: &impl Writer,
    bound: &Bound,
    segment: Segment<'_>,
    position: u32,
    kind: Option<ChangeKind>,
) -> Result<bool> {
    let word = segment.slot(position).load(Ordering::Relaxed);
    if word == 0 {
        return Ok(false);
    }
    let Some(record) = bound.shape.open(segment.space, word) else {
        if kind.is_none() {
            // The map ends: it must not keep anybody from the rest of the hold.
            segment.slot(position).store(0, Ordering::Release);
            return Ok(false);
        }
        return Err(bound.damaged("a slot names no record"));
    };
    let found = Found { position, word, record };
    let stream_lock = match kind {
        Some(kind) => locked::begin_frame(writer, bound, segment, (kind, &found.record), None)?,
        None => None,
    };
    let place = (segment.slot(position), position);
    locked::commit(writer, bound, segment, place, Some(found.old()), None, stream_lock);
    Ok(true)
}
