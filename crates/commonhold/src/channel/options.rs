//! What one says when opening a channel, joining it, waiting.

use crate::error::{Error, ErrorKind, Result};
use std::time::Duration;

const LEAST_RING: u64 = 4 << 10;
const MOST_RING: u64 = 1 << 30;

/// How a channel is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelOptions {
    /// Bytes of the ring: a power of two, from 4 KiB to 1 GiB. A message takes 8 bytes more than
    /// its length, rounded up to a multiple of 8, and has at most a quarter of the ring.
    pub ring_bytes: u64,
}

impl ChannelOptions {
    /// A channel with a ring of so many bytes.
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

/// With which message a consumer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The first one that is sent after it has joined.
    Now,
    /// The oldest one that is still in the ring; usually between three quarters of the ring and all
    /// of it.
    Oldest,
}

/// Who waits for a consumer that is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The producer, as long as it takes. Nothing is lost.
    Lossless,
    /// Nobody: the consumer misses messages, and is told how many ([`Received::missed`]).
    Lossy,
    /// The producer, for so long; then the consumer is dropped, and its next call says so. The time
    /// counts while the producer has no room and the consumer does not move; it is at least a
    /// millisecond.
    Patient(Duration),
}

/// How to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Spin for a moment, then sleep until woken.
    #[default]
    Sleep,
    /// Spin all the time: a microsecond or two sooner, for a whole processor.
    Spin,
}

/// What came with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number: from 0 on, one more for each message of the channel.
    pub sequence: u64,
    /// How many messages the consumer has missed just before this one; always 0 unless it is lossy.
    pub missed: u64,
}

/// A participant at a channel, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Peer {
    /// Its slot in the hold.
    pub slot: u32,
    /// Its process, as it calls itself; another PID namespace may have the number too.
    pub pid: u32,
}
