//! A connection to an origin of a whole hold, until it is passed to the origin of a map, or for as
//! long as it gets the catalogue.
//!
//! Invariant: before the peer has identified itself, nothing is sent that depends on the maps.

use crate::holds::feed::Feed;
use crate::holds::served_maps::ServedMaps;
use crate::origin::handshake::{Greeted, Handshake, unexpected};
use crate::origin::limits::SendDeadline;
use crate::protocol::inbox::Inbox;
use crate::protocol::introduction::{Introduction, Lineage, Refusal};
use crate::protocol::secret::{Secret, Side};
use crate::protocol::wire::{Broken, HANDSHAKE_FRAME, HANDSHAKE_TIME, Welcome, broken};
use commonhold::map::MapMode;
use commonhold::stream::StreamPosition;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// The number of bytes that are received at a time.
const RECEIVE: usize = 1 << 10;

/// See the module.
pub(super) struct Peer {
    pub(super) socket: OwnedFd,
    /// The address or the process at the other end.
    pub(super) name: String,
    pub(super) inbox: Inbox,
    /// The bytes that the socket has not taken yet.
    pub(super) words: Vec<u8>,
    /// The time by which the socket must have taken them.
    sending: Option<SendDeadline>,
    stage: Stage,
}

enum Stage {
    /// It has to identify itself by then.
    Joining(Handshake, Instant),
    /// It is sent the reason.
    Refused(String, Instant),
    Catalogue(Feed),
}

impl Peer {
    pub(super) fn new(socket: OwnedFd, name: String) -> Peer {
        let stage = Stage::Joining(Handshake::Preface, Instant::now() + HANDSHAKE_TIME);
        let (inbox, words) = (Inbox::default(), Vec::new());
        Peer { socket, name, inbox, words, sending: None, stage }
    }

    /// The events for which it gets its turn.
    pub(super) fn wanted(&self) -> PollFlags {
        let out = if self.words.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        PollFlags::IN | out
    }

    /// Whether it has not identified itself yet, or is refused.
    pub(super) fn is_joining(&self) -> bool {
        !matches!(self.stage, Stage::Catalogue(_))
    }

    /// Receives, and returns the peer's introduction once it has identified itself.
    ///
    /// # Errors
    /// The fault of the bytes; the end of the connection.
    pub(super) fn receive(&mut self, secret: Option<&Secret>) -> Result<Option<Greeted>, Broken> {
        let mut buffer = self.inbox.take();
        buffer.reserve(RECEIVE);
        let spare = rustix::buffer::spare_capacity(&mut buffer);
        let read = recv(&self.socket, spare, RecvFlags::DONTWAIT);
        self.inbox.put(buffer);
        match read {
            Ok((0, _)) => return broken("has gone"),
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return broken(error.to_string()),
        }
        match &mut self.stage {
            Stage::Joining(handshake, _) => {
                handshake.advance(&mut self.inbox, secret, &mut self.words)
            }
            _ => self.ensure_silent().map(|()| None),
        }
    }

    /// A peer that has identified itself sends nothing more.
    fn ensure_silent(&mut self) -> Result<(), Broken> {
        match self.inbox.next(HANDSHAKE_FRAME)? {
            Some(frame) => unexpected(frame.code),
            None => Ok(()),
        }
    }

    /// Sends it the reason why it is not served; it is disconnected afterwards.
    pub(super) fn refuse(&mut self, text: String) {
        let mut origin = Introduction::new(Lineage::default());
        origin.refusal = Some((Refusal::NotServed, text.clone()));
        origin.put(&mut self.words);
        self.stage = Stage::Refused(format!("refused: {text}"), Instant::now() + HANDSHAKE_TIME);
    }

    /// Sends it the catalogue from now on.
    ///
    /// # Errors
    /// It has sent more already.
    pub(super) fn begin_catalogue(
        &mut self,
        greeted: &Greeted,
        secret: Option<&Secret>,
        hold: String,
    ) -> Result<(), Broken> {
        self.ensure_silent()?;
        let origin = Introduction::new(Lineage { hold, ..Lineage::default() });
        origin.put(&mut self.words);
        let Greeted { hello, challenge } = greeted;
        let prove = |secret: &Secret| secret.prove(Side::Origin(&origin.value()), challenge, hello);
        let welcome = Welcome {
            proof: secret.map(prove).unwrap_or_default(),
            position: StreamPosition { stream: 0, offset: 0 },
            whole: true,
            mode: MapMode::General,
            name: String::new(),
        };
        welcome.put(&mut self.words);
        self.stage = Stage::Catalogue(Feed::new(Instant::now()));
        Ok(())
    }

    /// Sends it the changes of the catalogue.
    pub(super) fn inform(&mut self, maps: &ServedMaps, now: Instant) {
        if let Stage::Catalogue(feed) = &mut self.stage {
            feed.fill(&mut self.words, |version| maps.names_unless(version), now);
        }
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// The end of the connection; the refusal, when it was sent.
    pub(super) fn send(&mut self, now: Instant) -> Result<(), Broken> {
        while !self.words.is_empty() {
            let deadline = self.sending.unwrap_or(SendDeadline::new(now, self.words.len()));
            self.sending = Some(deadline);
            match send(&self.socket, &self.words, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(bytes) => {
                    self.words.drain(..bytes);
                    self.sending = Some(deadline.progressed(now));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return broken(error.to_string()),
            }
        }
        self.sending = None;
        match &self.stage {
            Stage::Refused(why, _) => broken(why.clone()),
            _ => Ok(()),
        }
    }

    /// Checks its deadlines.
    ///
    /// # Errors
    /// It has missed one.
    pub(super) fn ensure_in_time(&self, now: Instant) -> Result<(), Broken> {
        match &self.stage {
            Stage::Joining(_, by) if now > *by => broken("did not identify itself in time"),
            Stage::Refused(why, by) if now > *by => broken(why.clone()),
            _ if self.sending.is_some_and(|deadline| deadline.is_over(now, false)) => {
                broken("does not take its bytes, or takes them too slowly")
            }
            _ => Ok(()),
        }
    }
}
