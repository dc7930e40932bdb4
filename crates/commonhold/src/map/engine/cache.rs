//! Cache mode: expiry of pairs, limits, and eviction by a clock hand that passes over segments.
//!
//! Every pair has a visited bit in its segment. A reader sets the bit if it is clear. The hand
//! passes over the segments: it spares a visited pair once, and evicts another. This is CLOCK
//! (Corbató, 1968) with new pairs unvisited, as in SIEVE (Zhang et al., NSDI 2024). Space is freed
//! before any lock is taken, and the hand only uses try-locks. It stops as soon as there is enough
//! space, because every bit that it clears without need forgets a use.
//!
//! The hand follows the order of the hash bits with the first one as the highest, so that the parts
//! of a split segment stay at the segment's place ([`Hand`]). Pairs of a splitting segment that the
//! hand has already passed count as visited in their new place ([`spare_passed`]). So the growth of
//! a map does not make the hand meet a pair twice in one round.
//!
//! The charges of the map are exact ([`charge`]). Space is checked before a pair is committed and
//! charged, so concurrent writers may exceed a limit by one pair each.

use crate::error::{Error, ErrorKind, Result};
use crate::map::engine::bound::Bound;
use crate::map::engine::change::Expiry;
use crate::map::engine::charge;
use crate::map::engine::directory;
use crate::map::engine::locked;
use crate::map::engine::write;
use crate::map::layout::hash::MAX_DEPTH;
use crate::map::layout::record::Record;
use crate::map::layout::root::Root;
use crate::map::layout::segment::{Segment, mask};
use crate::map::options::MapMode;
use crate::memory::freeze_lock;
use crate::memory::lane::LaneGuard;
use crate::stream::frame::ChangeKind;
use crate::sync::hold_clock::{now, tick};
use crate::sync::robust_lock::{self, Level, Peers};
use crate::sync::space::Space;
use std::sync::atomic::Ordering;

/// After this number of segments for one new pair, the hand of a small map waits for locks, and no
/// longer spares any pair. In a larger map, the limit is two rounds.
const HAND_LIMIT: u64 = 1 << 16;

/// When a pair that is set now expires; 0 for never.
pub(crate) fn expiry(space: &Space, bound: &Bound, expiry: Expiry) -> u64 {
    let MapMode::Cache { ttl_ms: own, .. } = bound.mode else { return 0 };
    let own = own.unwrap_or(0);
    match expiry {
        Expiry::At(time) => time,
        Expiry::Own if own == 0 => 0,
        Expiry::Own => tick(space).saturating_add(own),
        Expiry::After(ttl) => tick(space).saturating_add(ttl),
    }
}

/// True if the record has expired.
#[inline]
pub(crate) fn is_expired(space: &Space, record: &Record<'_>) -> bool {
    has_passed(space, record.expiry())
}

/// True if a pair with this expiry has expired.
#[inline]
pub(crate) fn has_passed(space: &Space, expiry: u64) -> bool {
    expiry != 0 && expiry <= now(space)
}

pub(crate) fn count_expired(bound: &Bound, space: &Space, expired: bool) {
    if expired && bound.is_cache() {
        bound.root(space).expired.fetch_add(1, Ordering::Relaxed);
    }
}

/// A new pair starts unvisited; an updated one has just been used.
pub(crate) fn begin_unvisited(segment: Segment<'_>, position: u32, present: bool) {
    let bit = 1 << (position % 64);
    let word = segment.visited(position / 64);
    if (word.load(Ordering::Relaxed) & bit != 0) == present {
        return; // Spares a locked instruction.
    }
    if present {
        word.fetch_or(bit, Ordering::Relaxed)
    } else {
        word.fetch_and(!bit, Ordering::Relaxed)
    };
}

/// True if a record of `room` bytes is within the limits.
#[inline]
pub(crate) fn has_room(space: &Space, bound: &Bound, room: u64) -> bool {
    let MapMode::Cache { max_bytes, max_entries, .. } = bound.mode else { return true };
    let (bytes, entries) = charge::charged(bound.root(space));
    let bytes = bytes.saturating_add(charge::charge_of(room));
    bytes <= max_bytes.unwrap_or(u64::MAX) && entries < max_entries.unwrap_or(u64::MAX)
}

