//! [`ChannelStat`]: the producer, the consumers and their lag.

use crate::channel::bound::Bound;
use crate::channel::join;
use crate::channel::layout::{Use, Word};
use crate::channel::options::{Join, Peer};
use crate::error::Result;
use crate::sync::owner::Owner;
use crate::sync::participant;
use std::sync::atomic::Ordering;

/// The state of a channel. While messages are being sent, its numbers are from slightly different
/// moments.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ChannelStat {
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// The longest message in bytes.
    pub max_message: u64,
    /// The number of messages ever sent, which is the sequence number of the next one.
    pub sequence: u64,
    /// Bytes ever sent, with headers and fillers.
    pub sent_bytes: u64,
    /// Bytes of the ring that a consumer can still read if it joins from the oldest message.
    pub kept_bytes: u64,
    /// The producer, if a living one exists.
    pub producer: Option<Peer>,
    /// True if the producer waits for room.
    pub is_waiting: bool,
    /// The consumer that the producer waits for, or would have to wait for first: the one furthest
    /// behind of those that count.
    pub slowest: Option<Peer>,
    /// The living consumers. Read-only consumers are not visible to the hold.
    pub consumers: Vec<ConsumerInfo>,
}

/// A consumer of a channel.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ConsumerInfo {
    /// Its slot and process.
    pub peer: Peer,
    /// Whether the producer waits for it.
    pub policy: ConsumerState,
    /// Bytes that it has not read yet, according to its last published cursor.
    pub lag_bytes: u64,
    /// Messages that it has not read yet, according to its last published cursor.
    pub lag_messages: u64,
    /// Messages that it has missed; 0 unless it is lossy.
    pub missed: u64,
}

/// The state of a consumer, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum ConsumerState {
    /// The producer waits for it without limit.
    Lossless,
    /// The producer does not wait for it.
    Lossy,
    /// The producer waits for it for a limited time.
    Patient,
    /// The producer has waited long enough and dropped it.
    Dropped,
    /// It is currently joining.
    Joining,
}

/// Reads a channel's state.
pub(super) fn stat(bound: &Bound) -> Result<ChannelStat> {
    let (head, size) = (bound.head(), bound.ring.size());
    let end = join::without_line(bound, Join::Now)?;
    let oldest = head.write_limit.load(Ordering::Acquire).saturating_sub(size);
    let living = |owner: &Owner| !participant::has_died(bound.space(), *owner);
    let producer = Owner::from_bits(head.producer.load(Ordering::Acquire) as u32).filter(living);
    let mut consumers = Vec::new();
    let mut slowest = None;
    for number in 0..head.lines_used() {
        let line = bound.line(number);
        let word = Word(line.word.load(Ordering::Acquire));
        let Some(owner) = word.owner().filter(living) else { continue };
        let policy = match word.kind() {
            Use::Lossless => ConsumerState::Lossless,
            Use::Lossy => ConsumerState::Lossy,
            Use::Patient => ConsumerState::Patient,
            Use::Dropped => ConsumerState::Dropped,
            Use::Claiming => ConsumerState::Joining,
            Use::Free | Use::Unknown => continue,
        };
        let lag = |of: u64, at: u64| {
            if policy == ConsumerState::Joining { 0 } else { of.saturating_sub(at) }
        };
        let info = ConsumerInfo {
            peer: bound.peer(owner),
            policy,
            lag_bytes: lag(end.position, line.cursor.load(Ordering::Acquire)),
            lag_messages: lag(end.sequence, line.sequence.load(Ordering::Relaxed)),
            missed: line.missed.load(Ordering::Relaxed),
        };
        if word.counts() && slowest.as_ref().is_none_or(|(lag, _)| info.lag_bytes > *lag) {
            slowest = Some((info.lag_bytes, info.peer));
        }
        consumers.push(info);
    }
    Ok(ChannelStat {
        ring_bytes: size,
        max_message: bound.most(),
        sequence: end.sequence,
        sent_bytes: end.position,
        kept_bytes: end.position.saturating_sub(oldest),
        producer: producer.map(|owner| bound.peer(owner)),
        is_waiting: head.room.has_waiters(),
        slowest: slowest.map(|(_, peer)| peer),
        consumers,
    })
}
