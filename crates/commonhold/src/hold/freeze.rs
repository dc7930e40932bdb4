//! Keeping writers out for a moment: the freeze lock.
//!
//! A process that freezes takes the freeze lock (a robust lock), then waits until every segment's
//! lock has been free once. A writer that takes a segment's lock looks at the freeze lock next and
//! backs off if it is taken. The segment's lock and the freeze lock are SeqCst on both sides, so
//! one of the two sees the other (Dekker). Readers continue.
//!
//! The freeze lock is taken only when nothing under it can make a process wait. Each segment's lock
//! has been free once *before*, and the call waits for that with the caller's patience and with
//! nothing locked. Under the freeze lock, the changes under way have [`MOMENT`] to end, all
//! together. If one of them does not end (its writer was stopped just now), the freeze lock is
//! released, and the call waits for that writer without it.

use crate::error::Result;
use crate::map::engine::directory::{self, is_segment};
use crate::map::layout::root::{self, Root, Status};
use crate::map::layout::segment::Segment;
use crate::memory::arena::Arena;
use crate::memory::freeze_lock;
use crate::memory::lane::{self, LaneGuard};
use crate::memory::own_participant::Participant;
use crate::memory::roots::roots;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::{self, Level, Peers};
use crate::sync::space::Space;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

/// How long the freezing process waits for changes under way under the freeze lock. Other writers
/// wait at most that much longer.
const MOMENT: Duration = Duration::from_millis(20);

/// While this value lives, no process changes any map in the hold, and no structure is created or
/// dropped. Readers continue, and so do messages in queues, channels and logs. A writer waits, in
/// any process; a write from the thread that froze the hold fails with `Busy`. If this process is
/// killed, the freeze lock is released.
#[must_use = "writers continue when it is dropped"]
pub struct Freeze<'a> {
    arena: &'a Arena,
    owner: Owner,
    /// The freeze lock belongs to the process, but only the thread that took it releases it.
    thread: PhantomData<*const ()>,
}

/// Takes the freeze lock and waits for the changes under way.
///
/// # Errors
/// Those of entering an operation; damage.
pub(crate) fn freeze(arena: &Arena) -> Result<Freeze<'_>> {
    arena.operate(|lane| freeze_in(arena, lane))
}

/// Like [`freeze`], in an operation that steps aside: while it waits for long, it is in no lane.
pub(crate) fn freeze_in<'a>(arena: &'a Arena, lane: &LaneGuard<'_>) -> Result<Freeze<'a>> {
    freeze_lock::refuse_own_freeze(lane, &roots(lane.space()).names_lock)?;
    loop {
        live_segments(lane.space(), |root, segment| let_past(lane, root, segment))?;
        let freeze = close(arena, lane)?;
        step!("freeze.closed");
        let Some((word, stays)) = await_changes(lane.space()) else { return Ok(freeze) };
        drop(freeze);
        robust_lock::ensure_patience(word, lane, Level::Whole, stays)?;
    }
}

/// Every segment of every live map, as far as a look without a lock shows them: a segment that is
/// made meanwhile may be missing.
fn live_segments<'a>(
    space: &'a Space,
    mut visit: impl FnMut(&'a Root, Segment<'a>) -> Result<()>,
) -> Result<()> {
    for (_, root) in root::all(space).filter(|(_, root)| root.status() == Status::Live) {
        let segments = directory::segments(space, root);
        // A map that is dropped meanwhile may have any entries.
        for segment in segments.filter(|segment| is_segment(space, segment.offset)) {
            visit(root, segment)?;
        }
    }
    Ok(())
}

/// Waits until the segment's lock has been free, or its holder has continued. Nothing is locked
/// meanwhile.
fn let_past(lane: &LaneGuard<'_>, root: &Root, segment: Segment<'_>) -> Result<()> {
    let header = segment.header();
    // Relaxed: one process's threads may pass the lock on among themselves; the counter shows that
    // they do.
    let before = header.state_word.load(Ordering::Relaxed);
    let moved =
        || header.state_word.load(Ordering::Relaxed) != before || root.status() != Status::Live;
    robust_lock::await_release(&header.lock, lane, Level::Whole, moved)
}

/// Takes the names lock, which keeps structures from being made and dropped, and the freeze lock.
fn close<'a>(arena: &'a Arena, lane: &LaneGuard<'_>) -> Result<Freeze<'a>> {
    let names = freeze_lock::lock_names(lane)?;
    // Only the holder of the names lock takes the freeze lock: it is free, or damaged.
    robust_lock::lock(&roots(lane.space()).freeze_lock, lane, Level::Segments)?;
    names.keep();
    lane::count_freeze(1);
    Ok(Freeze { arena, owner: lane.me(), thread: PhantomData })
}

