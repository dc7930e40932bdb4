//! Becoming a consumer: a cursor line, and the position to begin at.
//!
//! The joiner stores its cursor, executes a full fence and reads the write limit again. If the
//! limit has moved too far, the producer may not have seen the cursor, and the joiner starts over.
//! From then on nothing after the cursor is overwritten, so the joiner can take its time to walk to
//! the end, or to find the number of the oldest message. A consumer that holds nobody back does the
//! same without that guarantee, and compares with the write limit instead.

use crate::channel::bound::Bound;
use crate::channel::frame::{self, Header};
use crate::channel::layout::{LINES, Line, Mark, Use, Word};
use crate::channel::options::{Join, Policy};
use crate::error::{ErrorKind, Result};
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::unwind::UnwindGuard;
use std::sync::atomic::{Ordering, fence};

/// A producer moves the write limit by an eighth of the ring: it cannot do so this often while a
/// joiner reads three words.
const TRIES: u32 = 1 << 20;

pub(super) fn kind(policy: Policy) -> Use {
    match policy {
        Policy::Lossless => Use::Lossless,
        Policy::Lossy => Use::Lossy,
        Policy::Patient(_) => Use::Patient,
    }
}

/// Claims a line. Its cursor does not count yet.
///
/// # Errors
/// `Full` if living participants have every line.
pub(super) fn claim_line(bound: &Bound, me: Owner, policy: Policy) -> Result<usize> {
    let mine = Word::new(Use::Claiming, me).0;
    // Free lines first: asking whether an owner is alive costs a system call.
    for dead_ones in [false, true] {
        for number in 0..LINES {
            let line = bound.line(number);
            let seen = line.word.load(Ordering::Acquire);
            let owner = Word(seen).owner();
            let free = match dead_ones {
                false => Word(seen) == Word::FREE,
                true => owner.is_none_or(|owner| participant::has_died(bound.space(), owner)),
            };
            // AcqRel: the stores of the last owner come before those of this one.
            if free
                && line
                    .word
                    .compare_exchange(seen, mine, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                let left = UnwindGuard::new(|| leave(line, me));
                step!("channel.line-claimed");
                prepare(bound, line, number, policy);
                left.done();
                return Ok(number);
            }
        }
    }
    let text = format!("already has {LINES} consumers, the maximum; close one");
    Err(bound.error(ErrorKind::Full, &text))
}

fn prepare(bound: &Bound, line: &Line, number: usize, policy: Policy) {
    let patience = match policy {
        Policy::Patient(patience) => u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1),
        _ => 0,
    };
    // Relaxed: the word that makes the line count is stored with release.
    line.patience_ms.store(patience, Ordering::Relaxed);
    line.missed.store(0, Ordering::Relaxed);
    // Before the cursor counts. The joiner's fence orders it against the producer's look at the
    // lines.
    bound.head().lines_used.fetch_max(number as u32 + 1, Ordering::AcqRel);
}

/// Joins with a claimed line. Returns the position to begin at, which is also the line's cursor.
///
/// # Errors
/// `Damaged`.
pub(super) fn with_line(
    bound: &Bound,
    number: usize,
    me: Owner,
    from: Join,
    policy: Policy,
) -> Result<Mark> {
    let line = bound.line(number);
    if policy == Policy::Lossy {
        let at = without_line(bound, from)?;
        publish(line, at);
        line.word.store(Word::new(Use::Lossy, me).0, Ordering::Release);
        return Ok(at);
    }
    for _ in 0..TRIES {
        let (start, mark) = start(bound, from)?;
        publish(line, Mark { position: start, ..mark });
        step!("channel.cursor-stored");
        // Release: the cursor comes before the word that makes it count; pairs with the producer's
        // acquire.
        line.word.store(Word::new(kind(policy), me).0, Ordering::Release);
        // The cursor before the look at the write limit; pairs with the producer's fence.
        fence(Ordering::SeqCst);
        step!("channel.joining");
        if bound.head().write_limit.load(Ordering::Acquire) <= start + bound.ring.size() {
            let at = find_start(bound, from, start, mark, &|| true)?;
            let at = at.ok_or_else(|| bound.damaged("no message begins", start))?;
            publish(line, at);
            step!("channel.joined");
            // A producer may have waited because of the earlier cursor.
            bound.head().room.wake();
            return Ok(at);
        }
    }
    Err(bound.damaged("its write limit is invalid", 0))
}

