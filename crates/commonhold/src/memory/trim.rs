//! Giving free memory back to the system: what has been free for a while, block by block of 2 MiB.
//!
//! A block that is free throughout is punched whole, so that its huge page is given back and not split.
//! Segments stay for ever and lie between records, so that is not enough after many deletions: of a
//! block that is only partly free, the free extents are punched once they are a quarter of it.
//!
//! Whoever frees an extent, opens or closes the hold looks whether that is due: once 4 MiB have been freed, by whomever,
//! and at most four times a second.
//!
//! A reader that was stopped between checking an extent's state and touching the record may still read
//! a page after it was punched; on a memory hold that brings one page back (the documented residue). The
//! grace period makes it rare.

use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, BLOCK, Kind, committed, header};
use crate::os::clock;
use crate::sync::owner::Owner;
use crate::sync::space::Space;
use std::sync::atomic::Ordering;

/// How long an extent must have been free, in milliseconds.
const GRACE_MS: u64 = 250;
/// Of a block in use, at least so many extents must be free with memory behind them.
const WORTHWHILE: usize = 8;
/// So many extents are freed before it is due.
const DUE: u64 = 64;

/// Gives back what has been free for a while, if much has been freed.
#[inline]
pub(crate) fn trim_if_due(space: &Space, me: Owner, lane: u32) {
    if extents::growth(space).freed.load(Ordering::Relaxed) >= DUE {
        trim_once(space, me, lane);
    }
}

#[cold]
fn trim_once(space: &Space, me: Owner, lane: u32) {
    let growth = extents::growth(space);
    let (now, last) = (now_ms(), growth.trimmed_ms.load(Ordering::Relaxed));
    // A time from before a reboot may lie in the future. Of several who come at the same time one does it.
    let long_ago = last > now || now - last >= GRACE_MS;
    let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
    if long_ago && growth.trimmed_ms.compare_exchange(last, now, success, failure).is_ok() {
        growth.freed.store(0, Ordering::Relaxed);
        trim(space, me, lane);
        growth.freed.fetch_add(young(space, now), Ordering::Relaxed);
    }
}

fn now_ms() -> u64 {
    clock::monotonic_ns() / 1_000_000
}

/// Free extents that it is too early for.
fn young(space: &Space, now: u64) -> u64 {
    let is_young = |e: &u64| {
        header(space, *e).state().kind() == Kind::Free && !is_idle(space, *e, now, GRACE_MS)
    };
    (2 * BLOCK..committed(space)).filter(is_young).count() as u64
}

/// Punches what has been free for [`GRACE_MS`]. Returns the bytes given back.
pub(crate) fn trim(space: &Space, me: Owner, lane: u32) -> u64 {
    if extents::growth(space).keep_memory.load(Ordering::Relaxed) != 0 {
        return 0;
    }
    let (now, age_ms) = (now_ms(), GRACE_MS);
    let mut given = 0;
    // The first blocks stay: small holds grow and shrink inside them.
    let mut block = 2 * BLOCK;
    while block + BLOCK <= committed(space) {
        if is_worthwhile(space, block, now, age_ms) {
            let idle = |e: &u64| is_idle(space, *e, now, age_ms);
            let taken: Vec<u64> = (block..block + BLOCK)
                .filter(|e| idle(e) && extents::take(space, *e, me, lane))
                .collect();
            given += taken.chunk_by(|a, b| a + 1 == *b).map(|run| punch(space, run)).sum::<u64>();
        }
        block += BLOCK;
    }
    given
}

/// True if enough of the block is free with memory behind it.
fn is_worthwhile(space: &Space, block: u64, now: u64, age_ms: u64) -> bool {
    let (mut idle, mut with_memory) = (0, 0);
    for extent in (block..block + BLOCK).filter(|&e| is_idle(space, e, now, age_ms)) {
        idle += 1;
        with_memory += usize::from(header(space, extent).state().kind() == Kind::Free);
    }
    with_memory >= WORTHWHILE || (idle == BLOCK && with_memory > 0)
}

/// True if the extent has been free for `age_ms`.
fn is_idle(space: &Space, extent: u64, now: u64, age_ms: u64) -> bool {
    let header = header(space, extent);
    match header.state().kind() {
        Kind::Empty => true,
        Kind::Free => {
            // A stamp from before a reboot may lie in the future.
            let freed_at = header.freed_at.load(Ordering::Relaxed);
            freed_at <= now.saturating_sub(age_ms) || freed_at > now
        }
        _ => false,
    }
}

/// Punches neighbouring extents that the caller has claimed, and lets them go.
fn punch(space: &Space, run: &[u64]) -> u64 {
    // While CLAIMED, the class field says what an extent was before.
    let had_memory = |e: &&u64| header(space, **e).state().class() == Kind::Free as u8;
    let given = run.iter().filter(had_memory).count() as u64 * EXTENT;
    let punched = space.file().punch(run[0] * EXTENT, run.len() as u64 * EXTENT).is_ok();
    for &extent in run {
        if punched { extents::empty(space, extent) } else { extents::free(space, extent) }
    }
    if punched { given } else { 0 }
}
