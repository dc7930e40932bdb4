//! Stepping aside: a call that has to wait long for a lock waits while it holds nothing, not even a
//! lane.
//!
//! An operation begun by [`Arena::operate`] sleeps only for a moment for a lock that somebody
//! holds. Then it ends with an error that names the lock. On its way out it rolls back what it has
//! begun, as after any error, and releases every lock, draft and extent. The call leaves its lane
//! and waits until the lock has been released or has changed hands. Then it enters any free lane
//! and begins again. However many calls wait, they occupy neither lanes nor locks that others need.
//! A waiting call can recover the dead as a whole, because it holds nothing that the recovery could
//! need.
//!
//! It is always safe to read the words of the block that an operation has left. A lock in that
//! block is only read: while no thread is in an operation on it, the structure may be dropped and
//! its memory used for something else. Whether a lock is in a block is therefore decided before the
//! call leaves its lane.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::arena::Arena;
use crate::memory::lane::{self, IDLE, LaneGuard, end_operation};
use crate::memory::own_participant::Participant;
use crate::os::futex;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::patience::Patience;
use crate::sync::robust_lock::{self, Level, Peers};
use std::mem::{self, ManuallyDrop};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Pause between two looks at a lock in a block. Its holder may not know that somebody sleeps.
const LOOK: Duration = Duration::from_millis(2);

/// After this time a waiter for any other lock begins again all the same: it may not need that lock
/// any more, because its map was dropped. This is longer than it takes to detect that a lock is
/// damaged.
const AGAIN: Duration = Duration::from_millis(1500);

impl Arena {
    /// Runs an operation. Starts it again from the beginning each time it ended because of a lock.
    ///
    /// # Errors
    /// Those of [`enter`](Self::enter) and of the operation; `TimedOut` when the patience of the
    /// call ends.
    #[inline(always)]
    pub(crate) fn operate<R>(
        &self,
        mut operation: impl FnMut(&LaneGuard<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut lane = self.enter()?.stepping_aside();
        loop {
            match operation(&lane) {
                Err(error) if error.lock_in_the_way().is_some() => {
                    lane = lane.step_aside(&error)?
                }
                result => return result,
            }
        }
    }

    /// Waits for the lock that `error` names, outside of any operation. For a caller whose
    /// operation on a block ended because of that lock, which lies in the block.
    ///
    /// # Errors
    /// `TimedOut`; `Closed`, `ReadOnly`, `Reentrant`; those of recovering the dead.
    #[cold]
    pub(crate) fn stand_aside(&self, error: &Error, patience: Patience) -> Result<()> {
        self.enter()?.leave(patience, true).wait(error)
    }
}

impl<'a> LaneGuard<'a> {
    /// Leaves the lane, waits for the lock that `error` names, and enters a lane again. The
    /// operation has released everything.
    ///
    /// # Errors
    /// `TimedOut` when the patience of the call ends; `Closed`; those of recovering the dead.
    #[cold]
    pub(crate) fn step_aside(self, error: &Error) -> Result<LaneGuard<'a>> {
        let at = self.own.busy.load(Ordering::Relaxed);
        let patience = self.patience();
        // In the lane: outside of it the block may be freed, and become something else.
        let place = error.lock_in_the_way();
        let in_block = place.is_some_and(|place| lane::is_in_block(self.space(), place));
        let outside = self.leave(patience, in_block);
        outside.wait(error)?;
        let (arena, participant) = (outside.arena, outside.participant);
        // The call is still inside its operation.
        mem::forget(outside);
        Ok(lane::enter_any(arena, participant, at, Some(patience))?.stepping_aside())
    }

    /// Leaves the lane, but not the operation.
    fn leave(self, patience: Patience, in_block: bool) -> Outside<'a> {
        let left = ManuallyDrop::new(self);
        // Like every exit from a lane: release, for the thread that enters it next.
        left.own.busy.store(IDLE, Ordering::Release);
        Outside { arena: left.arena, participant: left.participant, patience, in_block }
    }
}

/// A call that has left its lane and is still inside its operation. Dropping it ends that.
struct Outside<'a> {
    arena: &'a Arena,
    participant: &'a Participant,
    patience: Patience,
    /// The lock to wait for lies in a block.
    in_block: bool,
}

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        end_operation();
    }
}

impl Outside<'_> {
    fn wait(&self, error: &Error) -> Result<()> {
        let space = &self.arena.space;
        let Some(place) = error.lock_in_the_way() else { return Ok(()) };
        let word = space.half(place);
        if self.in_block {
            return self.look(word, error);
        }
        let again = Patience::new(Some(AGAIN));
        let moved = || self.arena.is_closed() || again.shorten(AGAIN).is_none();
        robust_lock::await_release(word, self, Level::Whole, moved)
    }

    /// Sleeps once. The repeated operation checks everything else.
    fn look(&self, word: &AtomicU32, error: &Error) -> Result<()> {
        let seen = word.load(Ordering::Relaxed);
        if seen != 0 {
            let out = || Error::new(ErrorKind::TimedOut, error.to_string());
            futex::wait(word, seen, self.patience.shorten(LOOK).ok_or_else(out)?);
        }
        Ok(())
    }
}

impl Peers for Outside<'_> {
    fn me(&self) -> Owner {
        self.participant.registration.owner
    }
    fn ask_dead(&self, owner: Owner) -> Result<bool> {
        participant::ask_dead(&self.arena.space, owner)
    }
    fn has_ended(&self, owner: Owner) -> Option<bool> {
        participant::has_ended(&self.arena.space, owner)
    }
    fn recover(&self, owner: Owner, level: Level) -> Result<()> {
        self.arena.recover(owner, level, self.patience.but_a_moment())
    }
    fn may_hold(&self, owner: Owner, word: &AtomicU32) -> bool {
        lane::may_hold(self.arena, self.participant, owner, word)
    }
    fn patience(&self) -> Patience {
        self.patience
    }
    fn describe(&self, word: &AtomicU32) -> (&'static str, u64) {
        lane::describe(&self.arena.space, word)
    }
    fn pid(&self, owner: Owner) -> u32 {
        participant::pid(&self.arena.space, owner.slot())
    }
    // It lists nothing, so nobody takes it for the holder.
    fn waits_for(&self, _: Option<&AtomicU32>) {}
}