/// Joins without holding anybody back.
///
/// # Errors
/// `Damaged`.
pub(super) fn without_line(bound: &Bound, from: Join) -> Result<Mark> {
    for _ in 0..TRIES {
        let (start, mark) = start(bound, from)?;
        let kept = |position: u64| {
            // Pairs with the producer's fence after the write limit.
            fence(Ordering::Acquire);
            bound.head().write_limit.load(Ordering::Relaxed) <= position + bound.ring.size()
        };
        if let Some(at) = find_start(bound, from, start, mark, &|| kept(start))?
            && kept(at.position)
        {
            return Ok(at);
        }
    }
    Err(bound.damaged("its write limit is invalid", 0))
}

/// The position to begin at, and a mark that is not before it.
fn start(bound: &Bound, from: Join) -> Result<(u64, Mark)> {
    let (head, size) = (bound.head(), bound.ring.size());
    // Acquire: the mark that belongs to the write limit, or a later one; pairs with the release in
    // `WriteLimit::raise`.
    let write_limit = head.write_limit.load(Ordering::Acquire);
    let mark =
        head.mark().filter(|mark| write_limit <= mark.position + size && write_limit % 8 == 0);
    let Some(mark) = mark else {
        return Err(bound.damaged("its state word is invalid", write_limit));
    };
    let start = match from {
        Join::Now => mark.position,
        Join::Oldest => write_limit.saturating_sub(size),
    };
    Ok((start, mark))
}

/// From where reading begins, finds where receiving begins. `None` if `kept` no longer holds.
fn find_start(
    bound: &Bound,
    from: Join,
    start: u64,
    mark: Mark,
    kept: &dyn Fn() -> bool,
) -> Result<Option<Mark>> {
    match from {
        Join::Now => walk_to_end(bound, mark, kept),
        Join::Oldest => number_of(bound, start, kept),
    }
}

/// Walks to the first header that is zero, but at most one ring: by then every message is newer
/// than the call.
fn walk_to_end(bound: &Bound, mark: Mark, kept: &dyn Fn() -> bool) -> Result<Option<Mark>> {
    let (ring, mut at) = (&bound.ring, mark);
    while at.position - mark.position < ring.size() {
        let word = ring.header(at.position).load(Ordering::Acquire);
        let header = frame::decode(word, at.sequence, ring.rest(at.position), ring.size());
        if !kept() {
            return Ok(None);
        }
        match header {
            Header::None => break,
            Header::Filler => at.position += ring.rest(at.position),
            Header::Message { len } => {
                at.position += frame::bytes(len);
                at.sequence += 1;
            }
            Header::Wrong => return Err(bound.damaged("no header is", at.position)),
        }
    }
    Ok(Some(at))
}

/// The full number of the message at `start`, of which the header contains the lower half.
fn number_of(bound: &Bound, start: u64, kept: &dyn Fn() -> bool) -> Result<Option<Mark>> {
    for _ in 0..TRIES {
        // The mark first: it is not before `start`, and less than a ring after it while `start` is
        // kept.
        let Some(mark) = bound.head().mark() else { break };
        let word = bound.ring.header(start).load(Ordering::Acquire);
        if !kept() {
            return Ok(None);
        }
        if mark.position == start {
            return Ok(Some(mark));
        }
        if word != 0 && mark.position > start {
            let behind = (mark.sequence as u32).wrapping_sub(frame::low_sequence(word));
            let Some(sequence) = mark.sequence.checked_sub(u64::from(behind)) else { break };
            return Ok(Some(Mark { position: start, sequence }));
        }
        std::hint::spin_loop();
    }
    Err(bound.damaged("no message begins", start))
}

/// Stores the position of a consumer.
pub(super) fn publish(line: &Line, at: Mark) {
    // Relaxed: for display.
    line.sequence.store(at.sequence, Ordering::Relaxed);
    // Release: everything before it has been read; pairs with the producer's acquire.
    line.cursor.store(at.position, Ordering::Release);
}

/// Releases a line of `me`.
pub(super) fn leave(line: &Line, me: Owner) {
    let seen = line.word.load(Ordering::Relaxed);
    if Word(seen).owner() == Some(me) {
        // Release: everything was read before. Overrules a producer that drops the consumer
        // meanwhile.
        line.word.store(Word::FREE.0, Ordering::Release);
        step!("channel.line-left");
    }
}
