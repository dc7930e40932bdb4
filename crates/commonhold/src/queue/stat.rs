//! Statistics of a queue, for every process that may read the hold.

use crate::error::Result;
use crate::memory::arena::Arena;
use crate::memory::attach;
use crate::memory::block::Block;
use crate::memory::roots::{self, StructureKind};
use crate::queue::layout::Layout;
use crate::queue::moves::Ring;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::space::Space;
use std::collections::HashMap;
use std::sync::atomic::{Ordering, fence};

/// Statistics of one of the named queues of a [`Queue`](crate::queue::Queue).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NamedQueueStat {
    /// Its name.
    pub name: String,
    /// The number of elements in it.
    pub len: u64,
    /// The number of elements ever pushed, including those that it began with.
    pub pushed: u64,
    /// The number of elements ever pulled.
    pub pulled: u64,
}

/// A process that has elements in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// Its participant slot.
    pub slot: u32,
    /// Its process id, as the process itself saw it.
    pub pid: u32,
    /// Whether the process is alive. The elements of a dead process go to the orphans.
    pub alive: bool,
    /// The number of elements that it has in flight.
    pub elements: u64,
}

/// Statistics of a [`Queue`](crate::queue::Queue).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QueueStat {
    /// Its name.
    pub name: String,
    /// The total number of elements.
    pub elements: u32,
    /// The length of each element in bytes.
    pub element_bytes: u32,
    /// The name of the orphan queue.
    pub orphans: String,
    /// The named queues.
    pub queues: Vec<NamedQueueStat>,
    /// The processes that have elements in flight, by slot.
    pub holders: Vec<Holder>,
}

/// The statistics at this moment. Each number is correct on its own, but while elements move the
/// numbers need not be consistent with each other.
pub(crate) fn stat(space: &Space, block: &Block, layout: &Layout) -> QueueStat {
    let name_of = |number| layout.name(space, number);
    let queues = (0..layout.queues).map(|queue| {
        let ring = Ring { space, block, layout, queue };
        let [pulled, pushed] = ring.passed();
        NamedQueueStat { name: name_of(queue), len: ring.len(), pushed, pulled }
    });
    QueueStat {
        name: block.name.clone(),
        elements: layout.elements,
        element_bytes: layout.element_bytes,
        orphans: name_of(layout.orphans),
        queues: queues.collect(),
        holders: holders(space, block, layout),
    }
}

fn holders(space: &Space, block: &Block, layout: &Layout) -> Vec<Holder> {
    let mut counts = HashMap::new();
    for holder in layout.holders(space) {
        *counts.entry(holder.load(Ordering::Relaxed)).or_insert(0) += 1;
    }
    let held = |owner: Owner| {
        let elements = *counts.get(&owner.bits())?;
        let alive = !participant::is_dead(space, owner);
        Some(Holder {
            slot: owner.slot(),
            pid: participant::pid(space, owner.slot()),
            alive,
            elements,
        })
    };
    attach::attached(space, block).filter_map(held).collect()
}

/// The statistics of the queue with this name, also from a read-only handle: nothing is attached.
///
/// # Errors
/// `NotFound`; `Mismatch` if it is another kind of structure; `Damaged`.
pub(crate) fn stat_named(arena: &Arena, name: &str) -> Result<QueueStat> {
    let space = &arena.space;
    roots::check_name(StructureKind::Queue, name)?;
    roots::check_kind(space, name, StructureKind::Queue)?;
    let Some((id, root)) = roots::find(space, name) else {
        return Err(roots::not_found(space, StructureKind::Queue, name));
    };
    let block = Block::bind(space, id, root)?;
    let stat = Layout::read(space, &block).map(|layout| stat(space, &block, &layout));
    // The layout and the statistics belong to the queue if the incarnation is still the same,
    // because it is incremented before a block is freed.
    fence(Ordering::Acquire);
    match root.incarnation.load(Ordering::Acquire) == block.incarnation {
        true => stat,
        false => Err(roots::not_found(space, StructureKind::Queue, name)),
    }
}
