//! Comparing what a lane owns with the ledger, after its process has died or its thread ended.
//!
//! The map must agree with the ledger, except for the one change (or one batch) that the dead
//! process had begun: that may be there or not, whole either way. The state found becomes the
//! lane's new state. Invariant: no other process changes the lane's keys meanwhile.

use super::plan::{
    BATCH, GROWING, IN_BATCH, KEPT_EVERY, Known, Ledger, Maps, growing_key, growing_value, grown,
    own_key,
};
use super::value::Kind;
use crate::workload::{Result, RunError};

/// Updates the ledger of `lane` from the maps; fails if something was lost, torn or invented.
/// `died` means that a change may have been cut off. Returns the number of changes found ahead of
/// the ledger.
pub fn reconcile(lane: u32, ledger: &Ledger, maps: &Maps, died: bool) -> Result<u64> {
    let mut ahead = 0;
    for kind in Kind::ALL {
        for (index, known) in (0..).zip(ledger.all_known(lane, kind)?) {
            let found = look(maps, kind, lane, index, known)?;
            if found != known {
                ahead += 1;
                ledger.acknowledge(lane, kind, index, found)?;
            }
        }
    }
    for which in 0..GROWING.len() {
        ahead += reconcile_growing(lane, ledger, maps, which)?;
    }
    let in_batch = ledger.head(lane, IN_BATCH)? != 0;
    let allowed = if !died {
        0
    } else if in_batch {
        BATCH
    } else {
        1
    };
    if ahead > allowed {
        return Err(RunError::new(format!(
            "lane {lane}: expected at most {allowed} unacknowledged changes in the maps, got \
             {ahead}"
        )));
    }
    ledger.set_head(lane, IN_BATCH, 0)?;
    Ok(ahead)
}

/// The state of key `index` now, given the acknowledged one.
fn look(maps: &Maps, kind: Kind, lane: u32, index: u64, known: Known) -> Result<Known> {
    let key = own_key(kind, lane, index);
    let value = maps.own(kind).get(&key)?;
    let wrong = |what: String| {
        let map = kind.map_name();
        Err(RunError::new(format!("map {map}, lane {lane}, key {index}: {what}; known: {known:?}")))
    };
    let Some(value) = value else {
        return match known.present {
            // A cache may drop anything at any time.
            _ if kind == Kind::Cache => Ok(known),
            false => Ok(known),
            true if !index.is_multiple_of(KEPT_EVERY) => Ok(known.next(false)),
            true => wrong("the key is missing, but is never deleted".to_owned()),
        };
    };
    match kind.read(&key, &value) {
        Err(why) => wrong(why),
        Ok(stamp) if stamp.number == known.number && known.present => Ok(known),
        Ok(stamp) if stamp.number == known.number + 1 => Ok(known.next(true)),
        Ok(stamp) => wrong(format!("the value is that of change {}", stamp.number)),
    }
}

fn reconcile_growing(lane: u32, ledger: &Ledger, maps: &Maps, which: usize) -> Result<u64> {
    let added = ledger.head(lane, grown(which))?;
    let key = growing_key(which, lane, added);
    let Some(value) = maps.growing[which].get(&key)? else { return Ok(0) };
    if value != growing_value(which, &key) {
        let name = GROWING[which];
        return Err(RunError::new(format!("map {name}, lane {lane}, key {added}: a wrong value")));
    }
    ledger.set_head(lane, grown(which), added + 1)?;
    Ok(1)
}
