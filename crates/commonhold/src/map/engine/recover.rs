//! Recovering the segments of a dead participant. Its recoverer runs this and acts as it.
//!
//! A segment belongs to the dead participant if its lock word names it. The recovery then decides
//! the pending record, rolls the split forward or back, recounts the pairs, and unlocks. All of it
//! may be repeated from the start at any time.

use crate::error::Result;
use crate::map::engine::bound::{Bound, bind_any};
use crate::map::engine::charge;
use crate::map::engine::directory::{Entries, segment_at};
use crate::map::engine::split;
use crate::map::layout::record::offset_of;
use crate::map::layout::segment::{Phase, Segment, Step};
use crate::memory::classes::EXTENT;
use crate::memory::extents::{committed, header};
use crate::memory::recover::recover_record;
use crate::memory::slab;
use crate::memory::writer::{Acting, Writer};
use crate::steps::step;
use crate::sync::{participant, robust_lock};
use std::sync::atomic::Ordering;

/// Recovers the segment at `offset` if the dead participant holds its lock.
pub(crate) fn segment(acting: &Acting<'_>, offset: u64) -> Result<()> {
    let space = &acting.arena.space;
    let held =
        |segment: &Segment<'_>| robust_lock::holder(&segment.header().lock) == Some(acting.owner);
    let Some(segment) = segment_at(space, offset).filter(held) else { return Ok(()) };
    step!("recover.segment");
    // A child whose state word is still WRITING is not yet part of the map: it is freed with its
    // parent or as a record.
    let live = slab::is_sequence(segment.header().state_word.load(Ordering::Acquire));
    if let Some(bound) = live.then(|| bind_any(space, segment.map())).flatten() {
        recover_pending(acting, &bound, segment);
        step!("recover.pending-recovered");
        recover_split(acting, &bound, segment)?;
        step!("recover.split");
        bound.recount(segment);
    }
    robust_lock::unlock(&segment.header().lock);
    step!("recover.unlocked");
    Ok(())
}

/// Decides the pending change by what the slot holds.
fn recover_pending(acting: &Acting<'_>, bound: &Bound, segment: Segment<'_>) {
    let header = segment.header();
    let armed = header.armed.load(Ordering::Acquire);
    if armed != 0 && armed <= u64::from(bound.positions()) && bound.inline.is_none() {
        let (old, new) =
            (header.old_word.load(Ordering::Relaxed), header.new_word.load(Ordering::Relaxed));
        let committed = segment.slot(armed as u32 - 1).load(Ordering::Acquire) == new;
        if committed {
            retire_old(acting, offset_of(old), header.old_sequence.load(Ordering::Relaxed));
            if bound.is_cache() {
                complete_charge(acting, bound, segment);
            }
        } else if new != 0 {
            retire_new(acting, offset_of(new));
        }
    }
    header.armed.store(0, Ordering::Release);
}

/// The segment's state word is the sequence of the committed change, which names the lane that made
/// it.
fn complete_charge(acting: &Acting<'_>, bound: &Bound, segment: Segment<'_>) {
    let space = &acting.arena.space;
    let (slot, lane) =
        (acting.owner.slot(), segment.header().state_word.load(Ordering::Relaxed) & 15);
    if let Some(lanes) = participant::slot(space, slot).map(|slot| &slot.lanes) {
        charge::complete(space, bound, (slot, lane as u32), &lanes[lane as usize]);
    }
}

/// The old record: still as recorded, or being retired by the dead participant. Otherwise it
/// belongs to somebody else.
fn retire_old(acting: &Acting<'_>, offset: u64, sequence: u64) {
    if offset == 0 {
        return;
    }
    let space = &acting.arena.space;
    if space.word(offset).load(Ordering::Acquire) == sequence {
        acting.retire(offset);
    } else {
        recover_record(space, offset, acting.owner);
    }
}

/// The new record, if the dead participant still owns its extent: then nobody else can have
/// allocated it. If a predecessor freed a run, the extent has another owner.
fn retire_new(acting: &Acting<'_>, offset: u64) {
    let space = &acting.arena.space;
    let extent = offset / EXTENT;
    let own =
        extent < committed(space) && header(space, extent).state().owner() == Some(acting.owner);
    if own && space.word(offset).load(Ordering::Acquire) != 0 {
        acting.retire(offset);
    }
}

/// # Errors
/// Those of waiting for the directory's lock; damage. The caller then leaves parent and child
/// locked in the name of the dead participant, for the next recoverer.
fn recover_split(acting: &Acting<'_>, bound: &Bound, parent: Segment<'_>) -> Result<()> {
    let (space, phase) = (&acting.arena.space, parent.phase());
    match phase.step {
        Step::None => {}
        Step::Publishing => {
            let child = segment_at(space, phase.child);
            let child = child.ok_or_else(|| bound.damaged("a split names no child"))?;
            let entries = Entries::lock(acting, bound.root(space), space, phase)?;
            split::finish(bound, parent, child, phase, entries);
        }
        Step::Copying => {
            if let Some(child) = segment_at(space, phase.child) {
                let is_locked = robust_lock::holder(&child.header().lock) == Some(acting.owner);
                split::roll_back(acting, child, is_locked);
            }
            parent.set_phase(Phase::still(phase.depth, phase.prefix));
        }
    }
    Ok(())
}
