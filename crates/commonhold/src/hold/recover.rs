//! Recovering a dead participant as a whole; run by its only recoverer, acting as it.
//!
//! Order: (1) streams are settled, and locks that protect idempotent work are let go: growth, directories, gate, names; (2) segments, parents of
//! splits before their children; (3) locks in blocks, then what was in hand there; (4) maps and other structures half
//! made or half dropped; (5) extents. Each part may be interrupted
//! by the recoverer's own death and is repeated from the start by the next. A waiter that holds locks itself does only
//! as much as its [`Level`] allows.

use crate::channel::recover as channel;
use crate::error::Result;
use crate::log::settle;
use crate::map::directory::is_linked;
use crate::map::recover as segments;
use crate::map::root::{self, Status};
use crate::map::segment::{Segment, Step};
use crate::map::{directory, lifecycle};
use crate::memory::arena::{Acting, Arena};
use crate::memory::block::{self, Block};
use crate::memory::recover::settle_extents;
use crate::memory::roots::{StructureKind, all as all_roots, roots};
use crate::memory::{attach, extents};
use crate::queue::recover as queue;
use crate::steps::step;
use crate::stream::{own, words};
use crate::sync::owner::Owner;
use crate::sync::participant::{self, LaneList};
use crate::sync::robust_lock::{self, Level};
use std::sync::atomic::{AtomicU32, Ordering};

/// Settles what the dead `owner` left at `level`. Nobody else acts as it meanwhile.
pub(crate) fn recover(arena: &Arena, owner: Owner, level: Level) -> Result<()> {
    step!("recover.begun");
    let space = &arena.space;
    let Some(slot) = participant::slot(space, owner.slot()) else { return Ok(()) };
    release_locks(arena, owner, level);
    step!("recover.locks-released");
    if level > Level::Segments {
        return Ok(());
    }
    let acting = Acting { arena, owner, list: &slot.lanes[0] };
    settle_segments(&acting, &slot.lanes)?;
    if level > Level::Whole {
        return Ok(());
    }
    let blocks = attached(&acting);
    for offset in slot.lanes.iter().map(|lane| lane.segment.load(Ordering::Acquire)) {
        settle_lock(&acting, &blocks, offset);
    }
    step!("recover.locks-settled");
    for lane in &slot.lanes {
        lane.segment.store(0, Ordering::Release);
        lane.child.store(0, Ordering::Release);
    }
    step!("recover.lanes");
    for block in &blocks {
        give_back(&acting, block)?;
    }
    step!("recover.blocks");
    lifecycle::recover(&acting)?;
    step!("recover.maps");
    block::recover(&acting)?;
    // Last of all that takes the names lock: who drops a block waits, under that lock, for operations that may be recovering
    // somebody who is attached. One that was half dropped is gone by now.
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
    settle_extents(space, owner, &linked);
    step!("recover.extents");
    step!("recover.finished");
    Ok(())
}

/// Settles the listed segments. One whose split cannot be finished now stays locked with its child, and keeps nobody from
/// the others.
fn settle_segments(acting: &Acting<'_>, lanes: &[LaneList]) -> Result<()> {
    let (mut failed, mut kept) = (Ok(()), Vec::new());
    for offset in in_order(acting.arena, lanes) {
        let segment = Segment { space: &acting.arena.space, offset };
        // Its parent comes before it.
        let is_kept = kept.contains(&offset);
        let settled = if is_kept { Ok(()) } else { segments::segment(acting, offset) };
        if (is_kept || settled.is_err()) && directory::is_segment(segment.space, offset) {
            kept.push(segment.phase().child);
        }
        failed = failed.and(settled);
    }
    failed
}

/// The blocks that the dead participant is attached to: they stay what they are until it is forgotten there.
fn attached(acting: &Acting<'_>) -> Vec<Block> {
    let space = &acting.arena.space;
    block::all(space)
        .filter_map(|(id, _, root)| Block::bind(space, id, root).ok())
        .filter(|block| attach::is_attached(space, block, acting.owner))
        .collect()
}

/// Settles what stands behind the listed lock at `offset`, if it is one of a block and the dead one's.
fn settle_lock(acting: &Acting<'_>, blocks: &[Block], offset: u64) {
    let of = |block: &&Block| (block.own()..block.offset + block.bytes).contains(&offset);
    let found = blocks.iter().find(of).map(|block| (block.kind, block));
    if let Some((StructureKind::Queue, block)) = found {
        queue::settle(acting, block, offset);
    }
}

/// What the dead one had in hand goes where its structure wants it. None of its locks is held any more.
fn give_back(acting: &Acting<'_>, block: &Block) -> Result<()> {
    match block.kind {
        StructureKind::Queue => queue::give_back(acting, block),
        StructureKind::Channel => {
            channel::give_back(&acting.arena.space, block, acting.owner);
            Ok(())
        }
        StructureKind::Log => {
            settle::give_back(&acting.arena.space, block, acting.owner);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What these locks protect is idempotent and done again by whoever needs it. The last in the order of locks goes first.
fn release_locks(arena: &Arena, owner: Owner, level: Level) {
    let space = &arena.space;
    let release = |word: &AtomicU32, from: Level| {
        if level <= from && robust_lock::holder(word) == Some(owner) {
            robust_lock::unlock(word);
        }
    };
    for offset in all_roots(space).filter_map(|(id, _)| root::root_offset(space, id)) {
        words::settle(space, offset, owner);
    }
    release(&extents::growth(space).lock, Level::Growth);
    for (_, root) in root::all(space) {
        release(&root.directory_lock, Level::Directories);
    }
    if robust_lock::holder(&roots(space).names_lock) == Some(owner) && level <= Level::Whole {
        root::all(space).for_each(|(_, root)| own::adopt(space, &root.stream, owner));
        step!("recover.adopted");
    }
    release(&roots(space).gate, Level::Segments);
    release(&roots(space).names_lock, Level::Whole);
}

/// The listed segments: those that are nobody's child, then children that were splitting themselves, then the rest.
/// A parent's split is finished before its child is let go.
fn in_order(arena: &Arena, lanes: &[LaneList]) -> Vec<u64> {
    let space = &arena.space;
    let children: Vec<u64> = lanes.iter().map(|l| l.child.load(Ordering::Acquire)).collect();
    let rank = |offset: &u64| {
        let splitting = directory::is_segment(space, *offset)
            && Segment { space, offset: *offset }.phase().step != Step::None;
        match (children.contains(offset), splitting) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        }
    };
    let mut all: Vec<u64> = lanes.iter().map(|l| l.segment.load(Ordering::Acquire)).collect();
    all.extend(&children);
    all.retain(|offset| *offset != 0);
    all.sort_by_key(rank);
    all.dedup();
    all
}
