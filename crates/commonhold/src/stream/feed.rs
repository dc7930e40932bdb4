//! A stream as bytes to be sent on, straight from its memory, without a copy.
//!
//! What lies in a ring may be overwritten at any moment, also while the system reads it for a socket. So whoever sends says
//! afterwards how much was sent, and is told then if any of it had been overwritten: those bytes are worth nothing, and
//! because they cannot be called back, neither is the connection.
//!
//! # Safety
//! [`RingBytes`] points into a mapping that the arena keeps, and it keeps the arena. It never gives out a reference to
//! what it points to.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::memory::arena::Arena;
use crate::memory::copy;
use crate::stream::follow::Follower;
use crate::stream::position::StreamPosition;
use std::sync::Arc;

/// Sends a stream on, byte by byte: frames as they are, from where a [`Follower`] was.
#[derive(Debug)]
pub struct Feed(Follower);

/// Bytes in the memory of a stream, as two pieces, the second of which may be empty. They stay readable as long as this
/// value lives, and may change at any time.
pub struct RingBytes {
    parts: [(*const u8, usize); 2],
    _arena: Arc<Arena>,
}

// SAFETY: the pointers are only handed on; what they point to is shared by nature and stays mapped.
unsafe impl Send for RingBytes {}
// SAFETY: as above.
unsafe impl Sync for RingBytes {}

impl RingBytes {
    /// Where they are. Reading them as a slice would be undefined behaviour, because other processes may be writing them: they are
    /// for the system (`sendmsg`, `writev`, io_uring) or for racing copies.
    pub fn parts(&self) -> [(*const u8, usize); 2] {
        self.parts
    }

    /// Copies them behind what is in `out`. What was copied is worth something only if [`Feed::sent`] says so afterwards.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        for (at, len) in self.parts {
            // SAFETY: `len` bytes at `at` are in the ring, which stays mapped; the copy may race with a writer.
            unsafe { copy::append(at, len, out) };
        }
    }

    /// How many there are.
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

    /// How far it has sent. Not always where a frame begins.
    pub fn position(&self) -> StreamPosition {
        self.0.position()
    }

    /// Where the stream ends at this moment, which is where a frame ends.
    pub fn tail(&self) -> u64 {
        self.0.tail()
    }

    /// Where the stream ends for who has read the map: every change that was seen in it before this call lies before
    /// that. `None` while a change is being made; never waits. As long as it is a dead one's, until somebody settles it
    /// ([`Hold::sweep`](crate::Hold::sweep) does).
    ///
    /// # Errors
    /// Those of a writing operation; `NotFound` if the map was dropped.
    pub fn try_end(&self) -> Result<Option<u64>> {
        self.0.try_end()
    }

    /// What is to be sent next, up to the offset `to` at most and no more than `most` bytes; `None` if there is nothing.
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

    /// Goes behind `bytes` that were sent of what was [`pending`](Self::pending).
    ///
    /// # Errors
    /// `Lapped` if some of them may have been overwritten before they were sent: what the other side has is worth nothing. `NotFound`
    /// if the map was dropped: likewise.
    pub fn sent(&mut self, bytes: usize) -> Result<()> {
        self.0.ensure_readable()?;
        self.0.skip(bytes as u64);
        Ok(())
    }

    /// Waits until the stream reaches beyond `offset`, at most so long; false if it did not. For a thread of its own that wakes those who
    /// send.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped; `Closed`.
    pub fn wait_beyond(&self, offset: u64, time: std::time::Duration) -> Result<bool> {
        self.0.wait_beyond(offset, time)
    }
}
