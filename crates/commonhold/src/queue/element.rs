//! [`Element`]: one element in flight.
//!
//! # Safety
//! An element's bytes lie at its place in the block, which [`Layout`](crate::queue::layout::Layout)
//! proved to lie in the mapping. They are only copied, by copies that may race: a misbehaving
//! process garbles bytes and does no other harm.
#![allow(unsafe_code)]

use crate::error::{Error, ErrorKind, Result};
use crate::memory::copy;
use crate::queue::handle::Queue;
use crate::sync::robust_lock::Peers;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

/// One element in flight in this process, which alone may access the bytes until it pushes the
/// element.
///
/// Pushing consumes the element. **An element that is dropped without being pushed goes to the
/// orphan queue**, like the elements of a process that died. It usually goes at once. If a
/// stopped process keeps that queue locked, it goes when this process next waits for elements or
/// drops some, and at the latest when this process closes the hold. In a forked child, the element
/// still belongs to the parent: dropping it there has no effect, and every operation on it fails.
pub struct Element<'q> {
    bytes: Bytes<'q>,
    /// The element was pushed, and this value is about to be forgotten.
    is_gone: AtomicBool,
}

/// The bytes of an element in flight.
#[derive(Clone, Copy)]
pub struct Bytes<'q> {
    queue: &'q Queue,
    id: u32,
    owner: u32,
}

impl fmt::Debug for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.fmt(f)
    }
}

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Element").field("queue", &self.queue.name()).field("id", &self.id).finish()
    }
}

impl<'q> std::ops::Deref for Element<'q> {
    type Target = Bytes<'q>;
    fn deref(&self) -> &Bytes<'q> {
        &self.bytes
    }
}

impl<'q> Bytes<'q> {
    pub(crate) fn new(queue: &'q Queue, id: u32, owner: u32) -> Bytes<'q> {
        Bytes { queue, id, owner }
    }

    /// The element's number, less than the number of elements. It is the same in every process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The length of the element in bytes.
    #[allow(clippy::len_without_is_empty)] // It has at least one.
    pub fn len(&self) -> usize {
        self.queue.layout().element_bytes as usize
    }

    /// Fills `out` with the bytes from position `at` on.
    ///
    /// # Errors
    /// `Invalid` beyond the end, or in a forked child; `Closed`; `NotFound` if the queue was
    /// dropped.
    pub fn read(&self, at: usize, out: &mut [u8]) -> Result<()> {
        let mut copied = Vec::new();
        self.append(at, out.len(), &mut copied)?;
        out.copy_from_slice(&copied);
        Ok(())
    }

    /// Returns a copy of all bytes.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut copied = Vec::new();
        self.append(0, self.len(), &mut copied)?;
        Ok(copied)
    }

    fn append(&self, at: usize, len: usize, out: &mut Vec<u8>) -> Result<()> {
        self.within(at, len, |from| {
            // SAFETY: `len` bytes at `from` lie in the mapping.
            unsafe { copy::append(from, len, out) }
        })
    }

    /// Writes bytes from position `at` on.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        self.within(at, bytes.len(), |to| {
            // SAFETY: `bytes.len()` bytes at `to` lie in the mapping, and the element is ours.
            unsafe { copy::write(to, bytes) }
        })
    }

    fn within(&self, at: usize, len: usize, act: impl FnOnce(*mut u8)) -> Result<()> {
        if at.checked_add(len).is_none_or(|end| end > self.len()) {
            let text = format!(
                "queue '{}': its elements have {} bytes, but {len} bytes at {at} exceed that",
                self.queue.name(),
                self.len()
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        // The element stays ours while the operation runs, because closing the hold waits for it.
        let lane = self.queue.enter()?;
        if lane.me().bits() != self.owner {
            let text = format!(
                "queue '{}': the element is in flight in the process that forked this one",
                self.queue.name()
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let offset = self.queue.layout().payload(self.id) + at as u64;
        act(self.queue.space().at(offset, len as u64));
        Ok(())
    }

    /// The address of the bytes in this process, for access without copying. It has
    /// [`len`](Self::len) bytes. It is aligned to a cache line if there are 64 bytes or more, and
    /// otherwise to a multiple of 8.
    ///
    /// Use it only while the element is in flight: not after the element was pushed or dropped, not
    /// after the hold was closed, and not in a forked child. A process that breaks this rule races
    /// with the element's next owner.
    pub fn as_ptr(&self) -> *mut u8 {
        self.queue.space().at(self.queue.layout().payload(self.id), self.len() as u64)
    }
}

impl<'q> Element<'q> {
    pub(crate) fn new(queue: &'q Queue, id: u32, owner: u32) -> Element<'q> {
        Element { bytes: Bytes::new(queue, id, owner), is_gone: AtomicBool::new(false) }
    }

    /// Returns the element's number and its owner. [`Queue::element`] makes the element from them
    /// again, once. Until then it stays in flight.
    #[inline]
    pub fn into_raw(self) -> (u32, u32) {
        let Bytes { queue, id, owner } = self.bytes;
        self.forget();
        queue.in_flight().numbers().give_away(id, owner);
        (id, owner)
    }

    #[inline]
    pub(crate) fn queue(&self) -> &'q Queue {
        self.bytes.queue
    }

    #[inline]
    pub(crate) fn owner(&self) -> u32 {
        self.bytes.owner
    }

    /// The element was pushed: dropping this value has no effect any more.
    #[inline]
    pub(crate) fn leave(&self) {
        // Relaxed: only this thread uses it.
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// Ends this value without dropping the element.
    #[inline]
    pub(crate) fn forget(self) {
        let _ = ManuallyDrop::new(self);
    }
}

impl Drop for Element<'_> {
    fn drop(&mut self) {
        if !*self.is_gone.get_mut() {
            self.bytes.queue.release(&[self.bytes.id], self.bytes.owner);
        }
    }
}
