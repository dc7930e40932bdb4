//! Runs: contiguous extents for one large record, one directory chunk, one block.
//!
//! The first extent becomes CLAIMED and its length is written before any other is taken. The others
//! become BODY and name the first. A process that finds the first therefore finishes or frees
//! exactly the bodies that belong to it, however often it is interrupted.
//!
//! A search for a run reads the groups' words, one bit per extent. It starts where the lane's
//! earlier searches ended without success ([`Below`]).

use crate::error::Result;
use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, Kind, State, committed, header};
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Extents.
const FAR: u64 = 1024;

/// Where a lane's recent searches found no runs; private memory, and a hint.
#[derive(Clone, Copy, Default)]
pub(crate) struct Below {
    /// Per power of two: no run of `count` extents or more begins below `extent`. A count of 0
    /// means that nothing is known.
    none: [Nothing; 8],
    /// The last search that found no run in the whole hold, and the number of frees by then.
    nowhere: Nothing,
}

/// No run of `count` extents exists below an extent, or since a number of frees.
#[derive(Clone, Copy, Default)]
struct Nothing {
    count: u64,
    from: u64,
}

impl Below {
    /// The first extent where a run may begin.
    fn start(&self, count: u64) -> u64 {
        let known = self.none.iter().filter(|none| (1..=count).contains(&none.count));
        known.map(|none| none.from).max().unwrap_or(0)
    }

    fn note(&mut self, count: u64, from: u64) {
        let none = &mut self.none[(count.ilog2() as usize).min(self.none.len() - 1)];
        // Of two lengths the shorter one gives more information, unless the other covers much more
        // of the hold.
        if none.count == 0 || count <= none.count || from >= none.from + FAR {
            *none = Nothing { count, from };
        }
    }

    /// The lane has freed a run.
    pub(crate) fn freed(&mut self, first: u64) {
        for none in &mut self.none {
            none.from = none.from.min(first / 64 * 64);
        }
    }
}

/// Claims `count` contiguous extents; the first is CLAIMED by the participant. They have memory,
/// with undefined contents.
///
/// # Errors
/// `Full` if there is no such run and the hold cannot grow.
pub(crate) fn claim(space: &Space, peers: &impl Peers, lane: u32, count: u64) -> Result<u64> {
    claim_above(space, peers, lane, count, &mut Below::default())
}

/// The same, but starts where the lane has not searched without success already.
///
/// # Errors
/// As [`claim`].
pub(crate) fn claim_above(
    space: &Space,
    peers: &impl Peers,
    lane: u32,
    count: u64,
    below: &mut Below,
) -> Result<u64> {
    loop {
        let (seen, frees) = (committed(space), u64::from(extents::frees(space)));
        let search = |from| look(space, peers.me(), lane, from..seen, count);
        let start = below.start(count);
        let mut found = search(start);
        // Extents that others have freed below are found before the hold grows, but not again and
        // again if nobody frees anything.
        let nowhere = below.nowhere;
        if found.is_none()
            && start > 0
            && !(nowhere.from == frees && (1..=count).contains(&nowhere.count))
        {
            found = search(0);
        }
        if let Some(first) = found {
            below.note(count, first / 64 * 64);
            return populate(space, first, count);
        }
        below.nowhere = Nothing { count, from: frees };
        below.note(count, (seen + 1).saturating_sub(count) / 64 * 64);
        let free_tail = (0..seen).rev().take_while(|&e| claimable(space, e)).count() as u64;
        let wanted = seen + count.saturating_sub(free_tail).max(1);
        extents::grow(space, peers, seen, fitting(wanted, count))?;
    }
}

/// A size at which the last `count` extents do not straddle the headers of a range.
fn fitting(wanted: u64, count: u64) -> u64 {
    let range = wanted.next_power_of_two();
    let start = wanted.saturating_sub(count);
    let boundary = range / 2;
    // The run would cover the boundary where the next range's headers lie: begin after it.
    if boundary >= 1024 && start <= boundary && wanted > boundary {
        boundary + count
    } else {
        wanted
    }
}

fn claimable(space: &Space, extent: u64) -> bool {
    matches!(header(space, extent).state().kind(), Kind::Empty | Kind::Free)
}

/// Finds a run and takes it.
fn look(space: &Space, me: Owner, lane: u32, range: Range<u64>, count: u64) -> Option<u64> {
    let mut from = range.start;
    loop {
        let first = find(|group| extents::group_bits(space, group), from..range.end, count)?;
        if take(space, me, lane, first, count) {
            return Some(first);
        }
        from = first + 1;
    }
}

