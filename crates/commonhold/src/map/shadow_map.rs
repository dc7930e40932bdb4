//! A shadow map: a replica's map that is filled while readers use the old one, then takes its place.
//!
//! Both are ordinary live maps until the one store that begins the old one's end. Under the names lock, the new one
//! *claims* the old one's name, by number; the old one becomes DROPPING, the commit point: who looks the name up from
//! then on finds the new one through its claim; the name is written into the new root, and the claim withdrawn. Whoever takes the
//! names lock after a death finishes that, or withdraws a claim on a map that still lives (`roots::settle_claims`).

use crate::error::{Error, ErrorKind, Result};
use crate::map::bound;
use crate::map::dropping;
use crate::map::root::{self, Root};
use crate::memory::arena::Arena;
use crate::memory::freeze_lock;
use crate::memory::lane::LaneGuard;
use crate::memory::roots;
use crate::steps::step;
use crate::sync::unwind::Mend;
use std::sync::atomic::Ordering;

/// Gives the replica's map `next` the name of the replica's map `name`, which is dropped.
///
/// # Errors
/// `NotFound` if one of them is missing; `Mismatch` if one is no replica's or their modes differ; those of dropping a map.
/// After an error of dropping, `next` has the name.
pub(crate) fn swap_in(arena: &Arena, next: &str, name: &str) -> Result<()> {
    let old = arena.operate(|lane| replace(lane, next, name))?;
    dropping::finish_own(arena, old)
}

/// The old map's number; it has ended.
fn replace(lane: &LaneGuard<'_>, next: &str, name: &str) -> Result<u32> {
    let _names = freeze_lock::lock_names(lane)?;
    let (next_id, _) = replicas_root(lane, next)?;
    let (id, old) = replicas_root(lane, name)?;
    let (Some(next_root), true) = (root::root(lane.space(), next_id), next_id != id) else {
        return Err(bound::damaged(lane.space(), next_id));
    };
    if next_root.mode() != old.mode() {
        let text = format!("maps '{next}' and '{name}' have different modes; drop '{name}' first");
        return Err(Error::new(ErrorKind::Mismatch, text));
    }
    // Release: the claim is there before the old one is seen to go.
    next_root.claims.store(u64::from(id) + 1, Ordering::Release);
    let named = Mend::new(|| roots::recover_claims(lane.space()));
    step!("shadow.claimed");
    // The commit point.
    dropping::end(lane.space(), old);
    step!("shadow.committed");
    drop(named);
    step!("shadow.named");
    Ok(id)
}

/// Makes a replica's map one that everybody may write. False if it is one already.
///
/// # Errors
/// `NotFound`; those of making and dropping.
pub(crate) fn promote(arena: &Arena, name: &str) -> Result<bool> {
    arena.operate(|lane| {
        let _names = freeze_lock::lock_names(lane)?;
        let (_, root) = root::find(&arena.space, name).ok_or_else(|| missing(name))?;
        let is_replica = root.is_replica();
        if is_replica {
            root.promote();
        }
        Ok(is_replica)
    })
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no map '{name}'"))
}

fn replicas_root<'a>(lane: &LaneGuard<'a>, name: &str) -> Result<(u32, &'a Root)> {
    let found = root::find(lane.space(), name).ok_or_else(|| missing(name))?;
    if !found.1.is_replica() {
        return Err(not_a_replica(name));
    }
    Ok(found)
}

/// The error of treating a map that everybody may write as a replica's.
pub(crate) fn not_a_replica(name: &str) -> Error {
    let text = format!(
        "map '{name}' is no replica: what is in it would be lost; drop it first, or choose another name"
    );
    Error::new(ErrorKind::Mismatch, text)
}
