//! The figures of a queue, for whoever may read the hold.

use crate::error::Result;
use crate::memory::arena::Arena;
use crate::memory::attach;
use crate::memory::block::{Block, pid};
use crate::memory::roots::{self, StructureKind};
use crate::queue::layout::Layout;
use crate::queue::moves::Ring;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::space::Space;
use std::collections::HashMap;
use std::sync::atomic::{Ordering, fence};

/// One of the named queues of a [`Queue`](crate::queue::Queue), in figures.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NamedQueueStat {
    /// Its name.
    pub name: String,
    /// Elements in it.
    pub len: u64,
    /// Elements ever pushed, those it began with included.
    pub pushed: u64,
    /// Elements ever pulled.
    pub pulled: u64,
}

/// Who has elements in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// Its slot.
    pub slot: u32,
    /// Its process id, as that process saw it.
    pub pid: u32,
    /// Whether it lives; what a dead one has in flight goes to the orphans.
    pub alive: bool,
    /// How many elements.
    pub elements: u64,
}

/// The figures of a [`Queue`](crate::queue::Queue).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct QueueStat {
    /// Its name.
    pub name: String,
    /// Elements in all.
    pub elements: u32,
    /// Bytes of each.
    pub element_bytes: u32,
    /// Where elements of the dead go.
    pub orphans: String,
    /// The named queues.
    pub queues: Vec<NamedQueueStat>,
    /// Who has elements in flight, by slot.
    pub holders: Vec<Holder>,
}

/// The figures as they are at this moment; each is right by itself, and they need not fit together
/// while others move elements.
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
        Some(Holder { slot: owner.slot(), pid: pid(space, owner.slot()), alive, elements })
    };
    attach::attached(space, block).filter_map(held).collect()
}

/// The figures of the queue of this name, also from a read-only handle: nothing is attached.
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
    // What was read was the queue's if it is the same one afterwards: the incarnation is bumped before a block is freed.
    fence(Ordering::Acquire);
    match root.incarnation.load(Ordering::Acquire) == block.incarnation {
        true => stat,
        false => Err(roots::not_found(space, StructureKind::Queue, name)),
    }
}
