//! Protocol 6: the orderings of a channel.
//!
//! Each scenario is two or three threads and the few words that they order by: a message and the header behind it; a
//! lossy copy and the write limit; a joiner and a producer that raises the write limit; the mark with its two places. That a
//! cursor is published with release is not shown: loom lets no load see a later store.

use super::{Rules, explore};
use Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// A way to get the orderings wrong, to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// A header is released without ordering.
    HeaderRelaxed,
    /// A header is read without ordering.
    HeaderReadRelaxed,
    /// The next header is zeroed after this one is released.
    LateZero,
    /// Bytes are overwritten without a fence behind the write limit.
    NoWriteLimitFence,
    /// A lossy consumer looks at the write limit without a fence behind its copy.
    NoCopyFence,
    /// The producer does not fence between write limit and cursors.
    NoProducerFence,
    /// The joiner does not fence between cursor and write limit.
    NoJoinerFence,
    /// The mark is written over without a fence behind the move before.
    NoMarkFence,
    /// The mark is moved without ordering.
    MarkRelaxed,
    /// The mark is looked at again without a fence.
    NoMarkReadFence,
    /// The write limit is stored before the mark that goes with it is ordered.
    WriteLimitRelaxed,
}

/// Every break.
pub const BREAKS: [Break; 11] = [
    Break::HeaderRelaxed,
    Break::HeaderReadRelaxed,
    Break::LateZero,
    Break::NoWriteLimitFence,
    Break::NoCopyFence,
    Break::NoProducerFence,
    Break::NoJoinerFence,
    Break::NoMarkFence,
    Break::MarkRelaxed,
    Break::NoMarkReadFence,
    Break::WriteLimitRelaxed,
];

/// Runs the four scenarios.
///
/// # Errors
/// What failed.
pub fn check(broken: Option<Break>, preemptions: Option<usize>) -> Result<usize, String> {
    let rules = Rules(broken);
    let mut runs = 0;
    for scenario in [sending, overwriting, joining, marking] {
        runs += explore(preemptions, move || scenario(rules))?;
    }
    Ok(runs)
}

fn words<const N: usize>(values: [usize; N]) -> Arc<[AtomicUsize; N]> {
    Arc::new(values.map(AtomicUsize::new))
}

/// A header behind which old bytes look like the next one.
fn sending(rules: Rules<Break>) {
    const OLD: usize = 9;
    let shared = words([0, 0, OLD]);
    let theirs = Arc::clone(&shared);
    let consumer = loom::thread::spawn(move || {
        let [header, body, next] = &*theirs;
        match header.load(rules.order(Break::HeaderReadRelaxed, Acquire)) {
            0 => None,
            _ => Some((body.load(Relaxed), next.load(Relaxed))),
        }
    });
    let [header, body, next] = &*shared;
    body.store(5, Relaxed);
    if !rules.is(Break::LateZero) {
        next.store(0, Relaxed);
    }
    header.store(1, rules.order(Break::HeaderRelaxed, Release));
    if rules.is(Break::LateZero) {
        next.store(0, Relaxed);
    }
    if let Some((body, next)) = consumer.join().expect("the consumer does not panic") {
        assert_eq!(body, 5, "a message was not intact");
        assert_eq!(next, 0, "old bytes were taken for a header");
    }
}

/// A lossy copy of two words, of which the producer overwrites the first.
fn overwriting(rules: Rules<Break>) {
    let shared = words([1, 0]);
    let theirs = Arc::clone(&shared);
    let consumer = loom::thread::spawn(move || {
        let [body, write_limit] = &*theirs;
        let copied = body.load(Relaxed);
        rules.fence(Break::NoCopyFence, Acquire);
        (copied, write_limit.load(Relaxed))
    });
    let [body, write_limit] = &*shared;
    write_limit.store(1, Relaxed);
    rules.fence(Break::NoWriteLimitFence, Release);
    body.store(2, Relaxed);
    let (copied, write_limit) = consumer.join().expect("the consumer does not panic");
    assert!(write_limit == 1 || copied == 1, "overwritten bytes were taken for a message");
}

/// The cursor is 0 where nobody has joined; a producer that sees none overwrites what the joiner would read.
fn joining(rules: Rules<Break>) {
    let shared = words([0, 0, 1]);
    let theirs = Arc::clone(&shared);
    let joiner = loom::thread::spawn(move || {
        let [cursor, write_limit, body] = &*theirs;
        cursor.store(1, Relaxed);
        rules.fence(Break::NoJoinerFence, SeqCst);
        if write_limit.load(Acquire) == 1 {
            return None; // It begins elsewhere.
        }
        let read = body.load(Relaxed);
        // It has read and goes on.
        cursor.store(2, Release);
        Some(read)
    });
    let [cursor, write_limit, body] = &*shared;
    write_limit.store(1, Release);
    rules.fence(Break::NoProducerFence, SeqCst);
    if cursor.load(Acquire) != 1 {
        body.store(2, Relaxed);
    }
    let read = joiner.join().expect("the joiner does not panic");
    assert!(read != Some(2), "what a joiner was promised was overwritten");
}

/// Three marks in two places; a reader finds one that is whole, and none older than the write limit allows.
fn marking(rules: Rules<Break>) {
    // moves, two places of two words, write limit
    let shared = words([0, 0, 0, 0, 0, 0]);
    let theirs = Arc::clone(&shared);
    let reader = loom::thread::spawn(move || {
        let write_limit = theirs[5].load(Acquire);
        let moves = theirs[0].load(Acquire);
        let place = 1 + moves % 2 * 2;
        let read = (theirs[place].load(Relaxed), theirs[place + 1].load(Relaxed));
        rules.fence(Break::NoMarkReadFence, Acquire);
        (theirs[0].load(Relaxed) == moves).then_some((write_limit, read))
    });
    for moves in 1..=2 {
        let place = 1 + moves % 2 * 2;
        rules.fence(Break::NoMarkFence, Release);
        shared[place].store(moves, Relaxed);
        shared[place + 1].store(moves, Relaxed);
        shared[0].store(moves, rules.order(Break::MarkRelaxed, Release));
        shared[5].store(moves, rules.order(Break::WriteLimitRelaxed, Release));
    }
    if let Some((write_limit, (one, other))) = reader.join().expect("the reader does not panic") {
        assert_eq!(one, other, "two halves of different marks");
        assert!(one >= write_limit, "a write limit without its mark");
    }
}