/// Evicts until a record of `room` bytes is within the limits. No lock is held.
///
/// # Errors
/// `Full` if the record alone is over the limit; `TimedOut` if everything left to evict is locked;
/// damage.
pub(crate) fn make_room(lane: &LaneGuard<'_>, bound: &Bound, room: u64) -> Result<()> {
    let MapMode::Cache { max_bytes, max_entries, .. } = bound.mode else { return Ok(()) };
    let (max_bytes, max_entries) = (max_bytes.unwrap_or(u64::MAX), max_entries.unwrap_or(u64::MAX));
    let charge = charge::charge_of(room);
    if charge > max_bytes {
        return Err(too_large(bound, charge, max_bytes));
    }
    let root = bound.root(lane.space());
    let over = || {
        let (bytes, entries) = charge::charged(root);
        bytes.saturating_add(charge) > max_bytes || entries.saturating_add(1) > max_entries
    };
    let mut steps = 0;
    let mut charged = charge::charged(root);
    while over() {
        let two_rounds = HAND_LIMIT.max(2 << directory::depth(root));
        // While anything else is left to evict, the hand does not wait for stopped participants,
        // and spares pairs that were read. In a small map, readers may mark all pairs all the time.
        advance_hand(lane, bound, root, steps >= two_rounds, &over)?;
        steps += 1;
        if steps % two_rounds == 0 {
            bound.ensure_current(lane.space())?;
            let before = std::mem::replace(&mut charged, charge::charged(root));
            let mut segments = directory::segments(lane.space(), root);
            // Every segment has been locked since then, so no uncharged change is in progress.
            if before == charged && steps > two_rounds && segments.all(|s| s.pairs() == 0) {
                return Err(bound.damaged("it is empty, but counts bytes"));
            }
            std::thread::yield_now();
        }
    }
    Ok(())
}

/// The position of the hand: before a position of the segment that owns a certain share of all
/// hashes. Any word is a valid position.
#[derive(Clone, Copy)]
struct Hand {
    /// The share of all hashes behind the hand, in 2^32nds, in the order of their reversed bits.
    behind: u32,
    position: u32,
}

impl Hand {
    fn from_bits(bits: u64, positions: u32) -> Hand {
        Hand { behind: (bits >> 32) as u32, position: bits as u32 % positions }
    }

    fn bits(self) -> u64 {
        u64::from(self.behind) << 32 | u64::from(self.position)
    }

    /// The directory's index of the segment.
    fn index(self, root: &Root) -> u32 {
        self.behind.reverse_bits() & mask(directory::depth(root))
    }

    /// The hand before the first position of the next segment, after one of this depth.
    fn next_segment(self, depth: u32) -> Hand {
        // A damaged depth would make it advance by zero.
        let share = u32::MAX >> depth.min(MAX_DEPTH);
        Hand { behind: (self.behind | share).wrapping_add(1), position: 0 }
    }
}

/// Makes the hand spare once, in the new half of a splitting segment, the pairs that it has passed
/// already.
pub(crate) fn spare_passed(bound: &Bound, parent: Segment<'_>, child: Segment<'_>) {
    let root = bound.root(parent.space);
    let hand = Hand::from_bits(root.hand.load(Ordering::Relaxed), bound.positions());
    let phase = parent.phase();
    if hand.index(root) & mask(phase.depth) == phase.prefix {
        for position in 0..hand.position {
            child.visited(position / 64).fetch_or(1 << (position % 64), Ordering::Relaxed);
        }
    }
}

