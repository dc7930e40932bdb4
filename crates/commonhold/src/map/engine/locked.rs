//! A segment under its lock: finding, committing one change, unlocking (protocol 2).
//!
//! Commit: store the fields of the pending record, then its armed word; the new record's sequence;
//! the slot (the commit point); retire the old record; charge the map, if it is a cache; disarm.
//! The recovery of a dead owner does the same, at whatever instant the owner died.

use crate::error::Result;
use crate::map::engine::bound::Bound;
use crate::map::engine::charge;
use crate::map::engine::directory;
use crate::map::layout::hash::Hash;
use crate::map::layout::record::{Record, has_tag, offset_of};
use crate::map::layout::segment::Segment;
use crate::memory::freeze_lock::{is_frozen, wait_while_frozen};
use crate::memory::lane::{Entered, LaneGuard};
use crate::memory::writer::Writer;
use crate::steps::step;
use crate::stream::append::{self, StreamLock};
use crate::stream::frame::ChangeKind;
use crate::sync::hold_clock;
use crate::sync::participant::LaneList;
use crate::sync::robust_lock::{self, Level};
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A segment that is locked and listed. Dropping this releases the lock, then unlists it.
#[must_use]
pub(crate) struct Locked<'w, 'a> {
    list: &'w LaneList,
    segment: Segment<'a>,
}

impl<'a> Deref for Locked<'_, 'a> {
    type Target = Segment<'a>;
    #[inline]
    fn deref(&self) -> &Segment<'a> {
        &self.segment
    }
}

impl Drop for Locked<'_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        robust_lock::unlock(&self.segment.header().lock);
        step!("write.unlocked");
        self.list.segment.store(0, Ordering::Release);
    }
}

/// A record that will be published.
pub(crate) struct New<'d> {
    pub(crate) word: u64,
    pub(crate) state_word: &'d AtomicU64,
    /// The record, if it has a checksum that still needs the sequence.
    pub(crate) checksum: Option<&'d Record<'d>>,
    /// Set once it is published: from then on its maker does not free it.
    pub(crate) is_public: &'d Cell<bool>,
}

/// The record that a change replaces or removes.
#[derive(Clone, Copy)]
pub(crate) struct Old {
    pub(crate) word: u64,
    pub(crate) sequence: u64,
}

/// A record found under the lock.
pub(crate) struct Found<'a> {
    pub(crate) position: u32,
    pub(crate) word: u64,
    pub(crate) record: Record<'a>,
}

impl Found<'_> {
    pub(crate) fn old(&self) -> Old {
        Old { word: self.word, sequence: self.record.sequence }
    }
}

/// Prefetches the memory that a change of a key touches: the segment's lock, for writing, and both
/// buckets. It arrives while the change is prepared, before the lock is taken.
#[inline]
pub(crate) fn fetch(space: &Space, bound: &Bound, hash: Hash) {
    if let Some(segment) = directory::lookup(space, bound, hash.directory()) {
        fetch_segment(bound, segment, hash);
    }
}

/// The same, of a segment that was looked up.
#[inline(always)]
pub(crate) fn fetch_segment(bound: &Bound, segment: Segment<'_>, hash: Hash) {
    segment.prefetch_header();
    bound.prefetch_to_change(segment, hash);
}

/// Lists and takes the lock of the segment for these 24 directory bits of a hash.
///
/// # Errors
/// `NotFound` if the map was dropped; `Busy` if this process froze the hold; damage.
#[inline]
pub(crate) fn lock<'w, 'a>(
    lane: &'w LaneGuard<'a>,
    bound: &Bound,
    bits: u32,
) -> Result<Locked<'w, 'a>> {
    let space = lane.space();
    loop {
        let segment = directory::lookup_checked(space, bound, bits)?;
        let locked = lock_this(lane, segment, Level::Whole)?;
        let again = directory::lookup(space, bound, bits);
        bound.ensure_current(space)?;
        if again.is_some_and(|s| s.offset == segment.offset) && !is_frozen(space) {
            step!("write.locked");
            directory::fill(space, bound, bits, segment);
            return Ok(locked);
        }
        drop(locked);
        wait_while_frozen(lane)?;
    }
}

