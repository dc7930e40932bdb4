//! Compaction: emptying sparse extents by republishing their records elsewhere.
//!
//! Extents of records serve one size class. Where much of an extent has been freed, its remaining
//! records keep the memory from every other class. Compaction owns such an extent (so nobody
//! allocates from it), stores each of its records again with the same contents (only if nobody
//! changes it meanwhile), and frees the extent. A compaction on demand empties extents that are
//! less than half full, which bounds fragmentation: after it, every extent that no thread allocates
//! from is at least half full. A writer that finds the hold full empties a few extents, the
//! emptiest first, as long as each frees at least an eighth.

use crate::error::{ErrorKind, Result};
use crate::map::engine::bound::{Bound, bind_live};
use crate::map::engine::change::{Act, Change, Expiry, Rule};
use crate::map::engine::write;
use crate::map::layout::record::{self, Record};
use crate::memory::classes::{EXTENT, geometry};
use crate::memory::extents::{self, Kind, State, header};
use crate::memory::lane::LaneGuard;
use crate::memory::{slab, supply};
use crate::stream::frame::ChangeKind;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::Ordering;

/// The number of parts in which an extent's fullness is measured.
const PARTS: u64 = 8;
/// The number of attempts to move a pair whose value changes in place meanwhile.
const MOVES: u32 = 8;

/// Which extents to empty, and at most how many.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Extents with less than this many eighths of their records in use.
    eighths: u64,
    most: usize,
}

impl Wanted {
    /// All extents that are less than half full.
    pub(crate) const SPARSE: Wanted = Wanted { eighths: PARTS / 2, most: usize::MAX };
    /// The emptiest: a megabyte, if possible.
    pub(crate) const ROOM: Wanted = Wanted { eighths: PARTS - 1, most: 16 };
}

/// Applies a change. If there is no room for it, makes room and tries once more. No lock is held.
///
/// # Errors
/// Those of the change.
#[inline(always)]
pub(crate) fn with_room<T>(
    lane: &LaneGuard<'_>,
    mut change: impl FnMut() -> Result<T>,
) -> Result<T> {
    match change() {
        Err(full) if full.is_full() && make_room(lane) => change(),
        result => result,
    }
}

/// Frees what dead participants left, then empties sparse extents. False if that freed nothing.
#[cold]
fn make_room(lane: &LaneGuard<'_>) -> bool {
    let swept = lane.sweep();
    let freed = lane.impatiently(|| compact(lane, Wanted::ROOM));
    // Before an error, it may have freed some.
    swept || freed.unwrap_or(1) > 0
}

/// Empties extents, except those with a pair that somebody has locked, and those whose records find
/// no other room. Returns the number of extents freed. No lock is held, and the lane is impatient:
/// no caller needs a certain extent.
///
/// # Errors
/// Damage.
pub(crate) fn compact(lane: &LaneGuard<'_>, wanted: Wanted) -> Result<u64> {
    let mut maps = HashMap::new();
    let mut freed = 0;
    for (_, extent, class) in candidates(lane.space(), wanted) {
        let free = State::unowned(Kind::Records, class);
        let owned = State::owned(Kind::Records, class, lane.lane(), lane.me());
        if !header(lane.space(), extent).change(free, owned) {
            continue;
        }
        let released = UnwindGuard::new(|| supply::release(lane.space(), extent, class));
        let emptied = empty(lane, extent, class, &mut maps);
        drop(released);
        match emptied {
            // Another participant has locked one of its pairs, or the hold's growth, or no other
            // extent of the class has room: another extent may do as well. Of each class, at most
            // one extent finds no room, because its records could go to the next one.
            Err(error) if error.is_full() || error.kind() == ErrorKind::TimedOut => {}
            result => result?,
        }
        freed += u64::from(slab::free_if_unused(lane.space(), extent, lane.me(), lane.lane()));
    }
    Ok(freed)
}

/// The emptiest extents without an owner, the emptiest first: fullness (of 2^16), extent, class.
fn candidates(space: &Space, wanted: Wanted) -> Vec<(u64, u64, u8)> {
    let mut found = BinaryHeap::new();
    for extent in 0..extents::committed(space) {
        let state = header(space, extent).state();
        if state.kind() != Kind::Records || state.owner().is_some() {
            continue;
        }
        let (class, count) = (state.class(), u64::from(geometry(state.class()).count));
        let used = u64::from(slab::used(space, extent, class));
        if used * PARTS < count * wanted.eighths {
            found.push(((used << 16) / count, extent, class));
            if found.len() > wanted.most {
                found.pop();
            }
        }
    }
    found.into_sorted_vec()
}

pub(crate) fn empty(
    lane: &LaneGuard<'_>,
    extent: u64,
    class: u8,
    maps: &mut HashMap<u32, Option<Bound>>,
) -> Result<()> {
    let space = lane.space();
    for offset in slab::offsets(extent, class) {
        let sequence = space.word(offset).load(Ordering::Acquire);
        if !slab::is_sequence(sequence) {
            continue;
        }
        let map = record::map_at(space, offset);
        let bound = maps.entry(map).or_insert_with(|| bind_live(space, map));
        if bound.as_ref().is_some_and(|bound| !bound.is_current(space)) {
            // It has ended, and another map may have its root by now.
            *bound = bind_live(space, map);
        }
        let room = EXTENT - offset % EXTENT;
        let record = bound
            .as_ref()
            .and_then(|bound| Some((bound, bound.shape.measure(space, offset, sequence, room)?)));
        if let Some((bound, record)) = record {
            move_away(lane, bound, &record)?;
        }
    }
    Ok(())
}

/// Stores the pair again if its record is still this one.
fn move_away(lane: &LaneGuard<'_>, bound: &Bound, record: &Record<'_>) -> Result<()> {
    // A value that changes in place leaves the record where it is. The record of a pair that
    // changes all the time stays, as that of a pair that is locked.
    for _ in 0..MOVES {
        let moved = try_move_away(lane, bound, record)?;
        if moved || record.state_word().load(Ordering::Relaxed) != record.sequence {
            break;
        }
    }
    Ok(())
}

/// False if the record or its value has changed meanwhile.
fn try_move_away(lane: &LaneGuard<'_>, bound: &Bound, record: &Record<'_>) -> Result<bool> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.append_key(&mut key);
    record.append_value(&mut value);
    let change = Change {
        key: &key,
        rule: Rule::Unchanged(Some((record.sequence, &value))),
        at: None,
        act: Act::Put(&value),
        expiry: Expiry::At(record.expiry()),
        streamed: false,
        removal: ChangeKind::Delete,
        replayed: None,
    };
    // The rule is checked under the lock: the copy equals the record's contents, or nothing
    // happens.
    match write::apply_once(lane, bound, &change, None) {
        // The map was dropped meanwhile: its owner frees the record.
        Err(_) if !bound.is_current(lane.space()) => Ok(false),
        result => result.map(|outcome| outcome.done),
    }
}
