//! Keeping writers out for a moment: the gate.
//!
//! Who freezes closes the gate (a robust lock), then waits until every segment's lock has been free once. A
//! writer that takes a segment's lock looks at the gate next and backs off if it is closed. Lock and gate are
//! SeqCst on both sides, so one of the two sees the other (Dekker). Readers go on.

use crate::error::Result;
use crate::map::directory;
use crate::map::root::{self, Status};
use crate::memory::arena::Arena;
use crate::memory::gate;
use crate::memory::lane::{self, LaneGuard};
use crate::memory::roots::roots;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::{self, Level, Peers};
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};

/// While this lives nobody changes any map in the hold, and nothing is made or dropped; readers go on, and so do
/// messages in queues, channels and logs. A writer waits, in whatever
/// process; this very thread would get `Busy`. If this process is killed, the gate opens.
#[must_use = "dropping it lets writers go on"]
pub struct Freeze<'a> {
    arena: &'a Arena,
    owner: Owner,
    /// The gate belongs to the process, but only who closed it opens it.
    thread: PhantomData<*const ()>,
}

/// Closes the gate and waits for the changes under way.
///
/// # Errors
/// Those of entering an operation; damage.
pub(crate) fn freeze(arena: &Arena) -> Result<Freeze<'_>> {
    freeze_in(&arena.enter()?)
}

/// The same, in a lane entered already: behind the closed gate there may be none left, as writers wait there with theirs.
pub(crate) fn freeze_in<'a>(lane: &LaneGuard<'a>) -> Result<Freeze<'a>> {
    let arena = lane.arena;
    // The names lock keeps structures from being made and dropped.
    gate::lock_names(lane)?;
    if let Err(error) = robust_lock::lock(&roots(&arena.space).gate, lane, Level::Segments) {
        robust_lock::unlock(&roots(&arena.space).names_lock);
        return Err(error);
    }
    lane::count_freeze(1);
    let freeze = Freeze { arena, owner: lane.me(), thread: PhantomData };
    step!("freeze.closed");
    // With the SeqCst gate store above: every lock taken later is followed by a look at the closed gate.
    fence(Ordering::SeqCst);
    for (_, root) in root::all(&arena.space) {
        if root.status() == Status::Live {
            for segment in directory::segments(&arena.space, root) {
                let word = &segment.header().lock;
                robust_lock::await_release(word, lane, Level::Segments, || false)?;
            }
        }
    }
    Ok(freeze)
}

impl Drop for Freeze<'_> {
    fn drop(&mut self) {
        lane::count_freeze(-1);
        // In a forked child, or after the handle was closed, the locks are somebody else's.
        let own = self
            .arena
            .participant()
            .is_some_and(|p| p.registration.owner == self.owner && !p.registration.inherited());
        let roots = roots(&self.arena.space);
        for word in [&roots.gate, &roots.names_lock] {
            if own && robust_lock::holder(word) == Some(self.owner) {
                robust_lock::unlock(word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Hold, MapOptions};

    #[test]
    fn a_lock_that_nobody_holds_is_damage_and_not_waited_for() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(folder.path().join("it.hold")).unwrap();
        let other = Hold::open(hold.path()).unwrap();
        let map = hold.map("it", MapOptions::general()).unwrap();
        map.set("key", "value").unwrap();
        let (space, bits) = (hold.space(), map.bound.hasher.hash(b"key").directory());
        let segment = directory::lookup(space, map.bound.root(space), bits).unwrap();
        let living = |hold: &Hold| hold.arena().participant().unwrap().registration.owner;
        // The waiters' own process, another one that lives, one whose generation never was, no slot at all.
        let own = living(&hold);
        let never = Owner::new(own.slot(), Owner::next_generation(living(&other).generation() + 7));
        for owner in [own, living(&other), never, Owner::new(900, 3)] {
            segment.header().lock.store(owner.bits(), Ordering::Relaxed);
            let damaged = |result: Result<()>| {
                assert_eq!(result.expect_err("nobody lets go").kind(), ErrorKind::Damaged);
            };
            // Two at a time: each lists the lock that it wants.
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| damaged(map.set("key", "other").map(drop)));
                }
            });
            damaged(hold.freeze().map(drop));
            assert_eq!(map.get("key").unwrap().as_deref(), Some(&b"value"[..]));
            segment.header().lock.store(0, Ordering::Relaxed);
            map.set("key", "value").unwrap();
        }
    }
}
