//! A shadow map: a replica fills it while readers use the old map; then it replaces the old one.
//!
//! Both are ordinary live maps until the one store that begins the old one's end. Under the names
//! lock, the new map *claims* the old one's name, by number. The old map becomes DROPPING, which is
//! the commit point: from then on a lookup of the name finds the new map through its claim. Then
//! the name is written into the new root, and the claim is withdrawn. After a death, the next
//! participant that takes the names lock completes these steps, or withdraws a claim on a map that
//! is still live (`roots::recover_claims`).

use crate::error::{Error, ErrorKind, Result};
use crate::map::engine::bound;
use crate::map::engine::dropping;
use crate::map::engine::lifecycle;
use crate::map::layout::root::{self, Root};
use crate::memory::arena::Arena;
use crate::memory::freeze_lock;
use crate::memory::lane::LaneGuard;
use crate::memory::roots;
use crate::steps::step;
use crate::sync::unwind::UnwindGuard;
use std::sync::atomic::Ordering;

/// Gives the replica's map `next` the name of the replica's map `name`, and drops the latter.
///
/// # Errors
/// `NotFound` if one of them is missing; `Mismatch` if one is not a replica's or their modes
/// differ; those of the names lock.
pub(crate) fn swap_in(arena: &Arena, next: &str, name: &str) -> Result<()> {
    let old = arena.operate(|lane| replace(lane, next, name))?;
    dropping::finish_own(arena, old);
    Ok(())
}

/// Returns the number of the old map, which has ended.
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
    // Release: the claim is visible before the old map is seen to end.
    next_root.claims.store(u64::from(id) + 1, Ordering::Release);
    let named = UnwindGuard::new(|| roots::recover_claims(lane.space()));
    step!("shadow.claimed");
    // The commit point.
    dropping::end(lane.space(), old);
    step!("shadow.committed");
    drop(named);
    step!("shadow.named");
    Ok(id)
}

/// Makes a replica's map writable for everybody. False if it already is.
///
/// # Errors
/// `NotFound`; those of creating and dropping.
pub(crate) fn promote(arena: &Arena, name: &str) -> Result<bool> {
    arena.operate(|lane| {
        let _names = freeze_lock::lock_names(lane)?;
        let (_, root) = root::find(&arena.space, name).ok_or_else(|| missing(name))?;
        let is_replica = root.is_replica();
        if is_replica {
            root.promote();
            lifecycle::keep_memory_if_bounded(lane.space());
        }
        Ok(is_replica)
    })
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("map '{name}' does not exist"))
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
        "map '{name}' is not a replica, and its pairs would be lost; drop it first, or choose \
         another name"
    );
    Error::new(ErrorKind::Mismatch, text)
}