/// Under the freeze lock: waits a moment for the changes under way. Returns the holder of a lock
/// that is not released.
fn await_changes(space: &Space) -> Option<(&AtomicU32, Owner)> {
    // With the SeqCst store of the freeze lock: every lock taken later is followed by a look at it.
    fence(Ordering::SeqCst);
    let (mut left, mut stays) = (MOMENT, None);
    let _ = live_segments(space, |_, segment| {
        if stays.is_none() {
            let word = &segment.header().lock;
            stays = await_change(word, &mut left).map(|owner| (word, owner));
        }
        Ok(())
    });
    stays
}

/// Waits for the holder of a lock, as long as there is time `left`. Returns the holder if it stays.
fn await_change(word: &AtomicU32, left: &mut Duration) -> Option<Owner> {
    let first = robust_lock::holder(word)?;
    let (begun, mut spins) = (Instant::now(), 0);
    while robust_lock::holder(word) == Some(first) {
        if begun.elapsed() >= *left {
            return Some(first);
        }
        spins += 1;
        match spins < 1000 {
            true => std::hint::spin_loop(),
            false => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    *left = left.saturating_sub(begun.elapsed());
    None
}

impl Freeze<'_> {
    /// Whether the hold has been frozen until now: another thread may close the handle, which ends
    /// the freeze. For a call that relies on it for all that it has read.
    ///
    /// # Errors
    /// `Closed`.
    pub(crate) fn ensure_held(&self) -> Result<()> {
        // Closing stores that it has begun before it releases anything.
        fence(Ordering::Acquire);
        self.arena.ensure_open()
    }
}

impl Drop for Freeze<'_> {
    fn drop(&mut self) {
        lane::count_freeze(-1);
        // In a forked child, the locks belong to the parent.
        let own =
            |p: &&Participant| p.registration.owner == self.owner && !p.registration.inherited();
        let Some(participant) = self.arena.participant().filter(own) else { return };
        // A handle that is being closed releases them, and may take the names lock again.
        let Some(_stay) = participant.stay() else { return };
        let roots = roots(&self.arena.space);
        for word in [&roots.freeze_lock, &roots.names_lock] {
            robust_lock::unlock_of(word, self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::MapOptions;
    use crate::{ErrorKind, Hold};

    #[test]
    fn a_freeze_ends_when_its_handle_is_closed() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(folder.path().join("it.hold")).unwrap();
        let other = Hold::open(hold.path()).unwrap();
        let frozen = hold.freeze().unwrap();
        frozen.ensure_held().unwrap();
        hold.clone().close().unwrap();
        assert_eq!(frozen.ensure_held().unwrap_err().kind(), ErrorKind::Closed);
        // The lock of another participant stays.
        let later = other.freeze().unwrap();
        drop(frozen);
        let holder = robust_lock::holder(&roots(other.space()).freeze_lock);
        assert_eq!(holder, Some(other.arena().participant().unwrap().registration.owner));
        drop(later);
    }

    /// The thread that closes the handle releases the locks of the freeze, and may take the names
    /// lock again.
    #[test]
    fn a_freeze_releases_nothing_of_a_handle_that_is_being_closed() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(folder.path().join("it.hold")).unwrap();
        let frozen = hold.freeze().unwrap();
        let participant = hold.arena().participant().unwrap();
        participant.leave();
        drop(frozen);
        let names = &roots(hold.space()).names_lock;
        assert_eq!(robust_lock::holder(names), Some(participant.registration.owner));
        hold.close().unwrap();
        let later = Hold::open(folder.path().join("it.hold")).unwrap();
        drop(later.freeze().unwrap());
    }

    #[test]
    fn a_lock_that_nobody_holds_is_damage_and_not_waited_for() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(folder.path().join("it.hold")).unwrap();
        let other = Hold::open(hold.path()).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        map.set("key", "value").unwrap();
        let (space, bits) = (hold.space(), map.bound.hasher.hash(b"key").directory());
        let segment = directory::lookup(space, &map.bound, bits).unwrap();
        let living = |hold: &Hold| hold.arena().participant().unwrap().registration.owner;
        // The waiters' own process, another one that lives, one whose generation never was, no slot
        // at all.
        let own = living(&hold);
        let never = Owner::new(own.slot(), Owner::next_generation(living(&other).generation() + 7));
        for owner in [own, living(&other), never, Owner::new(900, 3)] {
            segment.header().lock.store(owner.bits(), Ordering::Relaxed);
            let damaged = |result: Result<()>| {
                assert_eq!(result.expect_err("nobody lets go").kind(), ErrorKind::Damaged);
            };
            // Two at a time: each lists the lock that it waits for.
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
