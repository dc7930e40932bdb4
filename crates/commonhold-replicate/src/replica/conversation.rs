//! One connection of a replica to its origin: the introduction of both, then the origin's messages
//! until the end.
//!
//! Invariant: a peer that has not identified itself in time is not an origin, and an origin that
//! reads nothing holds up no replica.

use crate::protocol::inbox::Inbox;
use crate::protocol::introduction::Introduction;
use crate::protocol::wire::{
    Applied, Broken, HANDSHAKE_TIME, Hello, NONCE, Welcome, broken, capability,
};
use crate::replica::ReplicaEvents;
use crate::replica::follower::{Follower, LOOK, Shown, poll_for};
use crate::replica::greeting::{Greeting, Step, nonce};
use commonhold::{fault, shortened};
use commonhold_io::fault_errno::errno;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// The number of bytes that are received at a time.
const RECEIVE: usize = 256 << 10;
/// How often the origin gets the replica's position while changes come: processes may wait for it.
const REPORT_EVERY: Duration = Duration::from_micros(250);
/// The same while readers do not see the position, because a map is being built.
const REPORT_UNSEEN_EVERY: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct Conversation<'a, E> {
    follower: &'a mut Follower<E>,
    socket: OwnedFd,
    inbox: Inbox,
    /// The time of the last report, or of the beginning; `None` if the next one is due.
    reported: Option<Instant>,
    /// The last report.
    report: Option<Applied>,
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
        let (report, unsent, deadline) = (None, Vec::new(), Some(now + HANDSHAKE_TIME));
        let mut this =
            Conversation { follower, socket, inbox, reported: Some(now), report, unsent, deadline };
        this.follower.intake.look().map_err(|e| Broken(e.to_string()))?;
        let (origin, welcome) = this.introduce()?;
        this.deadline = None;
        let adopt = std::mem::take(&mut this.follower.options.adopt);
        if let Err(error) = this.follower.intake.pin.meet(&origin, adopt) {
            this.follower.options.adopt = adopt;
            return Err(error);
        }
        this.follower.intake.begin(&welcome, &origin)?;
        this.follower.shared.update(|status| {
            status.connected = true;
            status.connections += 1;
            status.synchronisations += u64::from(welcome.whole);
        });
        Ok(this)
    }

    fn hello(&self, nonce: [u8; NONCE]) -> Hello {
        let (intake, options) = (&self.follower.intake, &self.follower.options);
        let hello = match self.follower.counts {
            true => Hello::new(nonce).with_identity(intake.pin.node(), &options.name),
            false => Hello::new(nonce).without_identity(),
        };
        let mut hello = hello.with_wish(&self.follower.wish).with_prefix(intake.pin.prefix());
        if options.compression.allows(self.socket.as_fd()) {
            hello.capabilities |= capability::PACKED;
        }
        if options.adopt {
            return hello;
        }
        let (position, proof, lineage) = (intake.position(), intake.proof(), intake.pin.lineage());
        Hello { position, proof, lineage, ..hello }
    }

    /// Sends its own introduction and proof, and checks the origin's.
    fn introduce(&mut self) -> std::result::Result<(Introduction, Welcome), Broken> {
        let (hello, secret) = (self.hello(nonce()?), self.follower.options.secret.clone());
        let (mut greeting, words) = Greeting::begin(hello, secret);
        self.say(&words)?;
        loop {
            match greeting.next(&mut self.inbox)? {
                Step::More => self.receive_in_time().map_err(|e| greeting.explained(e))?,
                Step::Say(words) => self.say(&words)?,
                Step::Refused(origin) => self.follower.intake.pin.meet(&origin, false)?,
                Step::Done(origin, welcome) => return Ok((origin, welcome)),
            }
        }
    }

    /// Like [`receive`](Self::receive), where the end of the replica is an error.
    fn receive_in_time(&mut self) -> std::result::Result<(), Broken> {
        if self.receive()? { Ok(()) } else { broken("the replica has ended") }
    }

    /// Applies messages until the connection ends, or the replica.
    pub(super) fn run(&mut self) -> std::result::Result<(), Broken> {
        loop {
            self.apply_all()?;
            self.tell()?;
            self.follower.report(false);
            if !self.receive()? {
                // No later report follows.
                self.reported = None;
                return self.tell();
            }
        }
    }

    fn apply_all(&mut self) -> std::result::Result<(), Broken> {
        let failed = |e: commonhold::Error| Broken(e.to_string());
        let (follower, inbox) = (&mut *self.follower, &mut self.inbox);
        follower.intake.announce(inbox.changes()).map_err(failed)?;
        let mut applied = Shown::default();
        let result = loop {
            let (frame, sum) = match inbox.next_with_sum(usize::MAX) {
                Ok(Some(frame)) => frame,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let was_visible = follower.intake.is_visible();
            if let Err(error) = follower.apply(&frame, sum, &mut applied) {
                break Err(error);
            }
            if follower.intake.is_visible() && !was_visible {
                follower.intake.announce(inbox.changes()).map_err(failed)?;
            }
        };
        follower.intake.save_position().map_err(failed)?;
        follower.grow_younger().map_err(failed)?;
        let (position, tail) = (follower.intake.position(), follower.tail);
        let offset = follower.intake.offset();
        let synced = follower.intake.take_sync_bytes();
        follower.shared.update(|status| {
            status.ready |= position.is_some();
            status.position = position;
            status.changes += applied.changes;
            status.bytes += applied.bytes;
            status.sync_bytes += synced.pairs;
            status.sync_wire_bytes += synced.wire;
            status.lag_bytes = tail.saturating_sub(offset);
            let mean = status.bytes / status.changes.max(1);
            status.lag_messages = status.lag_bytes / mean.max(40);
        });
        result
    }

    /// How far the replica has applied, and how long the report of that waits; `None` if the origin
    /// has got that report.
    fn next_report(&self) -> Option<(Applied, Duration)> {
        let intake = &self.follower.intake;
        let (offset, visible) = (intake.offset(), intake.position().is_some());
        let next = Applied { offset, visible };
        let every = if visible { REPORT_EVERY } else { REPORT_UNSEEN_EVERY };
        let wait = self.reported.map_or(Duration::ZERO, |at| every.saturating_sub(at.elapsed()));
        (self.report != Some(next)).then_some((next, wait))
    }

    /// Sends the replica's position, if that is due.
    fn tell(&mut self) -> std::result::Result<(), Broken> {
        if self.unsent.is_empty() {
            let Some((next, Duration::ZERO)) = self.next_report() else { return Ok(()) };
            (self.reported, self.report) = (Some(Instant::now()), Some(next));
            next.put(&mut self.unsent);
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

    /// The time until a report is due, or until it checks for other work.
    fn next_look(&self) -> Duration {
        // Not before both sides know each other, and not while the origin reads nothing.
        match self.next_report() {
            Some((_, wait)) if self.deadline.is_none() && self.unsent.is_empty() => wait.min(LOOK),
            _ => LOOK,
        }
    }

    /// Waits until the socket is ready or broken; false if the replica has to end.
    fn wait(&mut self, wanted: PollFlags) -> std::result::Result<bool, Broken> {
        loop {
            let mut fds = [
                PollFd::new(&self.follower.shared.end, PollFlags::IN),
                PollFd::new(&self.socket, wanted),
            ];
            let waited = poll_for(&mut fds, self.next_look());
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
    fn receive(&mut self) -> std::result::Result<bool, Broken> {
        if !self.wait(PollFlags::IN)? {
            return Ok(false);
        }
        self.follower.shared.note_message();
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
