//! An eventfd: a counter in the kernel that `poll` can wait for.
//!
//! # Safety
//! Unsafe only to create the descriptor; it is owned from then on.
#![allow(unsafe_code)]

use crate::steps::fault;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

/// Readable from a signal until it is cleared. Neither call blocks.
#[derive(Debug)]
pub(crate) struct EventFd(File);

impl EventFd {
    pub(crate) fn new() -> io::Result<EventFd> {
        fault!("os.eventfd")?;
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(EventFd(unsafe { File::from_raw_fd(fd) }))
    }

    /// Makes the descriptor readable.
    pub(crate) fn signal(&self) {
        // It can only fail because the counter is at its maximum: then it is readable.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable.
    pub(crate) fn clear(&self) {
        // It can only fail because it was not signalled.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
