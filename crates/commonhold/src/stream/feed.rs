//! A stream as bytes to send on, straight from its memory, without a copy.
//!
//! Bytes in a ring may be overwritten at any moment, also while the system reads them for a socket.
//! So the sender reports afterwards how much it has sent, and learns then whether any of it had
//! been overwritten. Overwritten bytes are worthless. They cannot be called back, so the connection
//! is worthless as well.
//!
//! # Safety
//! [`RingBytes`] points into a mapping that the arena keeps, and it keeps the arena. It never gives
//! out a reference to these bytes.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::memory::arena::Arena;
use crate::memory::copy;
use crate::stream::follow::Follower;
use crate::stream::frame::{self, HEADER, RawFrame};
use crate::stream::position::StreamPosition;
use crate::stream::proof::Proof;
use std::sync::Arc;

/// Sends a stream on, byte by byte: its frames unchanged, from the position of a [`Follower`] on.
#[derive(Debug)]
pub struct Feed(Follower);

/// The head of a frame: enough to decide whether to send it, and to pass over it otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead<'a> {
    /// Its bytes and its checksum.
    pub proof: Proof,
    /// It reports a change that was too large for the stream, of an unknown key.
    pub is_gap: bool,
    /// The first bytes of its key.
    pub key: &'a [u8],
}

/// Bytes in the memory of a stream, as two pieces, the second of which may be empty. They stay
/// readable as long as this value lives, and may change at any time.
pub struct RingBytes {
    parts: [(*const u8, usize); 2],
    _arena: Arc<Arena>,
}

// SAFETY: the pointers are only handed on; the memory behind them is shared by nature and stays
// mapped.
unsafe impl Send for RingBytes {}
// SAFETY: as above.
unsafe impl Sync for RingBytes {}

impl RingBytes {
    /// The address and length of both pieces. Reading them as a slice would be undefined behaviour,
    /// because other processes may be writing them. They are for the system (`sendmsg`, `writev`,
    /// io_uring) or for racing copies.
    pub fn parts(&self) -> [(*const u8, usize); 2] {
        self.parts
    }

    /// Appends the bytes to `out`. The copy is valid only if [`Feed::sent`] succeeds afterwards.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        for (at, len) in self.parts {
            // SAFETY: `len` bytes at `at` are in the ring, which stays mapped; the copy may race
            // with a writer.
            unsafe { copy::append(at, len, out) };
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.parts[0].1 + self.parts[1].1
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Feed {
    pub(crate) fn new(follower: Follower) -> Feed {
        Feed(follower)
    }

    /// The position up to which it has sent. Not always the beginning of a frame.
    pub fn position(&self) -> StreamPosition {
        self.0.position()
    }

    /// The end of the stream at this moment, which is the end of a frame.
    pub fn tail(&self) -> u64 {
        self.0.tail()
    }

    /// The end of the stream for a caller that has read the map: every change that was visible in
    /// the map before this call lies before it. `None` while a change is in progress; never waits.
    /// If its writer has died, that lasts until somebody recovers it
    /// ([`Hold::sweep`](crate::Hold::sweep) does).
    ///
    /// # Errors
    /// Those of a writing operation; `NotFound` if the map was dropped.
    pub fn try_end(&self) -> Result<Option<u64>> {
        self.0.try_end()
    }

    /// The bytes to send next, up to the offset `to` and at most `most` bytes. `None` if there are
    /// none.
    ///
    /// # Errors
    /// `Lapped`, `NotFound`, `Closed` as for [`Follower::try_recv`].
    pub fn pending(&self, to: u64, most: usize) -> Result<Option<RingBytes>> {
        self.0.ensure_readable()?;
        let (from, to) = (self.0.position().offset, to.min(self.0.tail()));
        let len = to.saturating_sub(from).min(most as u64);
        if len == 0 {
            return Ok(None);
        }
        let ring = self.0.ring();
        let first = len.min(ring.rest(from));
        let part = |from, len| (ring.at(from, len).cast_const(), len as usize);
        let parts = [part(from, first), part(from + first, len - first)];
        Ok(Some(RingBytes { parts, _arena: Arc::clone(self.0.arena()) }))
    }

    /// The head of the frame that begins at the offset `at`, which is neither before the position
    /// nor at `to` or behind it, with at most `most` bytes of its key. Copies nothing else of the
    /// frame, so its checksum is not checked.
    ///
    /// # Errors
    /// `Damaged` if no frame begins there, or if it does not end by `to`; as for
    /// [`pending`](Self::pending).
    pub fn head<'b>(
        &self,
        (at, to): (u64, u64),
        most: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<FrameHead<'b>> {
        buffer.clear();
        let bytes = (HEADER + most) as u64;
        self.0.ring().append_around(at, bytes.min(self.0.ring().size()), buffer);
        // The bytes at the position are there, and so are those behind it.
        self.0.ensure_readable()?;
        let len = frame::length(buffer, at).filter(|len| *len <= to.saturating_sub(at));
        let (key, is_gap) = frame::key_and_gap(buffer);
        let sum = RawFrame::stated_sum(buffer);
        let (Some(len), Some(sum)) =
            (len.filter(|len| *len >= HEADER as u64 + u64::from(key)), sum)
        else {
            return Err(self.0.damaged());
        };
        let bytes = u32::try_from(len).map_err(|_| self.0.damaged())?;
        let key = buffer.get(HEADER..HEADER + most.min(key as usize)).unwrap_or_default();
        Ok(FrameHead { proof: Proof { bytes, sum }, is_gap, key })
    }

    /// Moves the position past `bytes` that were sent of the [`pending`](Self::pending) ones.
    ///
    /// # Errors
    /// `Lapped` if some of them may have been overwritten before they were sent: the other side's
    /// data is worthless. `NotFound` if the map was dropped, with the same consequence.
    pub fn sent(&mut self, bytes: usize) -> Result<()> {
        self.0.ensure_readable()?;
        self.0.skip(bytes as u64);
        Ok(())
    }

    /// Waits until the stream extends beyond `offset`, but at most for `time`. False if it does
    /// not. For a separate thread that wakes the senders.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped; `Closed`.
    pub fn wait_beyond(&self, offset: u64, time: std::time::Duration) -> Result<bool> {
        self.0.wait_beyond(offset, time)
    }
}
