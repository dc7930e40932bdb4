//! The charges of a cache map: bytes and pairs, exact although any participant may die at any
//! instruction.
//!
//! A total is one word that all writers of the map change. The addition and the note that it was
//! done are therefore two stores with a gap between them. That is why the word names its last
//! change: amount (40 bits) | slot (10) | lane (4) | turn (10 bits). A writer announces an addition
//! in its lane's line, then changes the word. The next participant that changes the word first
//! marks the announcement of the last change as done. So an addition was done if and only if the
//! word still names it or its announcement is marked. (Recoverable compare-and-swap: Attiya,
//! Ben-Baruch, Hendler, PODC 2018.)
//!
//! An addition belongs to a commit: it is announced before the pending record is armed, and done
//! between the commit and the disarming. A recoverer that finds the change committed completes the
//! addition; otherwise it has nothing to roll back. Nobody waits, and nobody reads more than two
//! words of the map.
//!
//! Invariant: while no change is in progress the totals are the sums over the existing pairs
//! ([`taken`]).

use crate::map::engine::bound::Bound;
use crate::map::engine::directory;
use crate::map::layout::root::Root;
use crate::memory::classes::{EXTENT, class_for, geometry};
use crate::memory::extents::{Kind, header};
use crate::memory::runs;
use crate::memory::writer::Writer;
use crate::steps::step;
use crate::sync::participant::{Charge, LaneList, slot};
use crate::sync::space::Space;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes are counted in units of this many, which divides every size of a record.
const UNIT: u64 = 8;
const TURN_BITS: u32 = 10;
const TURNS: u64 = (1 << TURN_BITS) - 1;
const SIGNER_BITS: u32 = 14;
const AMOUNT_SHIFT: u32 = TURN_BITS + SIGNER_BITS;
const MAX_AMOUNT: u64 = u64::MAX >> AMOUNT_SHIFT;

/// States of an announcement; 0 for none yet.
const PENDING: u64 = 1;
const DONE: u64 = 2;
const MAP_SHIFT: u32 = 2;
const NUMBER_SHIFT: u32 = 14;
const MAPS: u64 = (1 << (NUMBER_SHIFT - MAP_SHIFT)) - 1;

/// Bytes that are allocated, and charged, for a record of this length: those of its size class.
pub(crate) fn charge_of(len: u64) -> u64 {
    match class_for(len) {
        Some(class) => u64::from(geometry(class).size),
        None => len.next_multiple_of(EXTENT),
    }
}

/// Bytes that the record at an offset occupies, including the space for its growth.
pub(crate) fn taken(space: &Space, offset: u64) -> u64 {
    let extent = offset / EXTENT;
    let state = header(space, extent).state();
    match state.is(Kind::Run) {
        true => runs::length(space, extent) * EXTENT,
        false => u64::from(geometry(state.class()).size),
    }
}

/// Bytes and pairs charged to the map.
pub(crate) fn charged(root: &Root) -> (u64, u64) {
    // Relaxed: a limit is approximate while changes are in progress.
    let [bytes, entries] = totals(root).map(|total| amount(total.load(Ordering::Relaxed)));
    (bytes * UNIT, entries)
}

fn totals(root: &Root) -> [&AtomicU64; 2] {
    [&root.used_bytes, &root.used_entries]
}

fn amount(total: u64) -> u64 {
    total >> AMOUNT_SHIFT
}

/// The name of the last change of a total: slot, lane and turn.
fn named(total: u64) -> u64 {
    total & ((1 << AMOUNT_SHIFT) - 1)
}

fn name(signer: u64, turn: u64) -> u64 {
    signer << TURN_BITS | (turn >> NUMBER_SHIFT & TURNS)
}

fn is_pending(turn: u64, map: u32) -> bool {
    turn & 3 == PENDING && turn >> MAP_SHIFT & MAPS == u64::from(map)
}

/// The additions of one change, announced and not yet done.
pub(crate) struct Due {
    /// Slot and lane.
    signer: u64,
}

/// Announces the additions of a change: it takes the bytes of `new` instead of those of `old`.
/// Under the segment's lock, before the pending record is armed. `None` if the change adds nothing,
/// and for a recoverer, which changes only maps that end.
#[inline]
pub(crate) fn announce(
    writer: &impl Writer,
    bound: &Bound,
    old: Option<u64>,
    new: Option<u64>,
) -> Option<Due> {
    let space = &writer.arena().space;
    let lane = writer.lane_number()?;
    let bytes = |offset: Option<u64>| offset.map_or(0, |offset| taken(space, offset) / UNIT);
    let by = [
        bytes(new).wrapping_sub(bytes(old)),
        u64::from(new.is_some()).wrapping_sub(u64::from(old.is_some())),
    ];
    let signer = u64::from(writer.me().slot()) << 4 | u64::from(lane);
    let list = writer.list();
    for ((charge, total), by) in list.charges.iter().zip(totals(bound.root(space))).zip(by) {
        charge.by.store(by, Ordering::Relaxed);
        if by != 0 {
            charge.turn.store(next_turn(charge, total, signer, bound.id), Ordering::Release);
        }
    }
    step!("cache.announced");
    (by != [0; 2]).then_some(Due { signer })
}

