//! The words that a participant leaves in a log when it ends, and whether a log is sound.
//!
//! A participant's only traces in a log are words that name it: the tenants of its rings, and the
//! collector. Any participant that needs a dead owner's word takes it over. A recoverer clears the
//! word, so that none outlives its generation.

use crate::log::layout::{Layout, tenant_owner};
use crate::log::ring::{Kind, Ring};
use crate::memory::block::Block;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::participant::is_left_behind;
use crate::sync::space::Space;
use std::sync::atomic::{Ordering, fence};

/// Releases everything of `owner`, which is dead or has closed its handle. May be repeated.
pub(crate) fn give_back(space: &Space, block: &Block, owner: Owner) {
    // A damaged log is left alone.
    let Ok(layout) = Layout::read(space, block) else { return };
    for number in 0..layout.rings {
        let word = &layout.ring(space, number).tenant;
        let found = word.load(Ordering::Acquire);
        if tenant_owner(found) == Some(owner) {
            // By exchange: another thread may just have taken it over. Release: the next owner sees
            // what this one did.
            let _ = word.compare_exchange(found, 0, Ordering::AcqRel, Ordering::Relaxed);
            step!("log.ring-released");
        }
    }
    let word = &layout.header(space).collector;
    let _ = word.compare_exchange(owner.bits(), 0, Ordering::AcqRel, Ordering::Relaxed);
}

/// Reports damage in a log. Others may write meanwhile.
pub(crate) fn check(
    space: &Space,
    block: &Block,
    alive: &dyn Fn(Owner) -> bool,
    problem: &mut dyn FnMut(String),
) {
    let layout = match Layout::read(space, block) {
        Ok(layout) => layout,
        Err(error) => return problem(error.to_string()),
    };
    let name = &block.name;
    let collector = || Owner::from_bits(layout.header(space).collector.load(Ordering::Acquire));
    if collector().is_some_and(|owner| is_left_behind(owner, alive, collector)) {
        problem(format!("log '{name}': its collector's generation has ended"));
    }
    for number in 0..layout.rings {
        let ring = Ring::new(space, &layout, number);
        let writer = || tenant_owner(ring.header.tenant.load(Ordering::Acquire));
        if writer().is_some_and(|owner| is_left_behind(owner, alive, writer)) {
            problem(format!("log '{name}': ring {number}: its writer's generation has ended"));
        }
        if let Some(position) = damaged_at(&ring) {
            problem(format!("log '{name}': ring {number}: no line at position {position}"));
        }
    }
}

/// Whether a floor is behind the head, also after a moment: a head that moved just now may become
/// visible after its floor.
fn is_beyond_head(ring: &Ring<'_>, floor: u64) -> bool {
    std::thread::yield_now();
    fence(Ordering::SeqCst);
    floor > ring.extent().0
}

/// The position where a ring's lines end too early.
fn damaged_at(ring: &Ring<'_>) -> Option<u64> {
    let (head, floor) = ring.extent();
    let stored = ring.header.floor.load(Ordering::Relaxed);
    // A floor outside of its range is damage, unless it moved just now.
    if stored != floor && (!ring.is_overwritten(floor) || is_beyond_head(ring, stored)) {
        return Some(stored);
    }
    let mut position = floor;
    while position < head {
        match ring.head(position, head) {
            Some(line) if line.kind == Kind::Pad || line.time_ns != 0 => position += line.size,
            _ if ring.is_overwritten(position) => return None,
            _ => return Some(position),
        }
    }
    None
}