/// Lists and takes the lock of this segment. `level` describes what the caller holds already.
#[inline(always)]
pub(crate) fn lock_this<'w, 'a>(
    writer: &'w impl Writer,
    segment: Segment<'a>,
    level: Level,
) -> Result<Locked<'w, 'a>> {
    let list = writer.list();
    // After a panic it may stay listed. A listed lock that is free does not count as held.
    list.segment.store(segment.offset, Ordering::Relaxed);
    step!("write.listed");
    robust_lock::lock(&segment.header().lock, writer, level)
        .inspect_err(|_| list.segment.store(0, Ordering::Relaxed))?;
    Ok(Locked { list, segment })
}

/// The same if the lock is free.
#[inline(always)]
pub(crate) fn try_lock_this<'w, 'a>(
    lane: &Entered<'w>,
    segment: Segment<'a>,
) -> Option<Locked<'w, 'a>> {
    let list = lane.list();
    list.segment.store(segment.offset, Ordering::Relaxed);
    step!("write.listed");
    if robust_lock::try_lock(&segment.header().lock, lane.me()) {
        return Some(Locked { list, segment });
    }
    list.segment.store(0, Ordering::Release);
    None
}

/// The key's record in a segment that the caller has locked.
pub(crate) fn find<'a>(
    bound: &Bound,
    segment: Segment<'a>,
    hash: Hash,
    key: &[u8],
) -> Result<Option<Found<'a>>> {
    let row = segment.row(hash.buckets(bound.buckets));
    for at in row.tagged(hash.tag()) {
        // Relaxed: nobody else changes slots under the lock.
        let word = row.slot(at).load(Ordering::Relaxed);
        if !has_tag(hash.tag(), word) {
            continue;
        }
        let Some(record) = bound.shape.open(segment.space, word) else {
            return Err(bound.damaged("a slot names no record"));
        };
        if record.is_of(bound.id, hash) && record.key_is(key) {
            return Ok(Some(Found { position: segment.position_of(row.slot(at)), word, record }));
        }
    }
    Ok(None)
}

/// Commits one change of a slot: `old` is its current record, `new` its next one. With a
/// `stream_lock`, the change enters the stream at the same instant. Returns the sequence of the
/// change.
#[inline(always)]
pub(crate) fn commit(
    writer: &impl Writer,
    bound: &Bound,
    segment: Segment<'_>,
    (slot, position): (&AtomicU64, u32),
    old: Option<Old>,
    new: Option<New<'_>>,
    stream_lock: Option<StreamLock<'_>>,
) -> u64 {
    let header = segment.header();
    let (is_old, is_new) = (old.is_some(), new.is_some());
    let Old { word: old_word, sequence: old_sequence } =
        old.unwrap_or(Old { word: 0, sequence: 0 });
    let new_word = new.as_ref().map_or(0, |new| new.word);
    let pending = Pending { position, old_word, old_sequence, new_word };
    let recovered = UnwindGuard::new(|| recover_pending(writer, bound, segment, pending));
    let charge = match bound.is_cache() {
        true => {
            let offset = |is: bool, word| is.then(|| offset_of(word));
            charge::announce(writer, bound, offset(is_old, old_word), offset(is_new, new_word))
        }
        false => None,
    };
    header.old_word.store(old_word, Ordering::Relaxed);
    header.old_sequence.store(old_sequence, Ordering::Relaxed);
    header.new_word.store(new_word, Ordering::Relaxed);
    step!("write.armed-fields");
    // Release: the fields are whole when the word is armed.
    header.armed.store(u64::from(position) + 1, Ordering::Release);
    step!("write.armed");

    let floor = header.state_word.load(Ordering::Relaxed).max(old_sequence);
    let sequence = writer.next_sequence(floor);
    // Release: a recovery finds the pending record armed before anything else of the change.
    header.state_word.store(sequence, Ordering::Release);
    if let Some(new) = &new {
        if let Some(record) = new.checksum {
            record.seal(sequence);
        }
        fence(Ordering::Release);
        // Pairs with the acquire of readers: the bytes are whole.
        new.state_word.store(sequence, Ordering::Release);
        step!("write.sequenced");
    }
    if let Some(stream_lock) = &stream_lock {
        stream_lock.arm(segment.slot_offset(position));
    }
    // The commit point. Pairs with the acquire of readers.
    slot.store(new_word, Ordering::Release);
    if let Some(new) = new {
        new.is_public.set(true);
    }
    step!("write.committed");
    if let Some(stream_lock) = stream_lock {
        stream_lock.finish();
    }
    count(bound, segment, is_old, is_new);
    if is_old {
        writer.retire(offset_of(old_word));
        step!("write.retired");
    }
    if let Some(charge) = charge {
        charge.commit(writer, bound);
    }
    // Release: disarmed only when the old record is gone, and the charge is right.
    header.armed.store(0, Ordering::Release);
    recovered.done();
    step!("write.disarmed");
    sequence
}

