//! [`Reservation`]: a message that is written in place.
//!
//! The write limit covers the message already, and stays when the reservation is cancelled: the old
//! bytes there may be half overwritten, so no consumer trusts them.

use crate::channel::frame::HEADER;
use crate::channel::producer::Producer;
use crate::channel::raw_bytes::RawBytes;
use crate::error::{ErrorKind, Result};
use std::fmt;

/// Room for a message that only its producer can reach until it is committed. Dropping it sends
/// nothing.
///
/// Bytes that the caller does not write keep the old contents of the ring.
pub struct Reservation<'a> {
    producer: &'a mut Producer,
    len: usize,
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<'a> Reservation<'a> {
    pub(super) fn new(producer: &'a mut Producer, len: usize) -> Reservation<'a> {
        Reservation { producer, len }
    }

    /// The number of reserved bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no bytes are reserved.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the bytes, a multiple of 8. Valid for reads and writes as long as this value.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        let start = self.producer.position() + HEADER;
        RawBytes::new(&self.producer.bound().ring, start, self.len as u64).as_mut_ptr()
    }

    /// Writes `bytes` at the offset `at`.
    ///
    /// # Errors
    /// `TooLarge` if they do not fit; `Closed` if the hold's handle was closed meanwhile, or in a
    /// forked child.
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        self.producer.slot.ensure()?;
        if at.checked_add(bytes.len()).is_none_or(|end| end > self.len) {
            let text = format!(
                "{} bytes at offset {at} exceed the {} reserved bytes",
                bytes.len(),
                self.len
            );
            return Err(self.producer.bound().error(ErrorKind::TooLarge, &text));
        }
        let start = self.producer.position() + HEADER + at as u64;
        self.producer.bound().ring.write(start, bytes);
        Ok(())
    }

    /// Sends the message and returns its sequence number. Does not wait.
    ///
    /// # Errors
    /// `Closed` if the hold's handle was closed meanwhile.
    pub fn commit(self) -> Result<u64> {
        let len = self.len;
        self.commit_first(len)
    }

    /// Sends only the first `len` bytes and returns the sequence number.
    ///
    /// # Errors
    /// `TooLarge` if `len` exceeds the reserved length; `Closed`.
    pub fn commit_first(self, len: usize) -> Result<u64> {
        self.producer.slot.ensure()?;
        if len > self.len {
            let text = format!("expected at most the {} reserved bytes, got {len}", self.len);
            return Err(self.producer.bound().error(ErrorKind::TooLarge, &text));
        }
        Ok(self.producer.send_written(len as u64))
    }
}
