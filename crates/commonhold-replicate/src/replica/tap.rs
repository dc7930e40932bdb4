//! A replica that only reads: it takes an origin's bytes as fast as they come, and discards them.
//!
//! It serves benchmarks of origins, which a thousand real replicas on the same machine would
//! distort. It uses version 2 of the protocol without a secret.

use crate::protocol::inbox::Inbox;
use crate::protocol::introduction::Introduction;
use crate::protocol::secret;
use crate::protocol::wire::{self, Broken, HANDSHAKE_FRAME, Hello, PREFACE, Welcome};
use commonhold::raw::RawFrame;
use commonhold::{Error, ErrorKind, Result};
use commonhold_io::address::Address;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The number of last bytes that are kept.
const KEPT: usize = 4 << 10;
/// The number of bytes that are received at a time during the introduction: bytes of the stream are
/// hardly ever among them.
const GREETING: usize = 256;

/// See the module.
#[derive(Debug)]
pub struct Tap {
    socket: OwnedFd,
    bytes: u64,
    last: Vec<u8>,
}

impl Tap {
    /// Connects as a replica that has nothing; blocks.
    ///
    /// # Errors
    /// Those of connecting; `Invalid` if there is no origin at the other end.
    pub fn connect(origin: &Address, patience: Duration) -> Result<Tap> {
        let socket = origin.connect(patience)?;
        let failed =
            |e: &dyn std::fmt::Display| Error::new(ErrorKind::Io, format!("{origin}: {e}"));
        let nonce = secret::nonce().map_err(|e| failed(&e))?;
        let mut words = wire::preface().to_vec();
        Hello::new(nonce).put(&mut words);
        // A new socket takes these few bytes at once.
        send(&socket, &words, SendFlags::NOSIGNAL).map_err(|e| failed(&e))?;
        let mut inbox = Inbox::default();
        let mut greeted = false;
        loop {
            let mut buffer = inbox.take();
            buffer.reserve(GREETING);
            let spare = rustix::buffer::spare_capacity(&mut buffer);
            let read = recv(&socket, spare, RecvFlags::empty());
            inbox.put(buffer);
            if matches!(read.map_err(|e| failed(&e))?, (0, _)) {
                return Err(failed(&"closed the connection"));
            }
            greeted = greeted || greet(&mut inbox).map_err(|Broken(why)| failed(&why))?;
            if greeted && welcome(&mut inbox).map_err(|Broken(why)| failed(&why))? {
                let bytes = inbox.rest().len() as u64;
                return Ok(Tap { socket, bytes, last: inbox.rest().to_vec() });
            }
        }
    }

    /// The socket, for waiting.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads available bytes, up to the buffer's length. Returns their number, 0 at the end, `None`
    /// if there is nothing now.
    ///
    /// # Errors
    /// Those of the system.
    pub fn drain(&mut self, buffer: &mut [u8]) -> std::io::Result<Option<usize>> {
        match recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((len, _)) => {
                self.bytes += len as u64;
                self.keep(&buffer[..len]);
                Ok(Some(len))
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn keep(&mut self, read: &[u8]) {
        if read.len() >= KEPT {
            self.last.clear();
        }
        self.last.extend_from_slice(&read[read.len().saturating_sub(KEPT)..]);
        let excess = self.last.len().saturating_sub(2 * KEPT);
        self.last.drain(..excess);
    }

    /// The number of bytes read after the introduction.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The offset where the last change ends that was read, if there is one among the last bytes:
    /// everything before it was read completely.
    pub fn offset(&self) -> Option<u64> {
        // Frames begin at multiples of 8 of the connection's bytes, and so does nothing else that
        // has the checksum.
        let mut last = None;
        let mut at = (self.last.len() as u64).wrapping_sub(self.bytes) as usize % 8;
        while let Some(rest) = self.last.get(at..) {
            let len = RawFrame::stated_length(rest).filter(|len| *len <= rest.len());
            match len.and_then(|len| RawFrame::decode(&rest[..len])) {
                Some(frame) => {
                    last = frame.change().map(|change| change.end).or(last);
                    at += len.unwrap_or(8);
                }
                None => at += 8,
            }
        }
        last
    }
}

fn greet(inbox: &mut Inbox) -> std::result::Result<bool, Broken> {
    let whole = wire::check_preface(inbox.rest())?;
    if whole {
        inbox.advance(PREFACE);
    }
    Ok(whole)
}

fn welcome(inbox: &mut Inbox) -> std::result::Result<bool, Broken> {
    while let Some(frame) = inbox.next(HANDSHAKE_FRAME)? {
        match Introduction::read(&frame).map(|origin| origin.refusal) {
            Some(Some((_, text))) => return wire::broken(text),
            Some(None) => {}
            None if Welcome::read(&frame).is_some() => return Ok(true),
            None => return wire::broken("requires a secret"),
        }
    }
    Ok(false)
}