/// The fields of the pending record of a segment.
#[derive(Clone, Copy)]
struct Pending {
    position: u32,
    old_word: u64,
    old_sequence: u64,
    new_word: u64,
}

/// Completes or rolls back a change that a panic has interrupted, as recovery would after a death,
/// but for this change alone, because other lanes continue under the same name. A new record that
/// is not public belongs to its maker. A record that is being retired is retired in any case.
#[cold]
fn recover_pending(
    writer: &impl Writer,
    bound: &Bound,
    segment: Segment<'_>,
    Pending { position, old_word, old_sequence, new_word }: Pending,
) {
    let header = segment.header();
    // Relaxed, here and below: under the lock.
    let is_armed = header.armed.load(Ordering::Relaxed) == u64::from(position) + 1;
    if is_armed && segment.slot(position).load(Ordering::Relaxed) == new_word {
        let old = offset_of(old_word);
        // Sequences are unique: if the state word differs, it was retired.
        let is_left = || segment.space.word(old).load(Ordering::Relaxed) == old_sequence;
        if old_word != 0 && is_left() {
            writer.retire(old);
        }
        if let Some(lane) = writer.lane_number().filter(|_| bound.is_cache()) {
            let signer = (writer.me().slot(), lane);
            charge::complete(segment.space, bound, signer, writer.list());
        }
        bound.recount(segment);
    }
    header.armed.store(0, Ordering::Release);
}

/// Writes the frame of a change of a record that will be committed: `record` is the new one, or the
/// one that is removed. With `replayed`, the frame has this expiry, and not the record's. `None` if
/// the map has no stream.
///
/// # Errors
/// Those of waiting for the stream.
#[inline]
pub(crate) fn begin_frame<'a>(
    writer: &impl Writer,
    bound: &Bound,
    segment: Segment<'a>,
    (kind, record): (ChangeKind, &Record<'_>),
    replayed: Option<u64>,
) -> Result<Option<StreamLock<'a>>> {
    // Relaxed: only tests whether there is a stream. A stream that begins waits for all holders of
    // a segment's lock.
    if bound.root(segment.space).stream.ring.load(Ordering::Relaxed) == 0 {
        return Ok(None);
    }
    let (stream, position) = (bound.stream(segment.space), &segment.header().stream_position);
    let is_set = kind == ChangeKind::Set;
    // A reader may be on another machine, so this is real time, converted here and now.
    let expires_ms = match replayed {
        Some(expires_ms) => expires_ms,
        None if is_set => hold_clock::to_wall(segment.space, record.expiry()),
        None => 0,
    };
    let len = u64::from(record.key_len) + if is_set { u64::from(record.value_len) } else { 0 };
    let parts = |out: &mut Vec<u8>| {
        record.append_key(out);
        if is_set {
            record.append_value(out);
        }
        record.key_len as usize
    };
    append::begin(writer, stream, position, kind, expires_ms, (len, parts))
}

/// Stores the segment's number of pairs, under its lock.
#[inline(always)]
pub(crate) fn count(bound: &Bound, segment: Segment<'_>, before: bool, after: bool) {
    if before != after {
        let pairs = segment.pairs();
        let pairs = if after { pairs + 1 } else { pairs.saturating_sub(1) };
        segment.set_pairs(pairs, bound.id);
        step!("write.counted");
    }
}
