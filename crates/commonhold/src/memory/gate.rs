//! The two locks over a hold as a whole: the names lock, and the gate that keeps writers out.
//!
//! A writer that has taken a lock looks at the gate next and backs off if it is closed (hold/freeze.rs).

use crate::error::{Error, ErrorKind, Result};
use crate::memory::lane::{self, LaneGuard};
use crate::memory::roots::{self, roots};
use crate::sync::robust_lock::{self, Level, Peers};
use std::sync::atomic::{AtomicU32, Ordering};

#[inline]
pub(crate) fn is_frozen(lane: &LaneGuard<'_>) -> bool {
    // SeqCst: see robust_lock::lock.
    roots(lane.space()).gate.load(Ordering::SeqCst) != 0
}

/// Waits until the gate is open, without taking it: a writer that is stopped here keeps nobody out.
#[cold]
pub(crate) fn wait_while_frozen(lane: &LaneGuard<'_>) -> Result<()> {
    let gate = &roots(lane.space()).gate;
    refuse_own_freeze(lane, gate)?;
    robust_lock::await_release(gate, lane, Level::Whole, || false)
}

/// Takes the lock over making and dropping structures.
///
/// # Errors
/// `Busy` if this very thread froze the hold.
pub(crate) fn lock_names(lane: &LaneGuard<'_>) -> Result<()> {
    let names = &roots(lane.space()).names_lock;
    refuse_own_freeze(lane, names)?;
    robust_lock::lock(names, lane, Level::Whole)?;
    roots::settle_claims(lane.space());
    Ok(())
}

#[inline]
pub(crate) fn refuse_own_freeze(lane: &LaneGuard<'_>, word: &AtomicU32) -> Result<()> {
    if lane::is_freezing() && robust_lock::holder(word) == Some(lane.me()) {
        let text = "this thread has frozen the hold; drop the Freeze before writing";
        return Err(Error::new(ErrorKind::Busy, text));
    }
    Ok(())
}
