//! The clean mark: whether everything in the hold is on the disk.
//!
//! Invariants:
//!
//! - In [`CLEAN`] and [`OPENING`] the hold on the disk may be marked clean, and nothing has been
//!   written since. In every other state the hold on the disk is not marked clean, whatever
//!   happens.
//! - A sync with an unknown outcome leaves a doubt, because its process was killed in it. A sync of
//!   everything leaves its owner in the word; a sync of the first page alone remains counted. The
//!   system reports an error to the processes that have the file open, once, and then considers the
//!   pages written. So the next process that syncs everything writes every page again.
//! - [`FAILED`] is final: pages may be lost that nobody can write again.
//!
//! After a restart every state but [`CLEAN`] means unclean. In a hold in memory the states follow
//! the same order, and nothing is synced.

use crate::error::Error;
use crate::hold::superblock::superblock;
use crate::memory::arena::Arena;
use crate::memory::classes::EXTENT;
use crate::memory::extents;
use crate::os::file::SyncError;
use crate::steps::step;
use crate::sync::hold_clock;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::space::Space;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// In use, and not marked clean on the disk. While a sync runs, the word contains the bits of its
/// owner instead, which are greater than all these numbers.
const IN_USE: u32 = 0;
/// Closed by its last user; everything is on the disk.
pub(super) const CLEAN: u32 = 1;
/// A process is opening it; the disk may still contain the mark.
const OPENING: u32 = 2;
/// A sync has failed.
const FAILED: u32 = 3;
/// Added to the bits of an owner: somebody has opened the hold since the sync began.
const DISTURBED: u32 = 1 << 31;

const PAGE: u64 = 4096;
/// The lower half of the count of page syncs. The upper half names the boot.
const COUNT: u64 = u32::MAX as u64;

const _: () = assert!(FAILED < 1 << 10, "an owner's generation is in the bits from 10 on, never 0");

fn word(space: &Space) -> &AtomicU32 {
    &superblock(space).clean
}

/// The state of a new file, which nobody else sees yet. Nothing of it is on the disk.
pub(super) fn begin(space: &Space) {
    word(space).store(IN_USE, Ordering::Relaxed);
}

pub(super) fn is_clean(space: &Space) -> bool {
    // Acquire: pairs with the mark of the last close, after which nobody has written.
    word(space).load(Ordering::Acquire) == CLEAN
}

/// Removes the mark on the disk before a participant with a slot writes.
///
/// # Errors
/// Those of the disk. The next process that opens the hold tries again.
pub(super) fn remove_mark(space: &Space) -> Result<(), Error> {
    let word = word(space);
    // Pairs with the fence in `begin_sync`: a sync sees our slot, or we see the sync.
    fence(Ordering::SeqCst);
    loop {
        let found = word.load(Ordering::Acquire);
        let wanted = match found {
            // A store even if nothing changes: it dirties a page whose sync has failed.
            CLEAN | OPENING => OPENING,
            IN_USE | FAILED => return Ok(()),
            syncing => syncing | DISTURBED,
        };
        if word.compare_exchange(found, wanted, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            continue;
        }
        if wanted == OPENING {
            sync_opening(space)?;
        }
        return Ok(());
    }
}

fn sync_opening(space: &Space) -> Result<(), Error> {
    step!("open.marking");
    if !space.in_memory()
        && let Err(error) = sync_first_page(space)
    {
        let path = space.file().path().display();
        return Err(Error::os(format!("marking {path} as open"), error.cause()));
    }
    // If it fails, another process that opens the hold has done so.
    replace(space, OPENING, IN_USE);
    Ok(())
}

/// Called after the registration of `me` has ended: the last one leaves the hold clean.
///
/// Everything written is synced first, however long that takes, with nothing locked. A process that
/// opens the hold meanwhile does not wait, but disturbs the sync, which then sets no mark.
pub(super) fn closed(arena: &Arena, me: Owner) {
    let space = &arena.space;
    if !is_unused(space) {
        return;
    }
    step!("close.syncing");
    let Some(is_in_doubt) = begin_sync(space, me) else { return };
    if is_unused(space) {
        step!("close.begun");
        let page_syncs = page_syncs(space);
        match sync_all(space, me, is_in_doubt || page_syncs > 0) {
            Ok(true) => {
                change_page_syncs(space, |count| count.saturating_sub(page_syncs));
                mark(space, me);
            }
            Err(SyncError::Failed(_)) => fail(space),
            // The next sync writes every page again.
            _ => {}
        }
    } else if !is_in_doubt {
        put_back(space, me);
    }
}

/// True if every participant has ended, none was killed, and this handle can see them all.
fn is_unused(space: &Space) -> bool {
    participant::sees_all(space)
        && participant::slots(space).all(|(number, slot)| slot.user(number).is_none())
}