/// The next number of the lane that differs from the end of the total. The total therefore does not
/// name the addition until it is done, because only this lane stores its own name there.
fn next_turn(charge: &Charge, total: &AtomicU64, signer: u64, map: u32) -> u64 {
    let turn = |number: u64| number << NUMBER_SHIFT | u64::from(map) << MAP_SHIFT | PENDING;
    // Relaxed: the lane's own word.
    let number = (charge.turn.load(Ordering::Relaxed) >> NUMBER_SHIFT) + 1;
    // Relaxed: this lane's last change of the total is visible, or a later one.
    let is_named = named(total.load(Ordering::Relaxed)) == name(signer, turn(number));
    turn(number + u64::from(is_named))
}

impl Due {
    /// Does the announced additions: after the commit, before the pending record is disarmed.
    pub(crate) fn commit(self, writer: &impl Writer, bound: &Bound) {
        let space = &writer.arena().space;
        let charges = &writer.list().charges;
        for (which, total) in totals(bound.root(space)).into_iter().enumerate() {
            let (by, turn) = (&charges[which].by, &charges[which].turn);
            let (by, turn) = (by.load(Ordering::Relaxed), turn.load(Ordering::Relaxed));
            if by != 0 {
                add(space, bound.id, (which, total), name(self.signer, turn), by);
            }
            step!("cache.charging");
        }
        step!("cache.charged");
    }
}

/// Adds to a total in the name of the participant that announced it, once the last change of the
/// total is marked as done.
fn add(space: &Space, map: u32, (which, total): (usize, &AtomicU64), name: u64, by: u64) {
    // Acquire pairs with the release below: the announcement of the change that the word names is
    // visible.
    let mut seen = total.load(Ordering::Acquire);
    loop {
        if named(seen) >> TURN_BITS != name >> TURN_BITS {
            mark_done(space, map, (which, total), seen);
        }
        let sum = (amount(seen) as i64).saturating_add(by as i64).clamp(0, MAX_AMOUNT as i64);
        let next = (sum as u64) << AMOUNT_SHIFT | name;
        // Release: the announcement, and the mark on that of the last change, come first.
        match total.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}

/// Marks the announcement of the change that a total names, unless its writer has moved on.
fn mark_done(space: &Space, map: u32, (which, total): (usize, &AtomicU64), seen: u64) {
    let signer = named(seen) >> TURN_BITS;
    let Some(slot) = slot(space, (signer >> 4) as u32) else { return };
    let announced = &slot.lanes[(signer & 15) as usize].charges[which].turn;
    // Acquire pairs with the release of the announcement: the look at the total below is later than
    // its writer's.
    let turn = announced.load(Ordering::Acquire);
    let is_it = is_pending(turn, map) && name(signer, turn) == named(seen);
    // Checked again: a later announcement with the same ten bits is not done as long as the total
    // is unchanged.
    if is_it && total.load(Ordering::Acquire) == seen {
        let done = turn & !3 | DONE;
        // Release: for a reader of the mark. Failing is fine: the writer has moved on, or another
        // participant has marked it.
        let _ = announced.compare_exchange(turn, done, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Completes the announced additions of a dead lane, for a change that is committed and still
/// armed. Its recoverer may die, too: the next one does the same.
pub(crate) fn complete(space: &Space, bound: &Bound, (slot, lane): (u32, u32), list: &LaneList) {
    let signer = u64::from(slot) << 4 | u64::from(lane);
    for (which, total) in totals(bound.root(space)).into_iter().enumerate() {
        let charge = &list.charges[which];
        let (turn, by) = (charge.turn.load(Ordering::Acquire), charge.by.load(Ordering::Relaxed));
        if by != 0 && is_pending(turn, bound.id) {
            let name = name(signer, turn);
            // The total first: a participant that has changed it since then had marked the
            // announcement before.
            let is_named = named(total.load(Ordering::Acquire)) == name;
            if !is_named && charge.turn.load(Ordering::Acquire) == turn {
                add(space, bound.id, (which, total), name, by);
            }
        }
        step!("recover.charging");
    }
}

/// A description of wrong totals in a cache map that nobody writes.
pub(crate) fn problem(space: &Space, bound: &Bound) -> Option<String> {
    let root = bound.root(space);
    let (mut bytes, mut entries) = (0, 0);
    for segment in directory::segments(space, root) {
        let words = (0..bound.positions()).map(|at| segment.slot(at).load(Ordering::Acquire));
        for record in words.filter(|word| *word != 0).filter_map(|w| bound.shape.open(space, w)) {
            bytes += taken(space, record.offset);
            entries += 1;
        }
    }
    let (recorded, there) = (charged(root), (bytes, entries));
    (recorded != there).then(|| {
        let text = |(bytes, pairs): (u64, u64)| format!("{bytes} bytes in {pairs} pairs");
        format!("counts {}, has {}", text(recorded), text(there))
    })
}