/// Passes positions of one segment and evicts unvisited pairs until there is enough space. The hand
/// stops there. If it is `late`, it waits for the segment's lock, and evicts visited pairs, too.
pub(crate) fn advance_hand(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    root: &Root,
    late: bool,
    over: &impl Fn() -> bool,
) -> Result<()> {
    let space = lane.space();
    let bits = root.hand.load(Ordering::Relaxed);
    let hand = Hand::from_bits(bits, bound.positions());
    let segment = directory::lookup_checked(space, bound, hand.index(root))?;
    // If two threads pass at once, one of them moves the hand.
    let move_to = |next: u32| {
        let next = match next < bound.positions() {
            true => Hand { position: next, ..hand },
            false => hand.next_segment(segment.phase().depth),
        };
        let _ = root.hand.compare_exchange(bits, next.bits(), Ordering::Relaxed, Ordering::Relaxed);
    };
    let mut locked = locked::try_lock_this(lane, segment);
    if late && locked.is_none() {
        locked = Some(locked::lock_this(lane, segment, Level::Whole)?);
    }
    if let Some(locked) = locked {
        let frozen = freeze_lock::is_frozen(lane.space());
        let result = match bound.ensure_current(space) {
            Ok(()) if segment.map() == bound.id && !frozen => {
                evict_from(lane, bound, segment, hand.position, (late, over)).map(&move_to)
            }
            result => {
                move_to(bound.positions());
                result
            }
        };
        drop(locked);
        return if frozen { freeze_lock::wait_while_frozen(lane) } else { result };
    }
    move_to(bound.positions());
    if let Some(owner) = robust_lock::holder(&segment.header().lock).filter(|&o| lane.is_dead(o)) {
        lane.try_recover(owner)?;
    }
    Ok(())
}

/// Returns the position where it stopped.
fn evict_from(
    lane: &LaneGuard<'_>,
    bound: &Bound,
    segment: Segment<'_>,
    from: u32,
    (late, over): (bool, &impl Fn() -> bool),
) -> Result<u32> {
    let now = tick(segment.space);
    let root = bound.root(segment.space);
    for position in from..bound.positions() {
        let word = segment.slot(position).load(Ordering::Relaxed);
        if word == 0 {
            continue;
        }
        let expiry = bound.shape.open(segment.space, word).map_or(0, |r| r.expiry());
        let expired = expiry != 0 && expiry <= now;
        if !expired && !over() {
            return Ok(position);
        }
        let bit = 1u64 << (position % 64);
        let visited = segment.visited(position / 64);
        if !expired && !late && visited.load(Ordering::Relaxed) & bit != 0 {
            visited.fetch_and(!bit, Ordering::Relaxed);
        } else {
            let counter = if expired { &root.expired } else { &root.evicted };
            let kind = if expired { ChangeKind::Expire } else { ChangeKind::Evict };
            write::remove_at(lane, bound, segment, position, Some(kind))?;
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(bound.positions())
}

/// Adds this handle's lookups to the map's counters.
pub(crate) fn flush_counters(space: &Space, bound: &Bound) {
    if !bound.is_current(space) {
        return; // The root may be another map's by now.
    }
    let root = bound.root(space);
    let (hits, misses) = bound.lookups.take();
    for (count, shared) in [(hits, &root.hits), (misses, &root.misses)] {
        if count != 0 {
            shared.fetch_add(count, Ordering::Relaxed);
        }
    }
}

#[cold]
fn too_large(bound: &Bound, charge: u64, limit: u64) -> Error {
    let text = format!(
        "map '{}': a pair of {charge} bytes exceeds the cache's limit of {limit} bytes; do not \
         cache it",
        bound.name
    );
    Error::new(ErrorKind::Full, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_meets_every_segment_once_also_if_they_split_meanwhile() {
        // The bits that a segment's hashes share, the first one as the highest.
        for depth in [0, 1, 5, 24] {
            let mut hand = Hand { behind: 0, position: 7 };
            let mut met = 0u64;
            for _ in 0..(1u64 << depth).min(1000) {
                assert_eq!(u64::from(hand.behind), met << (32 - depth));
                hand = hand.next_segment(depth);
                assert_eq!(hand.position, 0);
                met += 1;
            }
            assert_eq!(hand.behind == 0, met == 1 << depth);
        }
        let quarter = Hand { behind: 1 << 30, position: 3 };
        // Split in two before it continues: the other half comes next, and then the segment that
        // would have been next.
        let half = quarter.next_segment(3);
        assert_eq!(half.behind, 3 << 29);
        assert_eq!(half.next_segment(3).behind, quarter.next_segment(2).behind);
        assert_eq!(Hand::from_bits(quarter.bits(), 100).behind, quarter.behind);
        assert_eq!(Hand::from_bits(u64::MAX, 100).position, u32::MAX % 100);
    }
}
