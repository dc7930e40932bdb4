//! Freeing unused memory to the system: memory that has been free for a while, in blocks of 2 MiB.
//!
//! A block that is entirely free is punched as a whole, so that its huge page is freed and not
//! split. Segments never move and lie between records, so that is not enough after many deletions:
//! in a partly free block, the free extents are punched once they are a quarter of it.
//!
//! Once 4 MiB have been freed, by any participants, a *round* begins, at most four times a second:
//! a cursor in the hold passes over all blocks. A participant that frees an extent moves the cursor
//! by a few blocks at the end of the operation, while it holds no lock ([`trim_some`]). So each
//! freed extent pays for a bounded part of a round, and no operation for a whole round. Opening and
//! closing the hold finish at once what is due.
//!
//! A reader that was stopped between checking an extent's state and touching the record may still
//! touch a page after it was punched. On a memory hold that brings one page back, the *residue*. A
//! round asks the system which EMPTY extents have memory nevertheless, and punches them again.

use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, BLOCK, Kind, committed, header};
use crate::os::clock;
use crate::sync::owner::Owner;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// How long an extent must have been free, in milliseconds.
const GRACE_MS: u64 = 250;
/// In a block in use, at least this many extents must be free and have memory.
const WORTHWHILE: usize = 8;
/// A round is due after this many extents have been freed.
const DUE: u64 = 64;
/// Blocks that one operation looks at.
const STEP: u64 = 4;
/// The first blocks are never punched: small holds grow and shrink inside them.
const FIRST: u64 = 2;

/// The participant that frees memory to the system.
#[derive(Clone, Copy)]
struct Trimmer<'a> {
    space: &'a Space,
    me: Owner,
    lane: u32,
    /// Monotonic milliseconds at the beginning.
    now: u64,
}

/// Begins a round if one is due, or continues the current round, by a few blocks. No lock is held.
pub(crate) fn trim_some(space: &Space, me: Owner, lane: u32) {
    let cursor = &extents::growth(space).trim_cursor;
    let from = cursor.load(Ordering::Relaxed);
    if from == 0 {
        begin_round(space);
        return;
    }
    let blocks = blocks(space);
    // A damaged cursor may be any number.
    let end = from.saturating_add(STEP);
    let next = if end < blocks { end } else { 0 };
    // Of several participants that come at the same time, one does it.
    if cursor.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        let trimmer = Trimmer { space, me, lane, now: now_ms() };
        // Residue is rare, so each part checks one block for it, a different one each time.
        trimmer.go_over(from.max(FIRST)..blocks.min(end), |block| {
            block % STEP == trimmer.now / GRACE_MS % STEP
        });
    }
}

/// Frees to the system all memory that has been unused for a while, if much has been freed. No lock
/// is held.
pub(crate) fn trim_if_due(space: &Space, me: Owner, lane: u32) {
    if extents::growth(space).trim_cursor.load(Ordering::Relaxed) != 0 || begin_round(space) {
        extents::growth(space).trim_cursor.store(0, Ordering::Relaxed);
        trim(space, me, lane);
    }
}

/// True if a round was due and has begun.
fn begin_round(space: &Space) -> bool {
    let growth = extents::growth(space);
    if growth.freed.load(Ordering::Relaxed) < DUE || keeps_memory(space) {
        return false;
    }
    let (now, last) = (now_ms(), growth.trimmed_ms.load(Ordering::Relaxed));
    // A time from before a reboot may lie in the future. Of several participants that come at the
    // same time, one begins.
    let long_ago = last > now || now - last >= GRACE_MS;
    let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
    let begins =
        long_ago && growth.trimmed_ms.compare_exchange(last, now, success, failure).is_ok();
    if begins {
        growth.freed.store(0, Ordering::Relaxed);
        growth.trim_cursor.store(FIRST, Ordering::Relaxed);
    }
    begins
}

/// Frees all memory that has been unused for [`GRACE_MS`] to the system. Returns the number of
/// bytes. No lock is held.
pub(crate) fn trim(space: &Space, me: Owner, lane: u32) -> u64 {
    if keeps_memory(space) {
        return 0;
    }
    let trimmer = Trimmer { space, me, lane, now: now_ms() };
    trimmer.go_over(FIRST..blocks(space), |_| true)
}

/// Whole blocks that exist.
fn blocks(space: &Space) -> u64 {
    committed(space) / BLOCK
}