/// The first of `count` consecutive extents in the range whose bits are set.
fn find(bits: impl Fn(u64) -> u64, range: Range<u64>, count: u64) -> Option<u64> {
    // The number of set bits directly before the current group.
    let mut before = 0;
    for group in range.start / 64..range.end.div_ceil(64) {
        let mut word = bits(group);
        if group == range.start / 64 {
            word &= u64::MAX << (range.start % 64);
        }
        let found = match before + u64::from(word.trailing_ones()) >= count {
            true => Some(group * 64 - before),
            false => ones(word, count).map(|bit| group * 64 + bit),
        };
        if found.is_some() {
            return found.filter(|first| first + count <= range.end);
        }
        before = if word == u64::MAX { before + 64 } else { word.leading_ones().into() };
    }
    None
}

/// The first of `count` adjacent ones in a word.
fn ones(mut word: u64, count: u64) -> Option<u64> {
    if count > 64 {
        return None;
    }
    // Bit `i` is set if `length` bits from `i` on are set.
    let mut length = 1;
    while length < count && word != 0 {
        let more = length.min(count - length);
        word &= word >> more;
        length += more;
    }
    (word != 0).then(|| word.trailing_zeros().into())
}

fn take(space: &Space, me: Owner, lane: u32, first: u64, count: u64) -> bool {
    if !extents::take(space, first, me, lane) {
        return false;
    }
    let head = header(space, first);
    // Release: the length is visible before the first body.
    head.bits.store(count, Ordering::Release);
    let rolled_back = UnwindGuard::new(|| free_claimed(space, first));
    step!("run.head-claimed");
    for extent in first + 1..first + count {
        let body = header(space, extent);
        let state = body.state();
        let free = matches!(state.kind(), Kind::Empty | Kind::Free);
        if !free || !body.change(state, State::body(first)) {
            return false;
        }
        extents::unhint(space, extent);
        step!("run.body-claimed");
    }
    step!("run.claimed");
    rolled_back.done();
    true
}

fn populate(space: &Space, first: u64, count: u64) -> Result<u64> {
    match extents::populate(space, first, count) {
        Ok(()) => Ok(first),
        Err(error) => {
            free_claimed(space, first);
            Err(extents::not_had(space, "a large value", error))
        }
    }
}

/// Frees a run whose first extent the caller owns: its own bodies, then the first.
pub(crate) fn free_claimed(space: &Space, first: u64) {
    // After a panic, free the others as well, and the first one last, as always.
    let rest = UnwindGuard::new(|| {
        free_bodies(space, first);
        extents::free(space, first);
    });
    free_bodies(space, first);
    rest.done();
    extents::free(space, first);
}

fn free_bodies(space: &Space, first: u64) {
    for extent in first + 1..first + length(space, first) {
        if header(space, extent).state() == State::body(first) {
            extents::free(space, extent);
            step!("run.body-freed");
        }
    }
}

/// The length of a run in extents, bounded by what exists.
#[inline]
pub(crate) fn length(space: &Space, first: u64) -> u64 {
    let count = header(space, first).bits.load(Ordering::Acquire);
    count.clamp(1, committed(space).saturating_sub(first).max(1))
}

/// Extents that a record of `len` bytes needs.
pub(crate) fn extents_for(len: u64) -> u64 {
    len.div_ceil(EXTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of looking at each extent.
    fn slowly(words: &[u64], range: Range<u64>, count: u64) -> Option<u64> {
        let is_set = |extent: u64| words[(extent / 64) as usize] >> (extent % 64) & 1 == 1;
        (range.start..=range.end.checked_sub(count)?).find(|&e| (e..e + count).all(is_set))
    }

    #[test]
    fn the_first_run_is_found_wherever_it_lies() {
        let mut state = 7u64;
        let mut roll = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        };
        for _ in 0..3000 {
            let words: Vec<u64> = (0..5)
                .map(|_| match roll() % 4 {
                    0 => 0,
                    1 => u64::MAX,
                    2 => u64::MAX << (roll() % 64),
                    _ => roll() << 31 | roll() | roll() << 62,
                })
                .collect();
            let range = roll() % 70..320 - roll() % 70;
            for count in [1, 2, 3, 7, 31, 63, 64, 65, 100, 200] {
                let found = find(|group| words[group as usize], range.clone(), count);
                assert_eq!(
                    found,
                    slowly(&words, range.clone(), count),
                    "{words:x?} {range:?} {count}"
                );
            }
        }
    }

    #[test]
    fn a_lane_begins_where_it_found_nothing_below() {
        let mut below = Below::default();
        assert_eq!(below.start(3), 0);
        below.note(3, 640);
        assert_eq!((below.start(2), below.start(3), below.start(9)), (0, 640, 640));
        below.note(9, 6400);
        assert_eq!((below.start(3), below.start(9)), (640, 6400));
        below.note(2, 64);
        assert_eq!((below.start(2), below.start(3), below.start(9)), (64, 64, 6400));
        below.freed(100);
        assert_eq!((below.start(2), below.start(9)), (64, 64));
    }
}
