//! Becoming the producer of a channel, where the previous one stopped.
//!
//! The producer's word is claimed if nobody has it or its owner is dead. The end is found by
//! walking the headers from the mark: the header after the last message is zero, because it was
//! zeroed before that message was released. Bytes that a dead producer wrote after that do not
//! count. Consumers are woken, whatever their flag contains, because the dead producer may have
//! died between a message and the wake-up.

use crate::channel::bound::Bound;
use crate::channel::frame::{self, Header};
use crate::channel::layout::{LAST, Mark};
use crate::channel::write_limit::KEPT;
use crate::error::{Error, ErrorKind, Result};
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::unwind::UnwindGuard;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// The state with which a producer begins.
pub(super) struct Begin {
    /// The position and number of the next message.
    pub(super) end: Mark,
    /// Boundaries of the frames that are kept, an eighth of a ring apart, the oldest first.
    pub(super) kept: VecDeque<u64>,
}

/// Claims the producer's word for `me` and finds the end and the frames that are kept.
///
/// # Errors
/// `Busy`, naming slot and process, while another producer lives; `Damaged`.
pub(super) fn take(bound: &Bound, me: Owner) -> Result<Begin> {
    claim(bound, me)?;
    let released = UnwindGuard::new(|| release(bound, me));
    step!("channel.producer-claimed");
    bound.head().messages.wake_all();
    step!("channel.takeover-woken");
    let end = find_end(bound)?;
    step!("channel.end-found");
    bound.head().set_mark(end);
    let kept = kept(bound, end);
    released.done();
    Ok(Begin { end, kept })
}

fn claim(bound: &Bound, me: Owner) -> Result<()> {
    let word = &bound.head().producer;
    loop {
        // Acquire: pairs with the release of a producer that released the word. The stores of a
        // dead producer are visible because it died.
        let seen = word.load(Ordering::Acquire);
        if let Some(owner) = Owner::from_bits(seen as u32)
            && !participant::has_died(bound.space(), owner)
        {
            return Err(busy(bound, owner));
        }
        let mine = u64::from(me.bits());
        if word.compare_exchange(seen, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
    }
}

fn busy(bound: &Bound, owner: Owner) -> Error {
    let peer = bound.peer(owner);
    let text = format!(
        "already has a producer: slot {} (process {}); wait until it closes or its process ends",
        peer.slot, peer.pid
    );
    bound.error(ErrorKind::Busy, &text)
}

/// Releases the producer's word.
pub(super) fn release(bound: &Bound, me: Owner) {
    let mine = u64::from(me.bits());
    // Release: the next producer sees everything that was sent; pairs with the acquire in `claim`.
    let _ = bound.head().producer.compare_exchange(mine, 0, Ordering::Release, Ordering::Relaxed);
}

/// Walks from the mark to the end.
fn find_end(bound: &Bound) -> Result<Mark> {
    let Some(mut at) = bound.head().mark() else {
        return Err(bound.damaged("its state word is invalid", 0));
    };
    let (ring, start) = (&bound.ring, at.position);
    while at.position - start <= ring.size() && at.position <= LAST {
        let word = ring.header(at.position).load(Ordering::Acquire);
        match frame::decode(word, at.sequence, ring.rest(at.position), ring.size()) {
            Header::None => return Ok(at),
            Header::Filler => at.position += ring.rest(at.position),
            Header::Message { len } => {
                at.position += frame::bytes(len);
                at.sequence += 1;
            }
            Header::Wrong => break,
        }
    }
    Err(bound.damaged("no end is found", at.position))
}

/// Walks from the oldest message that is kept to the end, so that joiners still find it. Empty if
/// there is damage: earlier messages then count as gone.
fn kept(bound: &Bound, end: Mark) -> VecDeque<u64> {
    let (ring, mut kept) = (&bound.ring, VecDeque::new());
    // Relaxed: only producers store it, and the previous one is gone.
    let write_limit = bound.head().write_limit.load(Ordering::Relaxed);
    let mut position = write_limit.saturating_sub(ring.size());
    if !write_limit.is_multiple_of(8) || write_limit > end.position + ring.size() {
        return kept;
    }
    // The sequences end with the end's; each header contains only the lower half.
    let first = frame::low_sequence(ring.header(position).load(Ordering::Acquire));
    let mut sequence = u64::from(first);
    while position < end.position {
        if kept.back().is_none_or(|last| position >= last + ring.size() / KEPT) {
            kept.push_back(position);
        }
        let word = ring.header(position).load(Ordering::Acquire);
        match frame::decode(word, sequence, ring.rest(position), ring.size()) {
            Header::Filler => position += ring.rest(position),
            Header::Message { len } => {
                position += frame::bytes(len);
                sequence += 1;
            }
            Header::None | Header::Wrong => return VecDeque::new(),
        }
    }
    if position == end.position { kept } else { VecDeque::new() }
}
