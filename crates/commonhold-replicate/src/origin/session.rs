//! One replica as its origin sees it: its introduction, then what it gets and how far it has come.
//!
//! It does no I/O itself: the bytes come and go through a driver (`serve`). Memory per replica: its
//! received bytes, at most a kilobyte before and after it is known, and one piece of the full sync
//! in flight ([`crate::delivery`]).

use crate::delivery::Delivery;
use crate::protocol::inbox::Inbox;
use crate::protocol::payload::Payload;
use crate::protocol::secret::{self, Secret, Side};
use crate::protocol::wire::{
    self, Broken, HANDSHAKE_FRAME, HANDSHAKE_TIME, Hello, NONCE, PREFACE, Welcome, broken, code,
};
use commonhold::map::{Map, MapMode, MapOptions};
use commonhold::stream::StreamPosition;
use commonhold_io::sockets::Bytes;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

/// The progress of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum ReplicaState {
    /// It has not identified itself yet.
    Joining = 0,
    /// It gets the whole map, and the changes that come meanwhile.
    Syncing = 1,
    /// It gets the changes.
    Following = 2,
}

/// The public state of a replica, kept up to date by the thread that serves it.
pub(crate) struct Subscriber {
    pub(crate) peer: String,
    pub(crate) since: Instant,
    state: AtomicU8,
    pub(crate) sent: AtomicU64,
    pub(crate) applied: AtomicU64,
}

impl Subscriber {
    pub(crate) fn new(peer: String) -> Subscriber {
        let (sent, applied) = (AtomicU64::new(0), AtomicU64::new(0));
        Subscriber { peer, since: Instant::now(), state: AtomicU8::new(0), sent, applied }
    }

    pub(crate) fn state(&self) -> ReplicaState {
        match self.state.load(Ordering::Relaxed) {
            0 => ReplicaState::Joining,
            1 => ReplicaState::Syncing,
            _ => ReplicaState::Following,
        }
    }
}

enum Stage {
    Preface,
    Hello,
    Proof { hello: Hello, challenge: [u8; NONCE] },
    Known(Box<Delivery>),
}

/// See the module.
pub(crate) struct Session {
    pub(crate) inbox: Inbox,
    stage: Stage,
    /// Messages to send before anything else.
    words: Vec<u8>,
    /// A send is outstanding.
    pub(crate) sending: bool,
    /// The end of the connection was sent.
    pub(crate) finished: bool,
    /// The line about its joining, until the log has it.
    joined: Option<String>,
    pub(crate) id: u64,
    deadline: Instant,
}

impl Session {
    pub(crate) fn new(id: u64) -> Session {
        Session {
            inbox: Inbox::default(),
            stage: Stage::Preface,
            words: Vec::new(),
            sending: false,
            finished: false,
            joined: None,
            id,
            deadline: Instant::now() + HANDSHAKE_TIME,
        }
    }

