//! The bytes that an origin sends: its own messages, or bytes straight from the memory of a stream.
//!
//! # Safety
//! [`RingBytes`] keeps the memory mapped that it points to, and points to no other memory as long
//! as it lives; [`Bytes`] makes the same promise.
#![allow(unsafe_code)]

use commonhold::raw::RingBytes;
use commonhold_io::sockets::{Bytes, Outgoing};

/// Bytes on their way to a replica.
pub(crate) enum Payload {
    /// A message of the origin.
    Words(Bytes),
    /// Bytes of the stream.
    Stream(RingBytes),
}

// SAFETY: the ranges are those of the two kinds, which stay readable as long as the values in them
// live, from any thread.
unsafe impl Outgoing for Payload {
    fn parts(&self) -> [libc::iovec; 2] {
        match self {
            Payload::Words(bytes) => bytes.parts(),
            Payload::Stream(bytes) => bytes
                .parts()
                .map(|(at, len)| libc::iovec { iov_base: at.cast_mut().cast(), iov_len: len }),
        }
    }
}
