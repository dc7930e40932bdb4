//! Removing expired pairs, a few at a time, so that followers of a stream see it and the memory is
//! freed.
//!
//! A cursor moves over the map, as in iteration, so growth does not make it miss a pair forever. A
//! segment is first read without its lock, which gives a hint. It is locked only if something in it
//! seems to have expired. A removal is an ordinary commit under the locks, so a kill has the same
//! effect as in any change.
//!
//! Invariant: the caller's lane does not wait for living participants ([`LaneGuard::impatient`]),
//! and has nothing locked between two segments.

use crate::error::{ErrorKind, Result};
use crate::map::engine::bound::Bound;
use crate::map::engine::cache;
use crate::map::engine::directory;
use crate::map::engine::iterate::Cursor;
use crate::map::engine::locked;
use crate::map::engine::write;
use crate::map::layout::segment::Segment;
use crate::memory::freeze_lock;
use crate::memory::lane::LaneGuard;
use crate::stream::frame::ChangeKind;
use crate::sync::hold_clock;
use std::sync::atomic::Ordering;

/// The result for a segment.
enum Passed {
    /// Finished, or locked by another participant: continue with the next one.
    Over,
    /// No result now: the segment has to be visited again.
    Stopped,
}

/// Visits `places` places from the cursor on, rounded up to a segment, and moves the cursor past
/// them. Returns the number of pairs removed.
///
/// # Errors
/// `NotFound` if the map was dropped; `Busy` if the calling thread froze the hold; damage.
pub(crate) fn expire(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    cursor: &mut Cursor,
    places: u64,
) -> Result<u64> {
    let (mut left, mut removed) = (places, 0);
    if !bound.is_cache() {
        *cursor = Cursor::END;
    }
    while left > 0 && !cursor.is_end() {
        let segment = directory::lookup_checked(lane.space(), bound, cursor.directory())?;
        // For a segment that is being split this may be the depth before the split: its child is
        // then skipped this time.
        let behind = cursor.behind(segment.phase().depth);
        let now = hold_clock::now(lane.space());
        let some = (0..bound.positions()).any(|at| is_expired(bound, segment, at, now));
        if some && let Passed::Stopped = pass(lane, bound, *cursor, &mut removed)? {
            break;
        }
        *cursor = behind;
        left = left.saturating_sub(u64::from(bound.positions()));
    }
    lane.tidy();
    bound.ensure_current(lane.space())?;
    Ok(removed)
}

fn is_expired(bound: &Bound, segment: Segment<'_>, position: u32, now: u64) -> bool {
    // Acquire pairs with the release of the commit: the record is visible.
    let word = segment.slot(position).load(Ordering::Acquire);
    let record = (word != 0).then(|| bound.shape.open(segment.space, word)).flatten();
    record.is_some_and(|record| (1..=now).contains(&record.expiry()))
}

/// Locks the segment at the cursor, if it is free, and removes its expired pairs.
fn pass(lane: &LaneGuard<'_>, bound: &Bound, cursor: Cursor, removed: &mut u64) -> Result<Passed> {
    let segment = match locked::lock(lane, bound, cursor.directory()) {
        Ok(segment) => segment,
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            let frozen = freeze_lock::is_frozen(lane.space());
            return Ok(if frozen { Passed::Stopped } else { Passed::Over });
        }
        Err(error) => return Err(error),
    };
    let result = remove_all(lane, bound, *segment, removed);
    drop(segment);
    match result {
        // Another participant has locked the stream.
        Err(error) if error.kind() == ErrorKind::TimedOut => Ok(Passed::Stopped),
        result => result.map(|()| Passed::Over),
    }
}

fn remove_all(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    segment: Segment<'_>,
    removed: &mut u64,
) -> Result<()> {
    let now = hold_clock::tick(segment.space);
    for position in 0..bound.positions() {
        if is_expired(bound, segment, position, now) {
            write::remove_at(lane, bound, segment, position, Some(ChangeKind::Expire))?;
            cache::count_expired(bound, segment.space, true);
            *removed += 1;
        }
    }
    Ok(())
}
