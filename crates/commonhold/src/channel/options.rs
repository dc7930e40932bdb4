//! Options for opening a channel, joining it and waiting.

use crate::error::{Error, ErrorKind, Result};
use std::time::Duration;

const LEAST_RING: u64 = 4 << 10;
const MOST_RING: u64 = 1 << 30;

/// Options of a channel, fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelOptions {
    /// Bytes of the ring: a power of two, from 4 KiB to 1 GiB. A message takes 8 bytes more than
    /// its length, rounded up to a multiple of 8, and has at most a quarter of the ring.
    pub ring_bytes: u64,
}

impl ChannelOptions {
    /// A channel with a ring of `ring_bytes` bytes.
    pub fn new(ring_bytes: u64) -> ChannelOptions {
        ChannelOptions { ring_bytes }
    }

    /// # Errors
    /// `Invalid` unless the ring's size is a power of two within the limits.
    pub(super) fn check(self) -> Result<()> {
        let bytes = self.ring_bytes;
        if bytes.is_power_of_two() && (LEAST_RING..=MOST_RING).contains(&bytes) {
            return Ok(());
        }
        let near = bytes.clamp(LEAST_RING, MOST_RING).next_power_of_two();
        let text = format!(
            "expected a ring of a power of two from 4 KiB to 1 GiB, got {bytes} bytes; use {near}"
        );
        Err(Error::new(ErrorKind::Invalid, text))
    }
}

/// The message with which a consumer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The first message that is sent after the consumer has joined.
    Now,
    /// The oldest message that is still in the ring. The ring usually keeps between three quarters
    /// of its size and all of it.
    Oldest,
}

/// Whether the producer waits for a slow consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The producer waits for the consumer without limit. The consumer misses no message.
    Lossless,
    /// The producer never waits. The consumer may miss messages; [`Received::missed`] counts them.
    Lossy,
    /// The producer waits for this time, and then drops the consumer: the consumer's next call
    /// fails with `Closed`. The time counts while the producer has no room and the consumer does
    /// not move; it is at least a millisecond.
    Patient(Duration),
}

/// How a call waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Spin for a moment, then sleep until woken.
    #[default]
    Sleep,
    /// Spin without sleeping: reacts a microsecond or two sooner, and occupies a whole processor.
    Spin,
}

/// Facts about a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number: messages of a channel count from 0.
    pub sequence: u64,
    /// The number of messages that the consumer missed just before this one; always 0 unless it is
    /// lossy.
    pub missed: u64,
}

/// A participant at a channel, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Peer {
    /// Its slot in the hold.
    pub slot: u32,
    /// Its process id as the process itself sees it; the number may also occur in another PID
    /// namespace.
    pub pid: u32,
}