/// Begins a sync; true if the previous one has no known outcome. `None` if a sync is pointless: it
/// is done already, or in vain.
fn begin_sync(space: &Space, me: Owner) -> Option<bool> {
    let entered = word(space).fetch_update(Ordering::AcqRel, Ordering::Acquire, |found| {
        (!matches!(found, CLEAN | OPENING | FAILED)).then_some(me.bits())
    });
    // Pairs with the fence in `remove_mark`.
    fence(Ordering::SeqCst);
    entered.ok().map(|found| found != IN_USE)
}

/// Writes everything to the disk; false if it stopped early because a participant has come.
fn sync_all(space: &Space, me: Owner, is_in_doubt: bool) -> Result<bool, SyncError> {
    if space.in_memory() {
        return Ok(true);
    }
    if is_in_doubt && !write_again(space, me).map_err(SyncError::of_reading)? {
        return Ok(false);
    }
    space.mapping().sync(0, extents::committed(space) * EXTENT)?;
    space.file().sync_data()?;
    Ok(true)
}

/// Dirties every page that the file has, without changing anything. False if a participant has
/// come, because it may free pages to the system.
fn write_again(space: &Space, me: Owner) -> io::Result<bool> {
    let end = extents::committed(space) * EXTENT;
    let mut next = 0;
    while let Some(found) = space.file().next_data(next)?.filter(|found| *found < end) {
        if word(space).load(Ordering::Relaxed) != me.bits() {
            return Ok(false);
        }
        let start = found / EXTENT * EXTENT;
        next = start + EXTENT;
        // An error where a touch would be a signal.
        space.mapping().populate(start, EXTENT)?;
        (start..next).step_by(PAGE as usize).for_each(|page| write_word_again(space, page));
    }
    Ok(true)
}

/// Not `fetch_or(0)`, which compilers turn into a load.
fn write_word_again(space: &Space, at: u64) {
    let word = space.word(at);
    let mut found = word.load(Ordering::Relaxed);
    while let Err(now) = word.compare_exchange(found, found, Ordering::Relaxed, Ordering::Relaxed) {
        found = now;
    }
}

/// Everything was on the disk: marks the hold unless a participant has come.
fn mark(space: &Space, me: Owner) {
    step!("close.synced");
    // After a restart of the system, the clock of a closed file continues from here.
    hold_clock::note(space);
    if !replace(space, me.bits(), CLEAN) {
        return put_back(space, me);
    }
    step!("close.marked");
    if !space.in_memory() {
        // A participant that has come meanwhile has stored another state, and this writes that. A
        // failure only makes the hold count as unclean.
        let _ = sync_first_page(space);
    }
}

/// Syncs the page with the state. This call may receive the one report of an error of any other
/// page, which a process that has come meanwhile may have written. So no later sync must succeed,
/// and the call remains counted if this process is killed before it has stored that.
fn sync_first_page(space: &Space) -> Result<(), SyncError> {
    change_page_syncs(space, |count| count + 1);
    let synced = space.mapping().sync(0, PAGE);
    step!("mark.synced");
    if let Err(SyncError::Failed(_)) = synced {
        fail(space);
    }
    change_page_syncs(space, |count| count.saturating_sub(1));
    synced
}

/// The number of syncs of the first page alone whose outcome is unknown: their processes are in the
/// call, or were killed in it.
fn page_syncs(space: &Space) -> u64 {
    // Acquire pairs with the release of a change.
    counted(superblock(space).page_syncs.load(Ordering::Acquire), this_boot(space))
}

/// An earlier boot's syncs count for nothing: the disk has the last one's page.
fn counted(word: u64, boot: u64) -> u64 {
    if word & !COUNT == boot { word & COUNT } else { 0 }
}

/// The boot in which the hold is used, as the upper half of the count.
fn this_boot(space: &Space) -> u64 {
    superblock(space).boot[0].load(Ordering::Relaxed) << 32
}

fn change_page_syncs(space: &Space, change: impl Fn(u64) -> u64) {
    let boot = this_boot(space);
    let changed = |found| Some(boot | (change(counted(found, boot)) & COUNT));
    // AcqRel: FAILED is visible before the call that stored it no longer counts.
    let word = &superblock(space).page_syncs;
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
}

/// Ends a sync without doubt about its outcome, unless another one has begun.
fn put_back(space: &Space, me: Owner) {
    let _ = replace(space, me.bits(), IN_USE) || replace(space, me.bits() | DISTURBED, IN_USE);
}

/// Does not replace a mark: everything before the mark is on the disk, and the disk may contain the
/// mark.
fn fail(space: &Space) {
    let _ = word(space).fetch_update(Ordering::AcqRel, Ordering::Acquire, |found| {
        (!matches!(found, CLEAN | OPENING)).then_some(FAILED)
    });
}

/// Release: everything synced or stored before precedes the state. Acquire: the state precedes
/// everything after.
fn replace(space: &Space, from: u32, to: u32) -> bool {
    word(space).compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
}
