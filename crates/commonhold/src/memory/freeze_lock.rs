//! The two locks over a hold as a whole: the names lock, and the freeze lock that keeps writers
//! out.
//!
//! A writer that has taken a lock looks at the freeze lock next and backs off if it is taken
//! (hold/freeze.rs).

use crate::error::{Error, ErrorKind, Result};
use crate::memory::lane::{self, LaneGuard};
use crate::memory::roots::{self, roots};
use crate::sync::owner::Owner;
use crate::sync::robust_lock::{self, Held, Level, Peers};
use crate::sync::space::Space;
use std::sync::atomic::{AtomicU32, Ordering};

#[inline]
pub(crate) fn is_frozen(space: &Space) -> bool {
    // SeqCst: see robust_lock::lock.
    roots(space).freeze_lock.load(Ordering::SeqCst) != 0
}

/// Waits until the freeze lock is free, without taking it: a writer that is stopped here keeps
/// nobody out.
#[cold]
pub(crate) fn wait_while_frozen(lane: &LaneGuard<'_>) -> Result<()> {
    let freeze_lock = &roots(lane.space()).freeze_lock;
    refuse_own_freeze(lane, freeze_lock)?;
    robust_lock::await_release(freeze_lock, lane, Level::Whole, || false)
}

/// Takes the lock over creating and dropping structures. It is held for stores only, except by a
/// participant that freezes the hold. Nothing that may wait or fail happens while it is held.
///
/// # Errors
/// `Busy` if the calling thread froze the hold; `TimedOut`.
pub(crate) fn lock_names<'a>(lane: &LaneGuard<'a>) -> Result<Held<'a>> {
    let word = &roots(lane.space()).names_lock;
    refuse_own_freeze(lane, word)?;
    let names = robust_lock::hold(word, lane, Level::Whole)?;
    roots::recover_claims(lane.space());
    Ok(names)
}

/// Gives a dead participant's maps, in its name, the names that they were taking over, if that does
/// not require waiting. Otherwise the next participant that takes the lock does it.
pub(crate) fn recover_claims_of(space: &Space, owner: Owner) {
    let word = &roots(space).names_lock;
    if let Some(_names) = robust_lock::try_hold(word, owner) {
        roots::recover_claims(space);
    }
}

#[inline]
pub(crate) fn refuse_own_freeze(lane: &LaneGuard<'_>, word: &AtomicU32) -> Result<()> {
    if lane::is_freezing() && robust_lock::holder(word) == Some(lane.me()) {
        let text = "this thread has frozen the hold; drop the Freeze before writing";
        return Err(Error::new(ErrorKind::Busy, text));
    }
    Ok(())
}
