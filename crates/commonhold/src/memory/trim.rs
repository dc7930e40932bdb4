//! Giving free memory back to the system: whole 2 MiB blocks that have been free for a while.
//!
//! A reader that was stopped between checking an extent's state and touching the record may still read
//! a page after it was punched; on a memory hold that brings one page back (the documented residue). The
//! grace period makes it rare. Blocks are punched whole, so huge pages are given back and not split.

use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, BLOCK, Kind, committed, header};
use crate::os::clock;
use crate::sync::owner::Owner;
use crate::sync::space::Space;
use std::sync::atomic::Ordering;

/// How long an extent must have been free, in milliseconds.
pub(crate) const GRACE_MS: u64 = 250;

/// Punches every block that is free throughout, and has been for `age_ms`. Returns the bytes given back.
pub(crate) fn trim(space: &Space, me: Owner, lane: u32, age_ms: u64) -> u64 {
    if extents::growth(space).keep_memory.load(Ordering::Relaxed) != 0 {
        return 0;
    }
    let now = clock::monotonic_ns() / 1_000_000;
    let mut given = 0;
    // The first blocks stay: small holds grow and shrink inside them.
    let mut block = 2 * BLOCK;
    while block + BLOCK <= committed(space) {
        if idle(space, block, now, age_ms) {
            given += punch(space, block, me, lane);
        }
        block += BLOCK;
    }
    given
}

/// True if all extents of the block have been free for `age_ms`, and at least one holds memory.
fn idle(space: &Space, block: u64, now: u64, age_ms: u64) -> bool {
    let before = now.saturating_sub(age_ms);
    let mut holds_memory = false;
    let all = (block..block + BLOCK).all(|extent| {
        let header = header(space, extent);
        match header.state().kind() {
            Kind::Empty => true,
            Kind::Free => {
                holds_memory = true;
                // A stamp from before a reboot may lie in the future.
                let freed_at = header.freed_at.load(Ordering::Relaxed);
                freed_at <= before || freed_at > now
            }
            _ => false,
        }
    });
    all && holds_memory
}

fn punch(space: &Space, block: u64, me: Owner, lane: u32) -> u64 {
    let taken: Vec<u64> =
        (block..block + BLOCK).take_while(|&e| extents::take(space, e, me, lane)).collect();
    let whole = taken.len() as u64 == BLOCK;
    let punched = whole && space.file().punch(block * EXTENT, BLOCK * EXTENT).is_ok();
    for extent in taken {
        if punched { extents::empty(space, extent) } else { extents::free(space, extent) }
    }
    if punched { BLOCK * EXTENT } else { 0 }
}
