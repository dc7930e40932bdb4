//! Bytes that are to be sent, and where they stand.
//!
//! A driver never looks at them: it hands addresses to the kernel. So they may stand in shared
//! memory and change while they are sent; the receiver then gets some mixture, and it is for the
//! protocol to tell.
//!
//! # Safety
//! Unsafe to implement, because the kernel reads wherever it is told to.
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
/// Their contents may change, by whomever: no reference to them is ever made.
pub unsafe trait Outgoing: Send + 'static {
    /// The ranges, in the order in which they are sent; the second is often empty. A range that is
    /// empty may have any address. Must not panic.
    fn parts(&self) -> [libc::iovec; 2];

    /// A part of a file that is sent instead of the ranges; `None` for the ranges. Must not panic.
    fn file(&self) -> Option<FilePart<'_>> {
        None
    }

    /// Whether more will be sent at once: then TCP may wait with a last packet that is not full.
    fn is_followed(&self) -> bool {
        false
    }
}

/// A part of a file, which the kernel sends from where it keeps it. If the file ends earlier, a
/// send of it moves fewer bytes, none in the end.
#[derive(Clone, Copy, Debug)]
pub struct FilePart<'a> {
    /// The file, open for reading.
    pub file: BorrowedFd<'a>,
    /// Where the part begins, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub len: usize,
}

/// Bytes in this process's own memory, shared among as many sends as one likes, of which some may
/// be sent already.
#[derive(Clone, Debug)]
pub struct Bytes {
    bytes: Arc<[u8]>,
    sent: usize,
}

impl Bytes {
    /// What is still to be sent.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        // `advance` never goes further than the end.
        &self.bytes[self.sent..]
    }

    /// Notes that `len` more bytes are sent; at most all.
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
// 2. nobody changes what an `Arc` shares, short of having it alone: here it never goes out mutably.
unsafe impl Outgoing for Bytes {
    fn parts(&self) -> [libc::iovec; 2] {
        let rest = self.rest();
        let none = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        [libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() }, none]
    }
}
