//! Recovering a dead participant as a whole. Its only recoverer runs this and acts as it.
//!
//! Order:
//!
//! 1. streams are recovered, and locks that protect idempotent work are released: growth,
//!    directories, freeze lock, names;
//! 2. segments, parents of splits before their children;
//! 3. locks in blocks, then the elements that were in flight there;
//! 4. structures that were being created, blocks that were being dropped;
//! 5. extents;
//! 6. maps that the dead participant was dropping become unclaimed.
//!
//! Each part may be interrupted by the recoverer's own death; the next recoverer repeats it from
//! the start. A waiter that holds locks itself does only as much as its [`Level`] allows.
//!
//! If a living participant, perhaps a stopped one, holds what a part needs, that part stays locked
//! in the name of the dead one, and so does everything that depends on it. Everything else is
//! recovered all the same, so that nobody waits for what it does not need.

use crate::channel::recover as channel;
use crate::error::Result;
use crate::log::recover as log_recover;
use crate::map::engine::directory::is_linked;
use crate::map::engine::recover as segments;
use crate::map::engine::{directory, dropping, lifecycle};
use crate::map::layout::root::{self, Status};
use crate::map::layout::segment::Step;
use crate::memory::arena::Arena;
use crate::memory::block::{self, Block};
use crate::memory::recover::recover_extents;
use crate::memory::roots::{StructureKind, all as all_roots, roots};
use crate::memory::writer::Acting;
use crate::memory::{attach, extents, freeze_lock};
use crate::queue::recover as queue;
use crate::steps::step;
use crate::stream::{own, words};
use crate::sync::owner::Owner;
use crate::sync::participant::{self, LaneList};
use crate::sync::patience::Patience;
use crate::sync::robust_lock::{self, Level};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Recovers what the dead `owner` left at `level`. Nobody else acts as it meanwhile.
///
/// # Errors
/// `TimedOut` if a part was left because its patience ended; those of the system. Then the
/// generation must not end.
pub(crate) fn recover(arena: &Arena, owner: Owner, level: Level, patience: Patience) -> Result<()> {
    step!("recover.begun");
    let space = &arena.space;
    let Some(slot) = participant::slot(space, owner.slot()) else { return Ok(()) };
    release_locks(arena, owner, level);
    step!("recover.locks-released");
    if level > Level::Segments {
        return Ok(());
    }
    let acting = Acting { arena, owner, list: &slot.lanes[0], patience };
    let segments = recover_segments(&acting, &slot.lanes);
    if level > Level::Whole {
        return segments;
    }
    let blocks = attached(&acting);
    for offset in slot.lanes.iter().map(|lane| lane.segment.load(Ordering::Acquire)) {
        recover_lock(&acting, &blocks, offset);
    }
    step!("recover.locks-recovered");
    let free = clear_lists(&acting, &slot.lanes);
    step!("recover.lanes");
    // In the name of the dead one, a lock is listed in a lane that lists nothing else.
    let acting = Acting { list: free.unwrap_or(acting.list), ..acting };
    let blocks_recovered = match free {
        Some(_) => blocks.iter().map(|block| give_back(&acting, block)).fold(Ok(()), Result::and),
        None => Ok(()),
    };
    step!("recover.blocks");
    // Nothing that is left may lose what it depends on.
    segments.and(blocks_recovered)?;
    freeze_lock::recover_claims_of(space, owner);
    lifecycle::recover(&acting);
    step!("recover.maps");
    block::recover(&acting);
    // A block that was being dropped is gone by now.
    for block in &blocks {
        if attach::is_attached(space, block, owner) {
            attach::forget(space, block, owner);
        }
    }
    step!("recover.forgotten");
    let linked = |offset| {
        root::all(space).any(|(_, root)| root.status() != Status::Free && is_linked(root, offset))
            || block::is_linked(space, offset)
    };
    let with_children = slot.lanes.iter().any(|l| l.passed_over.load(Ordering::Acquire) != 0);
    recover_extents(space, owner, with_children, &linked);
    slot.lanes.iter().for_each(|lane| lane.passed_over.store(0, Ordering::Relaxed));
    step!("recover.extents");
    dropping::hand_over(space, owner);
    step!("recover.finished");
    Ok(())
}

/// Recovers the listed segments. A segment whose split cannot be completed now stays locked with
/// its child, and does not prevent the others.
fn recover_segments(acting: &Acting<'_>, lanes: &[LaneList]) -> Result<()> {
    let (mut failed, mut kept) = (Ok(()), Vec::new());
    for offset in in_order(acting.arena, lanes) {
        // Its parent comes before it.
        let is_kept = kept.contains(&offset);
        let recovered = if is_kept { Ok(()) } else { segments::segment(acting, offset) };
        if is_kept || recovered.is_err() {
            let segment = directory::segment_at(&acting.arena.space, offset);
            kept.extend(segment.map(|segment| segment.phase().child));
        }
        failed = failed.and(recovered);
    }
    failed
}

