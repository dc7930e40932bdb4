//! How a map ends: its name first, its memory afterwards.
//!
//! The name goes under the names lock, with two stores; from then on the map is gone. What it had
//! is freed without any lock over everything, by whoever claims the root: DROPPING without an owner
//! is *nobody's* and waits to be claimed, by one compare-and-swap; with an owner, that one alone is
//! at it. Segments are emptied under their locks before anything is freed. Who meets one that
//! somebody holds, a stopped writer perhaps, makes the root nobody's again and goes on with its own
//! affairs; the next sweep, drop, trim, opening or closing by anybody tries once more, from the
//! start. A dead claimant's root is made nobody's by its recoverer.

use crate::error::{ErrorKind, Result};
use crate::map::bound::bind_any;
use crate::map::directory::{self, is_segment};
use crate::map::lifecycle::{self, check_name};
use crate::map::locked;
use crate::map::root::{self, Root, Status};
use crate::map::segment::Segment;
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
use std::sync::atomic::Ordering;

/// Drops the live map of this name; false if there is none.
pub(crate) fn drop_map(arena: &Arena, name: &str) -> Result<bool> {
    check_name(name)?;
    let Some(id) = arena.operate(|lane| take_name(lane, name))? else { return Ok(false) };
    finish_own(arena, id)?;
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

/// Takes the name from a live map; under the names lock. Its memory is left to [`finish`].
pub(crate) fn end(space: &Space, root: &Root) {
    // The commit point.
    root.set_status(Status::Dropping(None));
    // Behind a panic its demolition does the rest, too.
    step!("drop.marked");
    // Handles find out at once. Whoever frees anything says so again: who was killed here has not.
    root.incarnation.fetch_add(1, Ordering::AcqRel);
    lifecycle::keep_memory_if_bounded(space);
}

/// Frees what a map had that this participant has just ended: those who live are waited for a
/// moment, as the next one will try, too.
///
/// # Errors
/// As [`finish`].
pub(crate) fn finish_own(arena: &Arena, id: u32) -> Result<()> {
    match (arena.enter(), root::root(&arena.space, id)) {
        (Ok(lane), Some(root)) => {
            let lane = lane.tidying();
            let result = finish(&lane, id, root);
            lane.tidy();
            result
        }
        _ => Ok(()),
    }
}

/// Empties and frees a map that has ended, if the patience of the lane, which holds nothing else,
/// suffices. The drop has happened in any case.
///
/// # Errors
/// `Damaged`. Whatever else keeps the memory from being freed keeps it until the next one tries.
fn finish(lane: &LaneGuard<'_>, id: u32, root: &Root) -> Result<()> {
    while let Some(claim) = Claim::new(lane.me(), root) {
        // The freeze lock afterwards, both SeqCst: who takes it and then finds a root that is nobody's
        // knows that it stays so.
        let result = match freeze_lock::is_frozen(lane) {
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

/// Finishes what others left of maps that have ended, where that waits for nobody.
pub(crate) fn finish_all(arena: &Arena) {
    let ended = |root: &Root| root.status() == Status::Dropping(None);
    if !root::all(&arena.space).any(|(_, root)| ended(root)) {
        return;
    }
    let Some(lane) = arena.try_enter().map(LaneGuard::impatient) else { return };
    for (id, root) in root::all(lane.space()).filter(|(_, root)| ended(root)) {
        // One that is damaged keeps nobody from the rest.
        let _ = finish(&lane, id, root);
    }
}

/// The right to free what a map had. Dropping it makes the root nobody's again.
struct Claim<'a>(&'a Root);

impl<'a> Claim<'a> {
    /// `None` if somebody else is at it, or has finished it.
    fn new(me: Owner, root: &'a Root) -> Option<Claim<'a>> {
        let (from, mine) = (Status::Dropping(None).bits(), Status::Dropping(Some(me)).bits());
        // SeqCst: what the last one freed is seen; then the freeze lock is looked at.
        let claimed =
            root.state.compare_exchange(from, mine, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        // Not `then_some`: a claim that is made in any case would end what is in the root by now.
        let claim = claimed.then(|| Claim(root));
        if claimed {
            step!("drop.claimed");
        }
        claim
    }

    /// The root is free, and may be another structure's by now.
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
    // Before anything is freed, whoever does it: a predecessor may have died before its own bump.
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

/// What the dead `owner` had claimed is nobody's. The last that its recoverer does: nothing may
/// bear its name then.
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

/// A segment that the dead one was about to free is free.
fn recover_segment(space: &Space, root: &Root, index: u32, owner: Owner) {
    let Some(entry) = directory::raw_entry(space, root, index) else { return };
    let offset = u64::from(entry.load(Ordering::Acquire)) * 64;
    let segment = Segment { space, offset };
    if is_segment(space, offset)
        && slab::state_owner(segment.header().state_word.load(Ordering::Acquire)) == Some(owner)
    {
        recover_record(space, offset, owner);
    }
}
