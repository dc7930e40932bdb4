//! The connection on which an origin of a whole hold names its maps, as they come and go.
//!
//! Invariant: the origin is hostile: it can hold up nothing, and its memory is limited.

use crate::holds::ending::{Ending, wait};
use crate::protocol::catalogue::Entry;
use crate::protocol::inbox::Inbox;
use crate::protocol::secret::Secret;
use crate::protocol::wire::{Broken, HANDSHAKE_FRAME, HANDSHAKE_TIME, Hello, broken};
use crate::protocol::wish::Wish;
use crate::replica::follower::SILENCE;
use crate::replica::greeting::{Greeting, Step, nonce};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The number of bytes that are received at a time.
const RECEIVE: usize = 16 << 10;
/// How long a wait takes, before the end of the handle is noticed at the latest.
const LOOK: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct Catalogue<'a> {
    socket: OwnedFd,
    inbox: Inbox,
    ending: &'a Ending,
    /// The time of the last receipt.
    received: Instant,
}

impl Drop for Catalogue<'_> {
    fn drop(&mut self) {
        // A forked child may have the socket, too: the connection ends all the same. It can only
        // fail because it has ended already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl<'a> Catalogue<'a> {
    /// Introduces the replica, and requests the names.
    ///
    /// # Errors
    /// The fault of the origin, or its refusal; the end of the handle.
    pub(super) fn begin(
        socket: OwnedFd,
        secret: Option<Secret>,
        ending: &'a Ending,
    ) -> Result<Catalogue<'a>, Broken> {
        let mut this =
            Catalogue { socket, inbox: Inbox::default(), ending, received: Instant::now() };
        let by = Instant::now() + HANDSHAKE_TIME;
        let hello = Hello::new(nonce()?).without_identity().with_wish(&Wish::Catalogue);
        let (mut greeting, words) = Greeting::begin(hello, secret);
        this.say(&words)?;
        loop {
            match greeting.next(&mut this.inbox)? {
                Step::More => this.receive_by(by).map_err(|e| greeting.explained(e))?,
                Step::Say(words) => this.say(&words)?,
                Step::Refused(origin) => {
                    return Err(Broken(origin.refusal.map_or_else(String::new, |(_, text)| text)));
                }
                Step::Done(..) => return Ok(this),
            }
        }
    }

    fn receive_by(&mut self, by: Instant) -> Result<(), Broken> {
        if self.ending.is_over() {
            return broken("the replica has ended");
        }
        // Also after the deadline: this process itself may have been stopped.
        if !self.receive(LOOK)? && Instant::now() > by {
            return broken("the origin did not identify itself in time");
        }
        Ok(())
    }

    /// The next messages; waits for them at most for `time`.
    ///
    /// # Errors
    /// The end of the connection, or the fault of a message.
    pub(super) fn next(&mut self, time: Duration) -> Result<Vec<Entry>, Broken> {
        let mut entries = self.entries()?;
        if entries.is_empty() {
            let has_received = self.receive(time)?;
            if !has_received && self.received.elapsed() > SILENCE {
                return broken(format!("the origin has sent nothing for {} s", SILENCE.as_secs()));
            }
            entries = self.entries()?;
        }
        Ok(entries)
    }

    fn entries(&mut self) -> Result<Vec<Entry>, Broken> {
        let mut entries = Vec::new();
        while let Some(frame) = self.inbox.next(HANDSHAKE_FRAME)? {
            match Entry::read(&frame) {
                Some(entry) => entries.push(entry),
                None => {
                    return broken(format!("sent an unexpected frame (code {:#x})", frame.code));
                }
            }
        }
        Ok(entries)
    }

    /// Receives, if bytes come within `time`; whether they did.
    fn receive(&mut self, time: Duration) -> Result<bool, Broken> {
        let mut fds = [
            PollFd::new(&self.ending.descriptor, PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN),
        ];
        wait(&mut fds, time);
        let mut buffer = self.inbox.take();
        buffer.reserve(RECEIVE);
        let spare = rustix::buffer::spare_capacity(&mut buffer);
        let read = recv(&self.socket, spare, RecvFlags::DONTWAIT);
        self.inbox.put(buffer);
        match read {
            Ok((0, _)) => broken("the origin has closed the connection"),
            Ok(_) => {
                self.received = Instant::now();
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => broken(error.to_string()),
        }
    }

    /// Sends a short message at the beginning, when the socket has room for it.
    fn say(&self, mut words: &[u8]) -> Result<(), Broken> {
        while !words.is_empty() {
            match send(&self.socket, words, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(bytes) => words = &words[bytes..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return broken("the origin does not take its bytes"),
                Err(error) => return broken(error.to_string()),
            }
        }
        Ok(())
    }
}
