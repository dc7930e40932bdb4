//! Bytes to be sent, and their addresses.
//!
//! A driver never looks at them: it hands addresses to the kernel. So the bytes may lie in shared
//! memory and change while they are sent. The receiver then gets some mixture, which the protocol
//! has to detect.
//!
//! # Safety
//! Unsafe to implement, because the kernel reads from any address that it gets.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::Arc;

/// Bytes that a driver sends, as two ranges that follow each other: a ring that wraps around, a
/// header and a body. The driver owns them until they come back in
/// [`Done::Sent`](super::Done::Sent).
///
/// # Safety
/// As long as the value lives, wherever it is moved to:
/// 1. the ranges of the last [`parts`](Self::parts) stay mapped and readable, until a method that
///    takes the value mutably;
/// 2. they may be read from any thread.
///
/// Any process may change their contents: no reference to them is ever made.
pub unsafe trait Outgoing: Send + 'static {
    /// The ranges, in the order in which they are sent; the second is often empty. An empty range
    /// may have any address. Must not panic.
    fn parts(&self) -> [libc::iovec; 2];

    /// A part of a file that is sent instead of the ranges; `None` for the ranges. Must not panic.
    fn file(&self) -> Option<FilePart<'_>> {
        None
    }

    /// Whether more bytes follow at once: then TCP may wait with a last packet that is not full.
    fn is_followed(&self) -> bool {
        false
    }
}

/// A part of a file, which the kernel sends from its own cache. If the file ends earlier, a send of
/// the part moves fewer bytes, none in the end.
#[derive(Clone, Copy, Debug)]
pub struct FilePart<'a> {
    /// The file, open for reading.
    pub file: BorrowedFd<'a>,
    /// The offset of the part in bytes.
    pub offset: u64,
    /// The length of the part in bytes.
    pub len: usize,
}

/// Bytes in this process's own memory, shared among any number of sends; some of the bytes may be
/// sent already.
#[derive(Clone, Debug)]
pub struct Bytes {
    bytes: Arc<[u8]>,
    sent: usize,
}

impl Bytes {
    /// The bytes that are still to be sent.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        // `advance` never moves beyond the end.
        &self.bytes[self.sent..]
    }

    /// Notes that `len` more bytes are sent; at most all of them.
    pub fn advance(&mut self, len: usize) {
        self.sent += len.min(self.bytes.len() - self.sent);
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes { bytes: bytes.into(), sent: 0 }
    }
}

impl From<Arc<[u8]>> for Bytes {
    fn from(bytes: Arc<[u8]>) -> Bytes {
        Bytes { bytes, sent: 0 }
    }
}

// SAFETY:
// 1. the bytes live on the heap as long as one `Arc` of them; moving that leaves them where they
//    are;
// 2. the contents of an `Arc` change only through its sole owner: here it never goes out mutably.
unsafe impl Outgoing for Bytes {
    fn parts(&self) -> [libc::iovec; 2] {
        let rest = self.rest();
        let none = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        [libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() }, none]
    }
}
