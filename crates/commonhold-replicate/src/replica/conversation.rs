//! One connection of a replica to its origin: the introduction of both, then the origin's messages
//! until the end.
//!
//! Invariant: a peer that has not identified itself in time is not an origin, and an origin that
//! reads nothing holds up no replica.

use crate::protocol::inbox::Inbox;
use crate::protocol::secret::{self, Side};
use crate::protocol::wire::{
    self, Broken, HANDSHAKE_FRAME, HANDSHAKE_TIME, Hello, NONCE, PREFACE, Welcome, broken, code,
};
use crate::replica::ReplicaEvents;
use crate::replica::follower::{Applied, Follower, LOOK, poll_for};
use commonhold::{fault, shortened};
use commonhold_io::fault_errno::errno;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The number of bytes that are received at a time.
const RECEIVE: usize = 256 << 10;
/// How often the origin gets the replica's position, while messages come.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct Conversation<'a, E> {
    follower: &'a mut Follower<E>,
    socket: OwnedFd,
    inbox: Inbox,
    reported: Instant,
    reported_offset: u64,
    /// The bytes of messages that the socket has not taken yet.
    unsent: Vec<u8>,
    /// The time by which the origin has to identify itself; `None` once it has.
    deadline: Option<Instant>,
}

impl<E> Drop for Conversation<'_, E> {
    fn drop(&mut self) {
        // A forked child may have the socket, too: the connection ends all the same. It can only
        // fail because it has ended already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

impl<'a, E: ReplicaEvents> Conversation<'a, E> {
    /// Introduces the replica, and begins with the origin's announcement.
    pub(super) fn begin(
        follower: &'a mut Follower<E>,
        socket: OwnedFd,
    ) -> std::result::Result<Conversation<'a, E>, Broken> {
        let inbox = Inbox::default();
        let now = Instant::now();
        let (reported_offset, unsent, deadline) = (0, Vec::new(), Some(now + HANDSHAKE_TIME));
        let mut this = Conversation {
            follower,
            socket,
            inbox,
            reported: now,
            reported_offset,
            unsent,
            deadline,
        };
        this.follower.intake.look().map_err(|e| Broken(e.to_string()))?;
        let nonce = secret::nonce().map_err(|e| Broken(format!("no random numbers: {e}")))?;
        let hello = Hello { nonce, position: this.follower.intake.position() };
        let mut words = wire::preface().to_vec();
        hello.put(&mut words);
        this.say(&words)?;
        while !wire::check_preface(this.inbox.rest())? {
            this.hear_in_time()?;
        }
        this.inbox.advance(PREFACE);
        let welcome = this.introduce(&hello)?;
        this.deadline = None;
        this.follower.intake.begin(&welcome)?;
        this.follower.shared.update(|status| {
            status.connected = true;
            status.connections += 1;
            status.synchronisations += u64::from(welcome.whole);
        });
        Ok(this)
    }

    /// Sends its own proof, and checks the origin's.
    fn introduce(&mut self, hello: &Hello) -> std::result::Result<Welcome, Broken> {
        let mut challenge = None::<[u8; NONCE]>;
        loop {
            let secret = self.follower.options.secret.clone();
            if let Some(frame) = self.inbox.next(HANDSHAKE_FRAME)? {
                if let Some(welcome) = Welcome::read(&frame) {
                    let proved = match (&secret, challenge) {
                        (Some(secret), Some(challenge)) => {
                            secret.is_proof(Side::Origin, &challenge, hello, &welcome.proof)
                        }
                        (Some(_), None) => false,
                        (None, _) => true,
                    };
                    return if proved {
                        Ok(welcome)
                    } else {
                        broken("the origin does not know the secret")
                    };
                }
                let nonce = <[u8; NONCE]>::try_from(frame.key).ok();
                let asked = nonce.filter(|_| frame.code == code::CHALLENGE && challenge.is_none());
                let (Some(nonce), Some(secret)) = (asked, &secret) else {
                    return broken(match asked {
                        Some(_) => "the origin requires a secret, but this replica has none",
                        None => "the origin sent an unexpected frame",
                    });
                };
                challenge = Some(nonce);
                let mut words = Vec::new();
                wire::put_proof(&mut words, &secret.prove(Side::Replica, &nonce, hello));
                self.say(&words)?;
                // More may have come already.
                continue;
            }
            self.hear_in_time().map_err(|Broken(why)| match challenge {
                Some(_) => Broken(format!("{why}; check that both sides have the same secret")),
                None => Broken(why),
            })?;
        }
    }

    /// Like [`hear`](Self::hear), where the end of the replica is an error.
    fn hear_in_time(&mut self) -> std::result::Result<(), Broken> {
        if self.hear()? { Ok(()) } else { broken("the replica has ended") }
    }

    /// Applies messages until the connection ends, or the replica.
    pub(super) fn run(&mut self) -> std::result::Result<(), Broken> {
        loop {
            self.apply_all()?;
            self.tell()?;
            self.follower.report(false);
            if !self.hear()? {
                return Ok(());
            }
        }
    }

    fn apply_all(&mut self) -> std::result::Result<(), Broken> {
        let failed = |e: commonhold::Error| Broken(e.to_string());
        let (follower, inbox) = (&mut *self.follower, &mut self.inbox);
        follower.intake.announce(inbox.change_bytes()).map_err(failed)?;
        let mut applied = Applied::default();
        let result = loop {
            let frame = match inbox.next(usize::MAX) {
                Ok(Some(frame)) => frame,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let was_visible = follower.intake.is_visible();
            if let Err(error) = follower.apply(&frame, &mut applied) {
                break Err(error);
            }
            if follower.intake.is_visible() && !was_visible {
                follower.intake.announce(inbox.change_bytes()).map_err(failed)?;
            }
        };
        follower.intake.save_position().map_err(failed)?;
        let (position, tail) = (follower.intake.position(), follower.tail);
        let offset = follower.intake.offset();
        follower.shared.update(|status| {
            status.ready |= position.is_some();
            status.position = position;
            status.changes += applied.changes;
            status.bytes += applied.bytes;
            status.lag_bytes = tail.saturating_sub(offset);
            let mean = status.bytes / status.changes.max(1);
            status.lag_messages = status.lag_bytes / mean.max(40);
        });
        result
    }

    /// Sends the replica's position, now and then.
    fn tell(&mut self) -> std::result::Result<(), Broken> {
        let offset = self.follower.intake.offset();
        if self.unsent.is_empty() {
            if offset == self.reported_offset || self.reported.elapsed() < REPORT_EVERY {
                return Ok(());
            }
            (self.reported, self.reported_offset) = (Instant::now(), offset);
            wire::put_applied(&mut self.unsent, offset);
        }
        // An origin that reads nothing must not hold up the replica. After an error the same bytes
        // are sent again, so that no half message is sent: the connection may have ended, which
        // receiving detects behind the bytes that came before.
        if let Ok(bytes) = self.send(&self.unsent) {
            self.unsent.drain(..bytes);
        }
        Ok(())
    }

    /// Sends all of the message.
    fn say(&mut self, mut words: &[u8]) -> std::result::Result<(), Broken> {
        while !words.is_empty() {
            match self.send(words) {
                Ok(bytes) => words = &words[bytes..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.wait(PollFlags::OUT)? => {}
                Err(Errno::AGAIN) => return broken("the replica has ended"),
                Err(error) => return broken(error.to_string()),
            }
        }
        Ok(())
    }

    fn send(&self, words: &[u8]) -> rustix::io::Result<usize> {
        let words = &words[..shortened!("replica.send-bytes", words.len())];
        errno(fault!("replica.send"))?;
        send(&self.socket, words, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    /// Waits until the socket is ready or broken; false if the replica has to end.
    fn wait(&mut self, wanted: PollFlags) -> std::result::Result<bool, Broken> {
        loop {
            let mut fds = [
                PollFd::new(&self.follower.shared.end, PollFlags::IN),
                PollFd::new(&self.socket, wanted),
            ];
            let waited = poll_for(&mut fds, LOOK);
            let ready = fds[1].revents();
            if self.follower.shared.is_to_end() {
                return Ok(false);
            }
            waited.map_err(|error| Broken(error.to_string()))?;
            // Also after the deadline: this process itself may have been stopped.
            if ready.intersects(wanted | PollFlags::HUP | PollFlags::ERR) {
                return Ok(true);
            }
            if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return broken("the origin did not identify itself in time");
            }
            if self.deadline.is_some() {
                // No message is due yet.
                self.follower.report(false);
            } else {
                self.follower.silent()?;
                self.tell()?;
            }
        }
    }

    /// Waits for more bytes, and receives them; false if the replica has to end.
    fn hear(&mut self) -> std::result::Result<bool, Broken> {
        if !self.wait(PollFlags::IN)? {
            return Ok(false);
        }
        self.follower.shared.hear();
        let mut buffer = self.inbox.take();
        buffer.reserve(shortened!("replica.receive-bytes", RECEIVE));
        let read = errno(fault!("replica.receive")).and_then(|()| {
            let spare = rustix::buffer::spare_capacity(&mut buffer);
            rustix::net::recv(&self.socket, spare, rustix::net::RecvFlags::DONTWAIT)
        });
        self.inbox.put(buffer);
        match read {
            Ok((0, _)) => broken("the origin has closed the connection"),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(error) => broken(error.to_string()),
        }
    }
}