    /// True if it has not identified itself in time.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        !matches!(self.stage, Stage::Known(_)) && now > self.deadline
    }

    /// The line about its joining, for the log; returned once.
    pub(crate) fn take_joined(&mut self) -> Option<String> {
        self.joined.take()
    }

    /// The position that it has reached, for the log, if it had joined.
    pub(crate) fn left(&self, subscriber: &Subscriber) -> Option<String> {
        let Stage::Known(delivery) = &self.stage else { return None };
        let offset = subscriber.applied.load(Ordering::Relaxed);
        Some(format!("left at {}: ", StreamPosition { offset, ..delivery.position() }))
    }

    /// The offset up to which it was sent everything, if it is being sent anything.
    pub(crate) fn offset(&self) -> Option<u64> {
        match &self.stage {
            Stage::Known(delivery) => Some(delivery.position().offset),
            _ => None,
        }
    }

    /// True if it does not know yet from which position on its map equals the origin's.
    pub(crate) fn is_end_due(&self) -> bool {
        matches!(&self.stage, Stage::Known(delivery) if delivery.is_end_due())
    }

    /// Processes the received bytes.
    ///
    /// # Errors
    /// The fault of the bytes.
    pub(crate) fn received(
        &mut self,
        map: &Map,
        secret: Option<&Secret>,
        subscriber: &Subscriber,
    ) -> Result<(), Broken> {
        if matches!(self.stage, Stage::Preface) {
            if !wire::check_preface(self.inbox.rest())? {
                return Ok(());
            }
            self.inbox.advance(PREFACE);
            self.stage = Stage::Hello;
        }
        while let Some(frame) = self.inbox.next(HANDSHAKE_FRAME)? {
            match &self.stage {
                Stage::Known(_) if frame.code == code::APPLIED => {
                    let sent = subscriber.sent.load(Ordering::Relaxed);
                    subscriber.applied.fetch_max(frame.offset.min(sent), Ordering::Relaxed);
                }
                Stage::Hello => {
                    let Some(hello) = Hello::read(&frame) else { return unexpected(frame.code) };
                    self.greet(map, secret, hello, subscriber)?;
                }
                Stage::Proof { hello, challenge } if frame.code == code::PROOF => {
                    let right = secret.is_some_and(|secret| {
                        secret.is_proof(Side::Replica, challenge, hello, frame.key)
                    });
                    if !right {
                        return broken("does not know the secret");
                    }
                    let (hello, challenge) = (hello.clone(), *challenge);
                    self.welcome(map, secret, &hello, &challenge, subscriber)?;
                }
                _ => return unexpected(frame.code),
            }
        }
        Ok(())
    }

    fn greet(
        &mut self,
        map: &Map,
        secret: Option<&Secret>,
        hello: Hello,
        subscriber: &Subscriber,
    ) -> Result<(), Broken> {
        self.words.extend_from_slice(&wire::preface());
        if secret.is_none() {
            return self.welcome(map, None, &hello, &[0; NONCE], subscriber);
        }
        let challenge = secret::nonce().map_err(|e| Broken(format!("no random numbers: {e}")))?;
        wire::put_challenge(&mut self.words, &challenge);
        self.stage = Stage::Proof { hello, challenge };
        Ok(())
    }

    fn welcome(
        &mut self,
        map: &Map,
        secret: Option<&Secret>,
        hello: &Hello,
        challenge: &[u8; NONCE],
        subscriber: &Subscriber,
    ) -> Result<(), Broken> {
        let delivery = Delivery::begin(map, hello.position).map_err(over)?;
        let mode = match map.options().mode() {
            mode @ MapMode::Fixed { .. } => mode,
            // Expiry and eviction are up to the origin.
            _ => MapOptions::general().mode(),
        };
        let proof = secret.map(|secret| secret.prove(Side::Origin, challenge, hello));
        let welcome = Welcome {
            proof: proof.unwrap_or_default(),
            position: delivery.position(),
            whole: delivery.is_syncing(),
            mode,
            name: map.name().to_owned(),
        };
        welcome.put(&mut self.words);
        let how = if welcome.whole { "receives the whole map" } else { "resumes" };
        self.joined = Some(format!("joined at {}: {how}", welcome.position));
        if !welcome.whole {
            subscriber.applied.fetch_max(welcome.position.offset, Ordering::Relaxed);
        }
        self.stage = Stage::Known(Box::new(delivery));
        self.publish(subscriber);
        Ok(())
    }

    /// The next bytes to send, and of the stream none beyond `limit`; `None` if there is nothing
    /// now.
    ///
    /// # Errors
    /// The replica has to begin again.
    pub(crate) fn next(
        &mut self,
        limit: Option<StreamPosition>,
        now: Instant,
    ) -> Result<Option<Payload>, Broken> {
        if !self.words.is_empty() {
            return Ok(Some(Payload::Words(Bytes::from(std::mem::take(&mut self.words)))));
        }
        match &mut self.stage {
            Stage::Known(delivery) => delivery.next(limit, now).map_err(over),
            _ => Ok(None),
        }
    }

    /// Checks a replica that has not taken its bytes.
    ///
    /// # Errors
    /// The stream no longer has the bytes that it needs.
    pub(crate) fn ensure_kept(&self) -> Result<(), Broken> {
        match &self.stage {
            Stage::Known(delivery) if !self.finished => delivery.ensure_kept().map_err(over),
            _ => Ok(()),
        }
    }

    /// Takes a payload back, of which the system took `bytes` bytes; returns the part that is still
    /// to be sent.
    ///
    /// # Errors
    /// The replica has to begin again.
    pub(crate) fn sent(
        &mut self,
        payload: Payload,
        bytes: usize,
        subscriber: &Subscriber,
    ) -> Result<Option<Payload>, Broken> {
        let rest = match payload {
            Payload::Words(mut words) => {
                words.advance(bytes);
                (!words.rest().is_empty()).then_some(Payload::Words(words))
            }
            Payload::Stream(ring) => {
                // The rest may have changed: it is fetched again.
                drop(ring);
                if let Stage::Known(delivery) = &mut self.stage {
                    delivery.sent(bytes).map_err(over)?;
                }
                None
            }
        };
        self.publish(subscriber);
        Ok(rest)
    }

    fn publish(&self, subscriber: &Subscriber) {
        if let Stage::Known(delivery) = &self.stage {
            let state = match delivery.is_syncing() {
                true => ReplicaState::Syncing,
                false => ReplicaState::Following,
            };
            subscriber.state.store(state as u8, Ordering::Relaxed);
            subscriber.sent.store(delivery.position().offset, Ordering::Relaxed);
        }
    }
}

fn over(error: commonhold::Error) -> Broken {
    Broken(error.to_string())
}

fn unexpected<T>(code: u32) -> Result<T, Broken> {
    broken(format!("sent an unexpected frame (code {code:#x})"))
}
