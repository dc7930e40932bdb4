//! Compaction: emptying sparse extents by republishing their records elsewhere.
//!
//! Extents of records serve one size class. Where most of an extent has been freed, the few records left would keep
//! its memory from every other class. Compaction owns such an extent (so nobody allocates from it), sets each of its
//! records anew with the same contents (only if nobody changes it meanwhile), and frees it. It bounds fragmentation: after
//! it, every extent that no thread allocates from is at least a quarter full.

use crate::error::Result;
use crate::map::bound::{Bound, bind_live};
use crate::map::change::{Act, Change, Expiry, Rule};
use crate::map::record::Record;
use crate::map::write;
use crate::memory::classes::{EXTENT, geometry};
use crate::memory::extents::{self, Kind, State, header};
use crate::memory::lane::LaneGuard;
use crate::memory::{slab, supply};
use crate::sync::robust_lock::Peers;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// An extent with less than one in `SPARSE` of its records in use is emptied.
const SPARSE: u32 = 4;

/// Empties sparse extents, at most `most`; returns how many were freed. No lock is held.
pub(crate) fn compact(lane: &LaneGuard<'_>, most: u64) -> Result<u64> {
    let space = lane.space();
    let mut maps = HashMap::new();
    let mut freed = 0;
    for extent in 0..extents::committed(space) {
        let state = header(space, extent).state();
        let sparse = state.kind() == Kind::Records
            && state.owner().is_none()
            && slab::used(space, extent, state.class()) * SPARSE < geometry(state.class()).count;
        if sparse && freed < most {
            let owned = State::owned(Kind::Records, state.class(), lane.lane(), lane.me());
            if header(space, extent).change(state, owned) {
                let emptied = empty(lane, extent, state.class(), &mut maps);
                supply::release(space, extent, state.class());
                emptied?;
                freed += u64::from(slab::free_if_unused(space, extent, lane.me(), lane.lane()));
            }
        }
    }
    Ok(freed)
}

fn empty(
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
        let map = (space.word(offset + 8).load(Ordering::Relaxed) >> 28) as u32 & 0xfff;
        let bound = maps.entry(map).or_insert_with(|| bind_live(space, map));
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

/// Sets the pair anew if its record is still this one.
fn move_away(lane: &LaneGuard<'_>, bound: &Bound, record: &Record<'_>) -> Result<()> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.append_key(&mut key);
    record.append_value(&mut value);
    let change = Change {
        key: &key,
        rule: Rule::Sequence(Some(record.sequence)),
        act: Act::Put(&value),
        expiry: Expiry::At(record.expiry()),
    };
    // The rule is checked under the lock: what was copied is what the record held, or nothing happens.
    match write::apply_once(lane, bound, &change, None) {
        // Dropped meanwhile: its owner frees the record.
        Err(error) if error.is_not_found() => Ok(()),
        result => result.map(|_| ()),
    }
}