/// Clears the lists of the lanes that hold nothing any more in the name of the dead one. The other
/// lists stay complete: the next recoverer needs them to match children with parents. Returns a
/// list that is clear.
fn clear_lists<'a>(acting: &Acting<'_>, lanes: &'a [LaneList]) -> Option<&'a LaneList> {
    let space = &acting.arena.space;
    let is_held = |word: &AtomicU64| {
        let offset = word.load(Ordering::Acquire);
        let segment = directory::segment_at(space, offset);
        segment.is_some_and(|s| robust_lock::holder(&s.header().lock) == Some(acting.owner))
    };
    let mut clear = None;
    for lane in lanes {
        if !is_held(&lane.segment) && !is_held(&lane.child) {
            lane.segment.store(0, Ordering::Release);
            lane.child.store(0, Ordering::Release);
            clear = clear.or(Some(lane));
        }
    }
    clear
}

/// The blocks that the dead participant is attached to: they stay the structures' until its
/// attachment is removed.
fn attached(acting: &Acting<'_>) -> Vec<Block> {
    let space = &acting.arena.space;
    block::all(space)
        .filter_map(|(id, _, root)| Block::bind(space, id, root).ok())
        .filter(|block| attach::is_attached(space, block, acting.owner))
        .collect()
}

/// Recovers the end of a queue whose lock is listed at `offset`, if the lock is in a block and the
/// dead one's.
fn recover_lock(acting: &Acting<'_>, blocks: &[Block], offset: u64) {
    let of = |block: &&Block| (block.own()..block.offset + block.bytes).contains(&offset);
    let found = blocks.iter().find(of).map(|block| (block.kind, block));
    if let Some((StructureKind::Queue, block)) = found {
        queue::recover_end(acting, block, offset);
    }
}

/// Returns what the dead one had in flight to its structure. None of its locks is held any more.
fn give_back(acting: &Acting<'_>, block: &Block) -> Result<()> {
    match block.kind {
        StructureKind::Queue => queue::give_back(acting, block),
        StructureKind::Channel => {
            channel::give_back(&acting.arena.space, block, acting.owner);
            Ok(())
        }
        StructureKind::Log => {
            log_recover::give_back(&acting.arena.space, block, acting.owner);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The work that these locks protect is idempotent, and the next participant that needs it repeats
/// it. The last in the order of locks is released first.
fn release_locks(arena: &Arena, owner: Owner, level: Level) {
    let space = &arena.space;
    let release = |word: &AtomicU32, from: Level| {
        if level <= from {
            robust_lock::unlock_of(word, owner);
        }
    };
    for offset in all_roots(space).filter_map(|(id, _)| root::root_offset(space, id)) {
        words::recover(space, offset, owner);
    }
    release(&extents::growth(space).lock, Level::Growth);
    for (_, root) in root::all(space) {
        if robust_lock::holder(&root.directory_lock) == Some(owner) && level <= Level::Directories {
            directory::adopt(space, root, owner);
        }
        release(&root.directory_lock, Level::Directories);
    }
    if robust_lock::holder(&roots(space).names_lock) == Some(owner) && level <= Level::Whole {
        root::all(space).for_each(|(_, root)| own::adopt(space, &root.stream, owner));
        lifecycle::keep_memory_if_bounded(space);
        step!("recover.adopted");
    }
    release(&roots(space).freeze_lock, Level::Segments);
    release(&roots(space).names_lock, Level::Whole);
}

/// The listed segments: those that are not children, then children that were splitting themselves,
/// then the rest. A parent's split is completed before its child is released.
fn in_order(arena: &Arena, lanes: &[LaneList]) -> Vec<u64> {
    let space = &arena.space;
    let children: Vec<u64> = lanes.iter().map(|l| l.child.load(Ordering::Acquire)).collect();
    let rank = |offset: &u64| {
        let segment = directory::segment_at(space, *offset);
        let splitting = segment.is_some_and(|segment| segment.phase().step != Step::None);
        match (children.contains(offset), splitting) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        }
    };
    let mut all: Vec<u64> = lanes.iter().map(|l| l.segment.load(Ordering::Acquire)).collect();
    all.extend(&children);
    all.retain(|offset| *offset != 0);
    // Each rank is read once: it may change meanwhile.
    all.sort_by_cached_key(rank);
    all.dedup();
    all
}
