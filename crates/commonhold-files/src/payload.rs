//! The bytes that a file server sends: a head that it made, kept contents of a file, or a part of a
//! file itself.
//!
//! # Safety
//! The bytes belong to the value: they are on the heap, are never changed, and stay at their
//! address when the value is moved.
//! when it is moved.
#![allow(unsafe_code)]

use super::stamp::Stamp;
use commonhold_io::sockets::{FilePart, Outgoing};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

/// Contents of a file, in the form of a cache; they do not change while the value lives.
#[derive(Clone, Debug)]
pub enum Contents {
    /// An own copy.
    Own(Vec<u8>),
    /// Shared with the cache.
    Shared(Arc<Box<[u8]>>),
}

impl Contents {
    /// The same contents, which a clone shares instead of copying.
    pub(crate) fn into_shared(self) -> Contents {
        match self {
            Contents::Own(bytes) => Contents::Shared(Arc::new(bytes.into_boxed_slice())),
            shared => shared,
        }
    }
}

impl AsRef<[u8]> for Contents {
    fn as_ref(&self) -> &[u8] {
        match self {
            Contents::Own(bytes) => bytes,
            Contents::Shared(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Contents {
    fn from(bytes: Vec<u8>) -> Contents {
        Contents::Own(bytes)
    }
}

impl From<Arc<Box<[u8]>>> for Contents {
    fn from(bytes: Arc<Box<[u8]>>) -> Contents {
        Contents::Shared(bytes)
    }
}

/// The part of a file that is sent directly.
#[derive(Debug)]
struct Part {
    file: Arc<OwnedFd>,
    /// The version of the file.
    stamp: Stamp,
    offset: u64,
}

/// Bytes for a client: `head`, then a range of contents; or a part of a file.
#[derive(Debug)]
pub(crate) struct Payload {
    head: Vec<u8>,
    contents: Option<Contents>,
    /// The range of the contents.
    range: Range<usize>,
    file: Option<Part>,
    /// Bytes left of head and range, or of the file's part.
    left: u64,
    /// Bytes sent of head and range.
    sent: usize,
    followed: bool,
}

impl Payload {
    /// Bytes that the server made.
    pub(crate) fn words(head: Vec<u8>) -> Payload {
        let left = head.len() as u64;
        Payload { head, contents: None, range: 0..0, file: None, left, sent: 0, followed: false }
    }

    /// Bytes that the server made, then a range of contents, clipped at their end.
    pub(crate) fn contents(head: Vec<u8>, contents: Contents, range: Range<usize>) -> Payload {
        let end = range.end.min(contents.as_ref().len());
        let range = range.start.min(end)..end;
        let left = (head.len() + range.len()) as u64;
        let contents = Some(contents);
        Payload { head, contents, range, file: None, left, sent: 0, followed: false }
    }

    /// `len` bytes of a file of this version, from `offset` on.
    pub(crate) fn file(file: Arc<OwnedFd>, stamp: Stamp, offset: u64, len: u64) -> Payload {
        let mut payload = Payload::words(Vec::new());
        (payload.file, payload.left) = (Some(Part { file, stamp, offset }), len);
        payload
    }

    /// Whether it is of a file that was written to since: the bytes sent may be of several
    /// versions.
    pub(crate) fn is_mixed(&self) -> bool {
        let has_changed = |part: &Part| {
            !Stamp::of_open(&part.file).is_ok_and(|now| now.has_contents_of(&part.stamp))
        };
        self.file.as_ref().is_some_and(has_changed)
    }

    /// The same payload, which another one follows at once.
    pub(crate) fn followed(mut self) -> Payload {
        self.followed = true;
        self
    }

    /// Whether nothing is left to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Notes that `len` more bytes are sent; returns how many are left.
    pub(crate) fn advance(&mut self, len: usize) -> u64 {
        self.left = self.left.saturating_sub(len as u64);
        self.sent += len;
        if let Some(part) = &mut self.file {
            part.offset += len as u64;
        }
        self.left
    }

    /// The contents, for another use of their memory.
    pub(crate) fn into_contents(self) -> Option<Contents> {
        self.contents
    }
}

fn part(bytes: &[u8], sent: usize) -> libc::iovec {
    let rest = bytes.get(sent..).unwrap_or_default();
    match rest.is_empty() {
        true => libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 },
        false => libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() },
    }
}

// SAFETY: both ranges are of vectors and `Arc`s that the value owns and never changes while it is
// lent; moving it leaves them where they are on the heap. They may be read from any thread, for no
// code writes them.
unsafe impl Outgoing for Payload {
    fn parts(&self) -> [libc::iovec; 2] {
        let body = self.contents.as_ref().map_or(&[][..], |c| &c.as_ref()[self.range.clone()]);
        [part(&self.head, self.sent), part(body, self.sent.saturating_sub(self.head.len()))]
    }

    fn file(&self) -> Option<FilePart<'_>> {
        let part = self.file.as_ref()?;
        let len = usize::try_from(self.left).unwrap_or(usize::MAX);
        Some(FilePart { file: part.file.as_fd(), offset: part.offset, len })
    }

    fn is_followed(&self) -> bool {
        self.followed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(payload: &Payload) -> [usize; 2] {
        payload.parts().map(|part| part.iov_len)
    }

    #[test]
    fn the_rest_of_a_payload_shrinks_from_the_front() {
        let contents = Contents::from(Arc::new(Box::<[u8]>::from(&b"0123456789"[..])));
        let mut payload = Payload::contents(b"head".to_vec(), contents, 2..8);
        assert_eq!(lens(&payload), [4, 6]);
        assert_eq!(payload.advance(3), 7);
        assert_eq!(lens(&payload), [1, 6]);
        assert_eq!(payload.advance(3), 4);
        assert_eq!(lens(&payload), [0, 4]);
        assert_eq!(payload.advance(4), 0);
        assert_eq!(lens(&payload), [0, 0]);
    }

    #[test]
    fn ranges_beyond_the_end_are_cut() {
        let payload = Payload::contents(Vec::new(), Contents::Own(vec![1; 5]), 3..9);
        assert_eq!(lens(&payload), [0, 2]);
        let payload = Payload::contents(Vec::new(), Contents::Own(vec![1; 5]), 7..9);
        assert_eq!(lens(&payload), [0, 0]);
    }
}
