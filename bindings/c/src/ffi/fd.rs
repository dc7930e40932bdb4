//! File descriptors of the caller's.
//!
//! # Safety
//! A number may be anything: the system knows what it is. Borrowing one is for the time of a call
//! only, during which the caller does not close it; taking one over means that the caller does not
//! use it any more. The header says so.
#![allow(unsafe_code)]

use crate::ffi::invalid;
use commonhold::{Error, ErrorKind, Result};
use std::ffi::c_int;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

/// Another descriptor of the same thing.
///
/// # Errors
/// `Invalid` for a number that is not a descriptor; `Io` if there are no more descriptors.
pub(crate) fn double(fd: c_int) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(invalid(format!("{fd} is not a file descriptor")));
    }
    // SAFETY: see the module; the system rejects a number that is not a descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    borrowed.try_clone_to_owned().map_err(|error| {
        let bad = error.raw_os_error() == Some(9);
        let kind = if bad { ErrorKind::Invalid } else { ErrorKind::Io };
        Error::new(kind, format!("file descriptor {fd}: {error}"))
    })
}

/// Closes one that was taken over.
pub(crate) fn close(fd: c_int) {
    // SAFETY: see the module. `double` has shown that it is one.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}
