//! Runs: contiguous extents for one large record, one directory chunk, one block.
//!
//! The first extent is CLAIMED and its length written before any other is taken; the others become
//! BODY naming the first. So whoever finds the first, finishes or frees exactly the bodies that are
//! its own, however often it is interrupted.

use crate::error::Result;
use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, Kind, State, committed, header};
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use std::sync::atomic::Ordering;

/// Claims `count` contiguous extents; the first is CLAIMED by the participant. Memory is behind them;
/// what it holds is undefined.
///
/// # Errors
/// `Full` if there is no such run and the hold cannot grow.
pub(crate) fn claim(space: &Space, peers: &impl Peers, lane: u32, count: u64) -> Result<u64> {
    loop {
        let seen = committed(space);
        let mut from = 0;
        while let Some(first) = find(space, from, seen, count) {
            if take(space, peers.me(), lane, first, count) {
                return populate(space, first, count);
            }
            from = first + 1;
        }
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

fn find(space: &Space, from: u64, end: u64, count: u64) -> Option<u64> {
    let mut length = 0;
    for extent in from..end {
        length = if claimable(space, extent) { length + 1 } else { 0 };
        if length == count {
            return Some(extent + 1 - count);
        }
    }
    None
}

fn take(space: &Space, me: Owner, lane: u32, first: u64, count: u64) -> bool {
    if !extents::take(space, first, me, lane) {
        return false;
    }
    let head = header(space, first);
    // Release: the length is there before the first body.
    head.bits.store(count, Ordering::Release);
    step!("run.head-claimed");
    for extent in first + 1..first + count {
        let body = header(space, extent);
        let state = body.state();
        let free = matches!(state.kind(), Kind::Empty | Kind::Free);
        if !free || !body.change(state, State::body(first)) {
            free_claimed(space, first);
            return false;
        }
        extents::unhint(space, extent);
        step!("run.body-claimed");
    }
    step!("run.claimed");
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
    let count = length(space, first);
    for extent in first + 1..first + count {
        if header(space, extent).state() == State::body(first) {
            extents::free(space, extent);
            step!("run.body-freed");
        }
    }
    extents::free(space, first);
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
