//! How a map ends: first its name, then its memory.
//!
//! Two stores under the names lock remove the name; from then on the map is gone. Its memory is
//! freed without a global lock, by a participant that claims the root. A root that is DROPPING
//! without an owner can be claimed by one compare-and-swap; while it has an owner, only that
//! participant works on it. The owner empties the segments under their locks before it frees
//! anything. If it meets a segment that somebody holds, perhaps a stopped writer, it releases its
//! claim and continues with its own work. The next sweep, drop, trim, opening or closing by any
//! participant tries again, from the start. The recoverer of a dead claimant releases its claim.

use crate::error::{ErrorKind, Result};
use crate::map::engine::bound::bind_any;
use crate::map::engine::directory::{self, is_segment, segment_at};
use crate::map::engine::lifecycle::{self, check_name};
use crate::map::engine::locked;
use crate::map::layout::root::{self, Root, Status};
use crate::memory::arena::Arena;
use crate::memory::freeze_lock;
use crate::memory::lane::LaneGuard;
use crate::memory::recover::recover_record;
use crate::memory::roots::{self, StructureKind};
use crate::memory::slab;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::{Level, Peers};
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::sync::atomic::Ordering;

/// Drops the live map with this name; false if there is none.
pub(crate) fn drop_map(arena: &Arena, name: &str) -> Result<bool> {
    check_name(name)?;
    let Some(id) = arena.operate(|lane| take_name(lane, name))? else { return Ok(false) };
    finish_own(arena, id);
    Ok(true)
}

fn take_name(lane: &LaneGuard<'_>, name: &str) -> Result<Option<u32>> {
    let _names = freeze_lock::lock_names(lane)?;
    let found = root::find(lane.space(), name);
    match found {
        Some((_, root)) => end(lane.space(), root),
        None => roots::check_kind(lane.space(), name, StructureKind::Map)?,
    }
    Ok(found.map(|(id, _)| id))
}

/// Removes the name of a live map. Under the names lock. [`finish`] frees its memory later.
pub(crate) fn end(space: &Space, root: &Root) {
    // The commit point.
    root.set_status(Status::Dropping(None));
    // After a panic, freeing the map does the rest as well. After a death, recovery does this while
    // it has the names lock.
    let kept = UnwindGuard::new(|| lifecycle::keep_memory_if_bounded(space));
    step!("drop.marked");
    // Handles notice at once. The participant that frees the memory increments it again, because
    // this one may have been killed before it did.
    root.incarnation.fetch_add(1, Ordering::AcqRel);
    drop(kept);
}

/// Frees the memory of a map that this participant has just ended. Waits a moment at most for
/// living participants: the next one will try, too.
///
/// Returns no error: the map has ended. Memory that cannot be freed because it is damaged stays
/// allocated until the damage is repaired and a sweep tries again.
pub(crate) fn finish_own(arena: &Arena, id: u32) {
    let (Ok(lane), Some(root)) = (arena.enter(), root::root(&arena.space, id)) else { return };
    let lane = lane.tidying();
    let _ = finish(&lane, id, root);
    lane.tidy();
}

/// Empties and frees a map that has ended, if the patience of the lane suffices; the lane holds
/// nothing else. The drop has happened in any case.
///
/// # Errors
/// `Damaged`. After any other obstacle the memory is kept until the next participant tries.
fn finish(lane: &LaneGuard<'_>, id: u32, root: &Root) -> Result<()> {
    while let Some(claim) = Claim::new(lane.me(), root) {
        // The freeze lock afterwards, both SeqCst: a participant that takes it and then finds an
        // unclaimed root knows that it stays unclaimed.
        let result = match freeze_lock::is_frozen(lane.space()) {
            true => {
                drop(claim);
                freeze_lock::wait_while_frozen(lane).map(|()| false)
            }
            false => demolish(lane, id, root, claim).map(|()| true),
        };
        match result {
            Ok(false) => {}
            Err(error) if error.kind() == ErrorKind::Damaged => return Err(error),
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Frees what others left of maps that have ended, where that does not wait for anybody. Returns
/// the number of maps whose memory is free now.
pub(crate) fn finish_all(lane: &LaneGuard<'_>) -> usize {
    let ended = |root: &Root| root.status() == Status::Dropping(None);
    let mut finished = 0;
    for (id, root) in root::all(lane.space()).filter(|(_, root)| ended(root)) {
        // A damaged map must not prevent the rest.
        let _ = lane.impatiently(|| finish(lane, id, root));
        finished += usize::from(!ended(root));
    }
    finished
}

/// The right to free the memory of a map. Dropping this releases the claim.
struct Claim<'a>(&'a Root);

impl<'a> Claim<'a> {
    /// `None` if another participant has the claim, or has finished.
    fn new(me: Owner, root: &'a Root) -> Option<Claim<'a>> {
        let (from, mine) = (Status::Dropping(None).bits(), Status::Dropping(Some(me)).bits());
        // SeqCst: everything that the last claimant freed is visible; then the freeze lock is
        // checked.
        let claimed =
            root.state.compare_exchange(from, mine, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        // Not `then_some`: it would create a claim in any case, whose drop would release the root's
        // next claim.
        let claim = claimed.then(|| Claim(root));
        if claimed {
            step!("drop.claimed");
        }
        claim
    }

    /// The root is free, and may already belong to another structure.
    fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.set_status(Status::Dropping(None));
    }
}

/// Empties all segments, then frees everything. May be repeated from the start.
fn demolish(lane: &LaneGuard<'_>, id: u32, root: &Root, claim: Claim<'_>) -> Result<()> {
    let space = lane.space();
    // Before anything is freed, also in a repetition: a predecessor may have died before it
    // incremented the incarnation.
    root.incarnation.fetch_add(1, Ordering::AcqRel);
    step!("drop.begun");
    if let Some(bound) = bind_any(space, id) {
        let segments = directory::segments(space, root);
        for segment in segments.filter(|segment| is_segment(space, segment.offset)) {
            let locked = locked::lock_this(lane, segment, Level::Whole)?;
            lifecycle::empty(lane, &bound, segment, None)?;
            drop(locked);
            step!("drop.segment-emptied");
        }
    }
    step!("drop.emptied");
    lifecycle::roll_back(lane, id, root, None);
    claim.end();
    step!("drop.done");
    Ok(())
}

/// Releases the claims of the dead `owner`. The last step of its recoverer: nothing may name the
/// dead one afterwards.
pub(crate) fn hand_over(space: &Space, owner: Owner) {
    for (_, root) in root::all(space) {
        let mine = Status::Dropping(Some(owner));
        if root.status() != mine {
            continue;
        }
        for index in 0..1u32 << directory::depth(root) {
            recover_segment(space, root, index, owner);
        }
        let nobodys = Status::Dropping(None).bits();
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        let _ = root.state.compare_exchange(mine.bits(), nobodys, success, failure);
        step!("recover.handed-over");
    }
}

/// Frees a segment that the dead participant was about to free.
fn recover_segment(space: &Space, root: &Root, index: u32, owner: Owner) {
    let Some(entry) = directory::raw_entry(space, root, index) else { return };
    let offset = u64::from(entry.load(Ordering::Acquire)) * 64;
    let Some(segment) = segment_at(space, offset) else { return };
    if slab::state_owner(segment.header().state_word.load(Ordering::Acquire)) == Some(owner) {
        recover_record(space, offset, owner);
    }
}
