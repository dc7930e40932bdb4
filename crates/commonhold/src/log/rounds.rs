//! A round of the collector, which is one step for whoever comes after its death.
//!
//! The collector writes text out and then marks in every ring what it has taken. Before a round for a file it notes where in which
//! file that begins (PLACED); when the text is out, it notes in every ring what is to be marked, and commits all of it by one
//! store (WRITTEN); then it marks, and clears the word. Its successor finds PLACED, and takes the file back to that
//! place: nothing of the round is marked; or WRITTEN, and marks: all of it is in the file. So each line is in the file
//! once. What has gone to something else than a file cannot be taken back: there the round is written again.

use crate::log::layout::{Header, Layout};
use crate::log::merge::Cursor;
use crate::log::rotate::Place;
use crate::steps::step;
use crate::sync::space::Space;
use std::sync::atomic::{Ordering, fence};

const NOTHING: u64 = 0;
/// Text may be in the file behind the place.
const PLACED: u64 = 1;
/// All of it is out; the rings say what is to be marked.
const WRITTEN: u64 = 2;

/// Before anything is written to a file.
pub(crate) fn begin(header: &Header, place: Place) {
    // What a predecessor left behind its place is taken back already. Killed before the last store, there is no place: half
    // of it with half of the last one would be another.
    header.round.store(NOTHING, Ordering::Relaxed);
    fence(Ordering::Release);
    for (word, part) in header.place.iter().zip(place.words()) {
        // Relaxed: a successor sees everything that the dead one stored.
        word.store(part, Ordering::Relaxed);
    }
    step!("collect.placing");
    // Release: the place is whole when the word says so.
    header.round.store(PLACED, Ordering::Release);
    step!("collect.placed");
}

/// Once everything is written out: marks it. `cursors` are the places of all rings afterwards.
pub(crate) fn commit(space: &Space, layout: &Layout, cursors: &[Cursor]) {
    for (number, cursor) in (0..layout.rings).zip(cursors) {
        let ring = layout.ring(space, number);
        // Relaxed: the release below.
        ring.next_tail.store(cursor.position, Ordering::Relaxed);
        ring.next_seen.store(cursor.expected.unwrap_or(0).into(), Ordering::Relaxed);
    }
    let header = layout.header(space);
    // The commit point of the round. Release: what is to be marked is there.
    header.round.store(WRITTEN, Ordering::Release);
    step!("collect.committed");
    mark(space, layout);
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
    // Release: all is marked.
    layout.header(space).round.store(NOTHING, Ordering::Release);
    step!("collect.cleared");
}

/// What a predecessor has left: a round that is to be marked is marked; for one that is not written out, where it
/// began. By the collector alone.
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
