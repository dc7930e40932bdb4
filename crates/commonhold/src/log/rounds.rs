//! Makes a round of the collector atomic for the collector that comes after its death.
//!
//! The collector writes text out and then marks in every ring what it has taken. Before a round for
//! a file it notes where in which file the round begins (PLACED). When the text is out, it notes in
//! every ring what will be marked, and commits all of that by one store (WRITTEN). Then it marks
//! the rings and clears the word. Its successor may find PLACED: nothing of the round is marked,
//! and it cuts the file back to that place. Or it finds WRITTEN: all of the round is in the file,
//! and it marks the rings. So each line is in the file once. Output to anything but a file cannot
//! be taken back: there the round is written again.

use crate::log::layout::{Header, Layout};
use crate::log::merge::Cursor;
use crate::log::rotate::Place;
use crate::steps::step;
use crate::sync::space::Space;
use std::sync::atomic::{Ordering, fence};

const NOTHING: u64 = 0;
/// The file may contain text after the place.
const PLACED: u64 = 1;
/// All text is out; the rings contain what will be marked.
const WRITTEN: u64 = 2;

/// Called before anything is written to a file.
pub(crate) fn begin(header: &Header, place: Place) {
    // Text that a predecessor left after its place is removed already. A kill before the last store
    // leaves no place: half of this place and half of the last one would be a third.
    header.round.store(NOTHING, Ordering::Relaxed);
    fence(Ordering::Release);
    for (word, part) in header.place.iter().zip(place.words()) {
        // Relaxed: a successor sees everything that the dead collector stored.
        word.store(part, Ordering::Relaxed);
    }
    step!("collect.placing");
    // Release: the place is whole when the word is PLACED.
    header.round.store(PLACED, Ordering::Release);
    step!("collect.placed");
}

/// Called once everything is written out: marks it. `cursors` are the positions in all rings
/// afterwards.
pub(crate) fn commit(space: &Space, layout: &Layout, cursors: &[Cursor]) {
    for (number, cursor) in (0..layout.rings).zip(cursors) {
        let ring = layout.ring(space, number);
        // Relaxed: the release below.
        ring.next_tail.store(cursor.position, Ordering::Relaxed);
        ring.next_seen.store(cursor.expected.unwrap_or(0).into(), Ordering::Relaxed);
    }
    let header = layout.header(space);
    // The commit point of the round. Release: the values to mark are visible.
    header.round.store(WRITTEN, Ordering::Release);
    step!("collect.committed");
    mark(space, layout);
}

/// Called when the text after the place is taken back, and no other text follows.
pub(crate) fn forget(header: &Header) {
    header.round.store(NOTHING, Ordering::Release);
}

fn mark(space: &Space, layout: &Layout) {
    for number in 0..layout.rings {
        let ring = layout.ring(space, number);
        let (tail, seen) = (&ring.next_tail, &ring.next_seen);
        if tail.load(Ordering::Relaxed) == ring.tail.load(Ordering::Relaxed) {
            continue;
        }
        ring.seen.store(seen.load(Ordering::Relaxed), Ordering::Release);
        step!("collect.marking");
        // Release: the collector's copies are done before they are overwritten.
        ring.tail.store(tail.load(Ordering::Relaxed), Ordering::Release);
        step!("collect.marked");
    }
    // Release: everything is marked.
    layout.header(space).round.store(NOTHING, Ordering::Release);
    step!("collect.cleared");
}

/// Recovers a predecessor's round: marks a round that was written out; for one that was not,
/// returns where it began. Only the collector calls this.
pub(crate) fn recover(space: &Space, layout: &Layout) -> Option<Place> {
    let header = layout.header(space);
    match header.round.load(Ordering::Acquire) {
        WRITTEN => {
            mark(space, layout);
            None
        }
        PLACED => Some(Place::new(header.place.each_ref().map(|w| w.load(Ordering::Relaxed)))),
        _ => None,
    }
}
