//! Ends another thread's wait: an eventfd that the driver watches along with its sockets.
//!
//! It counts, but only whether it is zero matters. So several wakings before the driver looks are
//! one.

use commonhold::fault;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Makes a driver's [`wait`](super::Driver::wait) return [`Done::Woken`](super::Done::Woken), now
/// or when it is next called. Keeps one descriptor open until its last clone is dropped, also if
/// the driver is dropped earlier.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// # Errors
    /// Those of `eventfd`: no descriptors or no memory.
    pub(super) fn new() -> io::Result<Waker> {
        fault!("event.eventfd")?;
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker(Arc::new(fd)))
    }

    /// Wakes the driver. Never blocks; has no effect if the driver was dropped. The woken thread
    /// sees everything that this thread wrote before.
    pub fn wake(&self) {
        // It can only fail because the counter is at its end: then it is not zero.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &1u64.to_ne_bytes()));
    }

    /// Clears the waking.
    pub(super) fn clear(&self) {
        // It can only fail because there was no waking.
        let _ = rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut [0; 8]));
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