/// A cache would immediately need the memory again.
fn keeps_memory(space: &Space) -> bool {
    extents::growth(space).keep_memory.load(Ordering::Relaxed) != 0
}

fn now_ms() -> u64 {
    clock::monotonic_ns() / 1_000_000
}

/// The states of the extents of a block.
#[derive(Default)]
struct Census {
    /// Free for a while, with memory.
    free: usize,
    /// Free for a while, without memory as far as is known.
    empty: usize,
    /// Free, but not for long enough.
    young: u64,
}

impl Trimmer<'_> {
    /// Punches the extents of these blocks that are due. In blocks that `residue` selects, also
    /// asks the system for memory of EMPTY extents.
    fn go_over(&self, blocks: Range<u64>, residue: impl Fn(u64) -> bool) -> u64 {
        let mut given = 0;
        for block in blocks {
            let extents = block * BLOCK..(block + 1) * BLOCK;
            let census = self.count(extents.clone());
            // The next round looks for them again.
            if census.young > 0 {
                extents::growth(self.space).freed.fetch_add(census.young, Ordering::Relaxed);
            }
            let whole = census.free + census.empty == BLOCK as usize;
            if census.free >= WORTHWHILE || (whole && census.free > 0) {
                given += self.punch_all(extents.clone(), |e| self.is_idle(e));
            }
            if census.empty > 0 && residue(block) {
                given += self.punch_residue(extents);
            }
        }
        given
    }

    fn count(&self, extents: Range<u64>) -> Census {
        let mut census = Census::default();
        for extent in extents {
            match header(self.space, extent).state().kind() {
                Kind::Empty => census.empty += 1,
                Kind::Free if self.is_idle(extent) => census.free += 1,
                Kind::Free => census.young += 1,
                _ => {}
            }
        }
        census
    }

    /// True if the extent has been free for the grace period.
    fn is_idle(&self, extent: u64) -> bool {
        let header = header(self.space, extent);
        match header.state().kind() {
            Kind::Empty => true,
            Kind::Free => {
                // A stamp from before a reboot may lie in the future.
                let freed_at = header.freed_at.load(Ordering::Relaxed);
                freed_at <= self.now.saturating_sub(GRACE_MS) || freed_at > self.now
            }
            _ => false,
        }
    }

    /// Punches EMPTY extents that have memory again: a stopped reader has touched them.
    fn punch_residue(&self, extents: Range<u64>) -> u64 {
        let (mut at, end) = (extents.start * EXTENT, extents.end * EXTENT);
        let mut given = 0;
        while at < end
            && let Ok(Some(data)) = self.space.file().next_data(at)
            && data < end
        {
            let extent = data / EXTENT;
            if header(self.space, extent).state().is(Kind::Empty) {
                self.punch_all(extent..extent + 1, |_| true);
                given += EXTENT;
            }
            at = (extent + 1) * EXTENT;
        }
        given
    }

    /// Claims the `wanted` extents that are available, and punches adjacent ones together.
    fn punch_all(&self, extents: Range<u64>, wanted: impl Fn(u64) -> bool) -> u64 {
        let mut given = 0;
        let run = Cell::new((0, 0));
        let range = || run.get().0..run.get().1;
        let kept = UnwindGuard::new(|| {
            range().for_each(|extent| extents::release_unused(self.space, extent))
        });
        for extent in extents {
            if wanted(extent) && extents::take(self.space, extent, self.me, self.lane) {
                let first = if range().is_empty() { extent } else { range().start };
                run.set((first, extent + 1));
            } else {
                let found = range();
                run.set((0, 0));
                given += self.punch(found);
            }
        }
        kept.done();
        given + self.punch(range())
    }

    /// Punches adjacent extents that the caller has claimed, and releases them.
    fn punch(&self, run: Range<u64>) -> u64 {
        if run.is_empty() {
            return 0;
        }
        // While the kind is CLAIMED, the class field contains the extent's previous kind.
        let had_memory = |e: &u64| header(self.space, *e).state().class() == Kind::Free as u8;
        let given = run.clone().filter(had_memory).count() as u64 * EXTENT;
        let bytes = (run.end - run.start) * EXTENT;
        let punched = self.space.file().punch(run.start * EXTENT, bytes).is_ok();
        for extent in run.clone() {
            match punched {
                true => extents::empty(self.space, extent),
                false => extents::release_unused(self.space, extent),
            }
        }
        extents::look_from(self.space, run.start);
        if punched { given } else { 0 }
    }
}
