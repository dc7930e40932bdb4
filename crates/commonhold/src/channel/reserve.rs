//! [`Reservation`]: a message that is written where it lies.
//!
//! The write limit covers it already, and stays when it is cancelled: what lay there may be half
//! overwritten, and nobody believes it.

use crate::channel::frame::HEADER;
use crate::channel::producer::Producer;
use crate::channel::raw_bytes::RawBytes;
use crate::error::{ErrorKind, Result};
use std::fmt;

/// Room for a message that only its producer can reach until it is committed. Dropping it sends
/// nothing.
///
/// What is not written is whatever lay there before.
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

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the bytes lie, at an address that is a multiple of 8. Valid for reads and writes as
    /// long as this value.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        let start = self.producer.position() + HEADER;
        RawBytes::new(&self.producer.bound().ring, start, self.len as u64).as_mut_ptr()
    }

    /// Writes `bytes` behind the first `at` ones.
    ///
    /// # Errors
    /// `TooLarge` if they do not fit.
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        if at.checked_add(bytes.len()).is_none_or(|end| end > self.len) {
            let text =
                format!("{} bytes at {at} do not fit into the {} reserved", bytes.len(), self.len);
            return Err(self.producer.bound().error(ErrorKind::TooLarge, &text));
        }
        let start = self.producer.position() + HEADER + at as u64;
        self.producer.bound().ring.write(start, bytes);
        Ok(())
    }

    /// Sends the message; returns its number.
    ///
    /// # Errors
    /// `Closed` if the hold's handle was closed meanwhile.
    pub fn commit(self) -> Result<u64> {
        let len = self.len;
        self.commit_first(len)
    }

    /// Sends only the first `len` bytes.
    ///
    /// # Errors
    /// `TooLarge` if more than were reserved; `Closed`.
    pub fn commit_first(self, len: usize) -> Result<u64> {
        self.producer.slot.ensure()?;
        if len > self.len {
            let text = format!("cannot send {len} bytes of {} reserved", self.len);
            return Err(self.producer.bound().error(ErrorKind::TooLarge, &text));
        }
        Ok(self.producer.send_written(len as u64))
    }
}
