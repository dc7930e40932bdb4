//! Recovering what a dead participant left in a queue. Its recoverer runs this and acts as it.
//!
//! First come all listed locks that the dead participant still holds: a move that was not committed
//! is rolled back, then the lock is released. Only one recoverer at a time does so: a lock that
//! names another participant was recovered and released before. When the dead participant holds no
//! lock any more, the holders' words are read. Elements that name the dead one go to the queue for
//! orphans, by pushes in its name, so that a recoverer may die, too.

use crate::error::{ErrorKind, Result};
use crate::memory::block::Block;
use crate::memory::writer::Acting;
use crate::queue::layout::{End, Layout, Side};
use crate::queue::moves::Ring;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::{self, Peers};
use crate::sync::space::Space;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of elements pushed at once, of those that the dead one had in flight.
const CHUNK: usize = 4096;

/// Recovers the end of a queue that is listed at `offset`, if the dead participant holds its lock.
pub(crate) fn recover_end(acting: &Acting<'_>, block: &Block, offset: u64) {
    let space = &acting.arena.space;
    // A damaged queue is not recovered.
    let Ok(layout) = Layout::read(space, block) else { return };
    let Some((queue, side)) = layout.end_at(offset) else { return };
    let end = layout.end(space, queue, side);
    if robust_lock::holder(&end.lock) != Some(acting.owner) {
        return;
    }
    let (from, to) = match side {
        // A pull: the elements are still in the ring, so not in flight.
        Side::Head => (acting.owner.bits(), 0),
        // A push: the elements are not in the ring yet, so in flight.
        Side::Tail => (0, acting.owner.bits()),
    };
    roll_back(space, &layout, queue, end, (from, to));
    step!("recover.rolled-back");
    robust_lock::unlock(&end.lock);
    // The dead one may have pushed without waking anybody.
    layout.event(space, queue).wake_all();
}

/// Restores the entries between index and intent to their state before the move.
pub(crate) fn roll_back(
    space: &Space,
    layout: &Layout,
    queue: u32,
    end: &End,
    (from, to): (u32, u32),
) {
    // Acquire pairs with the releases of the move.
    let index = end.index.load(Ordering::Acquire);
    let intent = end.intent.load(Ordering::Acquire);
    let armed = intent.checked_sub(index).filter(|count| *count <= layout.elements.into());
    let holders = layout.holders(space);
    for place in layout.places_at(space, queue, index, armed.unwrap_or(0)).into_iter().flatten() {
        if let Some(holder) = holders.get(place.load(Ordering::Relaxed) as usize) {
            // A holder with neither value is damage and is left alone.
            let _ = holder.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        }
        step!("recover.rolling-back");
    }
    // Release: disarmed when all of it is rolled back.
    end.intent.store(index, Ordering::Release);
}

/// Pushes the elements that the dead one had in flight to the orphan queue. It holds no lock
/// any more.
///
/// # Errors
/// Those of locks, except damage: elements that cannot be pushed stay in flight, for `check` to
/// find.
pub(crate) fn give_back(acting: &Acting<'_>, block: &Block) -> Result<()> {
    let space = &acting.arena.space;
    let Ok(layout) = Layout::read(space, block) else { return Ok(()) };
    let orphans = Ring { space, block, layout: &layout, queue: layout.orphans };
    for ids in in_flight_of(space, &layout, acting.me()).chunks(CHUNK) {
        match orphans.push(acting, ids, || ()) {
            Err(error) if error.kind() == ErrorKind::Damaged => return Ok(()),
            pushed => pushed?,
        }
        step!("recover.requeued");
    }
    Ok(())
}

/// The elements that `owner` has in flight.
pub(crate) fn in_flight_of(space: &Space, layout: &Layout, owner: Owner) -> Vec<u32> {
    let held = |holder: &AtomicU32| holder.load(Ordering::Acquire) == owner.bits();
    let holders = (0..).zip(layout.holders(space));
    holders.filter_map(|(id, holder)| held(holder).then_some(id)).collect()
}
