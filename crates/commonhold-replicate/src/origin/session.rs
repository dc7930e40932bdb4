//! One replica as its origin sees it: its introduction, then what it gets and how far it has come.
//!
//! It does no I/O itself: the bytes come and go through a driver (`serve`). Memory per replica: its
//! received bytes, at most a kilobyte before and after it is known, and one piece of the full sync
//! in flight ([`crate::delivery`]).

use crate::delivery::Delivery;
use crate::lineage;
use crate::origin::acks::Ack;
use crate::origin::handshake::{Greeted, Handshake, unexpected};
use crate::origin::limits::{FREE_BYTES, PairBytes, SendDeadline};
use crate::origin::serve::MOMENT;
use crate::origin::start;
use crate::origin::subscriber_table::{Known, SubscriberTable};
use crate::origin_clock::OriginClock;
use crate::protocol::inbox::Inbox;
use crate::protocol::introduction::{Introduction, Lineage, Refusal};
use crate::protocol::packed::SyncBytes;
use crate::protocol::payload::Payload;
use crate::protocol::secret::Side;
use crate::protocol::wire::{
    self, Applied, Broken, HANDSHAKE_FRAME, HANDSHAKE_TIME, Hello, Welcome, broken, capability,
    code,
};
use crate::protocol::wish::Wish;
use commonhold::map::{Map, MapMode};
use commonhold::raw::{MapIdentity, is_unready, map_identity};
use commonhold::stream::StreamPosition;
use commonhold::{Error, ErrorKind};
use commonhold_io::sockets::Bytes;
use commonhold_io::thread_patience::with_patience;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
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
    /// Its own name, once it has identified itself.
    pub(crate) name: OnceLock<Arc<str>>,
    /// The prefix of the keys that it wants, for people; `None` for all keys.
    pub(crate) prefix: OnceLock<Option<String>>,
    state: AtomicU8,
    pub(crate) sent: AtomicU64,
    pub(crate) applied: AtomicU64,
    /// Bytes of the pairs of a full sync, and the same on the wire.
    pub(crate) sync_bytes: [AtomicU64; 2],
}

impl Subscriber {
    pub(crate) fn new(peer: String) -> Subscriber {
        let (sent, applied) = (AtomicU64::new(0), AtomicU64::new(0));
        let (since, name, state) = (Instant::now(), OnceLock::new(), AtomicU8::new(0));
        let (prefix, sync_bytes) = Default::default();
        Subscriber { peer, since, name, prefix, state, sent, applied, sync_bytes }
    }

    pub(crate) fn state(&self) -> ReplicaState {
        match self.state.load(Ordering::Relaxed) {
            0 => ReplicaState::Joining,
            1 => ReplicaState::Syncing,
            _ => ReplicaState::Following,
        }
    }
}

/// The reports of a replica about itself.
#[derive(Default)]
struct Reports {
    /// The origin's map.
    of: MapIdentity,
    /// The number of its connection.
    session: u64,
    /// The number and the name of its map. Without them no process can wait for the replica.
    identity: Option<(u64, Arc<str>)>,
    /// The last report.
    applied: Option<Applied>,
    /// The offset that its last [`Ack`] had.
    noted: Option<u64>,
    /// The report that is to be noted in the hold.
    due: Option<Ack>,
}

impl Reports {
    /// Notes the position up to which its readers see everything; `None` if it has nothing.
    fn reaches(&mut self, position: Option<StreamPosition>, resumes: bool) {
        if let Some((node, name)) = &self.identity {
            self.noted = position.map(|position| position.offset);
            let resumes = resumes || self.due.as_ref().is_some_and(|due| due.resumes);
            let (of, node, name, session) = (self.of, *node, Arc::clone(name), self.session);
            self.due = Some(Ack { of, node, session, name, position, resumes });
        }
    }

    /// Compares its last report with the position up to which it was sent everything: a report may
    /// come before the driver reports that the bytes were sent.
    fn compare(&mut self, sent: StreamPosition, subscriber: &Subscriber) {
        let Some(applied) = self.applied else { return };
        let offset = applied.offset.min(sent.offset);
        subscriber.applied.fetch_max(offset, Ordering::Relaxed);
        if applied.visible && self.noted.is_none_or(|noted| noted < offset) {
            self.reaches(Some(StreamPosition { offset, ..sent }), false);
        }
    }
}

enum Stage {
    Joining(Handshake),
    Known(Box<Delivery>),
    /// It was sent the reason.
    Refused(String),
}

/// See the module.
pub(crate) struct Session {
    pub(crate) inbox: Inbox,
    /// Whether the connection may carry compressed blocks, if the replica allows it too.
    may_pack: bool,
    stage: Stage,
    /// Messages to send before anything else.
    words: Vec<u8>,
    /// A send is outstanding, until then at the latest.
    sending: Option<SendDeadline>,
    /// Its bytes of pairs, which count for all peers together.
    held: usize,
    /// The end of the connection was sent.
    pub(crate) finished: bool,
    /// The line about its joining, until the log has it.
    joined: Option<String>,
    reports: Reports,
    /// The time of the last receipt.
    pub(crate) received_at: Option<Instant>,
    pub(crate) id: u64,
    deadline: Instant,
}

impl Session {
    pub(crate) fn new(id: u64, may_pack: bool) -> Session {
        Session {
            inbox: Inbox::default(),
            may_pack,
            stage: Stage::Joining(Handshake::Preface),
            words: Vec::new(),
            sending: None,
            held: 0,
            finished: false,
            joined: None,
            reports: Reports { session: id, ..Reports::default() },
            received_at: None,
            id,
            deadline: Instant::now() + HANDSHAKE_TIME,
        }
    }

    /// True if it has not identified itself in time.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        !self.is_known() && now > self.deadline
    }

    /// True while a send is outstanding.
    pub(crate) fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// True if it does not take its bytes.
    pub(crate) fn is_stuck(&self, all: &PairBytes, now: Instant) -> bool {
        let presses = self.held > 0 && !all.has_room();
        self.sending.is_some_and(|deadline| deadline.is_over(now, presses))
    }

    /// Notes that a payload is being sent; returns the number of its bytes.
    pub(crate) fn begin_send(&mut self, payload: &Payload, all: &PairBytes, now: Instant) -> usize {
        let bytes = match payload {
            Payload::Words(words) => {
                let bytes = words.rest().len();
                self.held = if bytes > FREE_BYTES { bytes } else { 0 };
                all.take(self.held);
                bytes
            }
            Payload::Stream(ring) => ring.len(),
        };
        self.sending = Some(SendDeadline::new(now, bytes));
        bytes
    }

    /// Notes that the system has taken a part of the payload.
    pub(crate) fn progress_send(&mut self, now: Instant) {
        self.sending = self.sending.map(|deadline| deadline.progressed(now));
    }

    /// Notes that no send is outstanding.
    pub(crate) fn end_send(&mut self, all: &PairBytes) {
        all.give_back(std::mem::take(&mut self.held));
        self.sending = None;
    }

    /// The line about its joining, for the log; returned once.
    pub(crate) fn take_joined(&mut self) -> Option<String> {
        self.joined.take()
    }

    /// The report that is to be noted in the hold; returned once.
    pub(crate) fn take_ack(&mut self) -> Option<Ack> {
        self.reports.due.take()
    }

    /// The position that it has reached, for the log, if it had joined.
    pub(crate) fn left(&self, subscriber: &Subscriber) -> Option<String> {
        let Stage::Known(delivery) = &self.stage else { return None };
        let at = delivery.position();
        let applied = subscriber.applied.load(Ordering::Relaxed);
        let offset = if delivery.is_unproved() { at.offset } else { applied };
        Some(format!("left at {}: ", StreamPosition { offset, ..at }))
    }

    /// The offset from which on it needs the stream, if it needs the stream now.
    pub(crate) fn offset(&self) -> Option<u64> {
        match &self.stage {
            Stage::Known(delivery) => delivery.offset(),
            _ => None,
        }
    }

    /// Whether it has identified itself.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.stage, Stage::Known(_))
    }

    /// When it has something to send although the stream does not grow.
    pub(crate) fn due(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Known(delivery) => delivery.due(),
            _ => None,
        }
    }

    /// The work of passing over unwanted pairs since the last call, as bytes.
    pub(crate) fn take_passed(&mut self) -> usize {
        match &mut self.stage {
            Stage::Known(delivery) => delivery.take_passed(),
            _ => 0,
        }
    }

    /// True if its next bytes are pairs of a full sync, or changes from the journal.
    pub(crate) fn is_next_bulk(&self) -> bool {
        matches!(&self.stage, Stage::Known(delivery) if delivery.is_next_bulk())
            && self.words.is_empty()
    }

    /// True if it waits only for the position from which on its map equals the origin's.
    pub(crate) fn waits_for_end(&self) -> bool {
        let Stage::Known(delivery) = &self.stage else { return false };
        delivery.is_end_due() && !delivery.is_syncing() && delivery.offset().is_some()
    }

    /// True if it does not know yet from which position on its map equals the origin's.
    pub(crate) fn is_end_due(&self) -> bool {
        matches!(&self.stage, Stage::Known(delivery) if delivery.is_end_due())
    }

    /// Processes the received bytes.
    ///
    /// # Errors
    /// The fault of the bytes; that it has no place.
    pub(crate) fn received(
        &mut self,
        table: &SubscriberTable,
        subscriber: &Subscriber,
    ) -> Result<(), Broken> {
        if let Stage::Joining(handshake) = &mut self.stage {
            let secret = table.options.secret.as_ref();
            match handshake.advance(&mut self.inbox, secret, &mut self.words)? {
                Some(greeted) => self.join(table, &greeted, subscriber)?,
                None => return Ok(()),
            }
        }
        while let Some(frame) = self.inbox.next(HANDSHAKE_FRAME)? {
            match &self.stage {
                Stage::Known(delivery) if frame.code == code::APPLIED => {
                    self.reports.applied = Applied::read(&frame);
                    if !delivery.is_unproved() {
                        self.reports.compare(delivery.position(), subscriber);
                    }
                }
                _ => return unexpected(frame.code),
            }
        }
        Ok(())
    }

    /// Begins with a replica that has identified itself before.
    ///
    /// # Errors
    /// As for [`received`](Self::received).
    pub(crate) fn begin_known(
        &mut self,
        known: Known,
        table: &SubscriberTable,
        subscriber: &Subscriber,
    ) -> Result<(), Broken> {
        (self.inbox, self.words) = (known.inbox, known.words);
        self.join(table, &known.greeted, subscriber)?;
        self.received(table, subscriber)
    }

    fn join(
        &mut self,
        table: &SubscriberTable,
        greeted: &Greeted,
        subscriber: &Subscriber,
    ) -> Result<(), Broken> {
        match table.has_place() {
            true => self.welcome(table, greeted, subscriber),
            false => broken(NO_PLACE),
        }
    }

    fn welcome(
        &mut self,
        table: &SubscriberTable,
        Greeted { hello, challenge }: &Greeted,
        subscriber: &Subscriber,
    ) -> Result<(), Broken> {
        let (map, prefix) = (&table.map(), hello.prefix()?);
        let lineage = with_patience(MOMENT, || lineage::of_origin(&table.hold, &table.name));
        let mut origin = match lineage {
            Ok(lineage) => Introduction::new(lineage),
            Err(error) if error.kind() == ErrorKind::Mismatch => partial(&error),
            Err(error) => return Err(over(error)),
        };
        origin.refusal = origin.refusal.or_else(|| refusal(map, hello, &origin.lineage));
        if let Some((_, text)) = &origin.refusal {
            origin.put(&mut self.words);
            self.stage = Stage::Refused(format!("refused: {text}"));
            return Ok(());
        }
        let (hold, of) = (table.hold.clone(), map.clone());
        let delivery =
            start::delivery(table, self.id, map, hello, &origin.lineage).map_err(over)?;
        let catches_up = delivery.offset().is_none();
        let delivery = delivery.with_time(move || lineage::as_of_ms(&hold, &of));
        let mut delivery = delivery.with_prefix(map, prefix.clone());
        let expires = hello.capabilities & capability::EXPIRY != 0;
        if expires {
            let clock = OriginClock::of(&table.hold, map);
            origin.clock_ms = clock.now_ms(&table.hold);
            delivery = delivery.with_expiry(map, clock);
        }
        if self.may_pack {
            origin.capabilities |= capability::PACKED;
        }
        if origin.capabilities & hello.capabilities & capability::PACKED != 0 {
            delivery = delivery.with_packing();
        }
        origin.proof = match catches_up {
            // The journal is compared with it.
            true => hello.proof,
            false => start::proof(table, map, delivery.position()).map_err(over)?,
        };
        origin.put(&mut self.words);
        let mode = match map.options().mode() {
            // Eviction is up to the origin, and so are the removals of expired pairs.
            MapMode::Cache { ttl_ms, .. } if expires => wire::cache(ttl_ms),
            MapMode::Cache { .. } => MapMode::General,
            mode => mode,
        };
        let secret = table.options.secret.as_ref();
        let proof =
            secret.map(|secret| secret.prove(Side::Origin(&origin.value()), challenge, hello));
        let welcome = Welcome {
            proof: proof.unwrap_or_default(),
            position: delivery.position(),
            whole: delivery.is_syncing(),
            mode,
            name: map.name().to_owned(),
        };
        welcome.put(&mut self.words);
        let how = match (welcome.whole, catches_up) {
            (true, _) => "receives the whole map",
            (false, true) => "catches up from the journal",
            (false, false) => "resumes",
        };
        let why = delivery.too_small().map_or(String::new(), |error| {
            format!("; changes may be too large for the stream: {error}")
        });
        let of = if prefix.is_of_all() { String::new() } else { format!(", {prefix}") };
        self.joined = Some(format!("joined at {}: {how}{of}{why}", welcome.position));
        let known = subscriber.prefix.set(prefix.shown());
        debug_assert!(known.is_ok(), "welcomed twice");
        self.identify(table, hello, subscriber);
        self.reports.of = map_identity(map);
        match welcome.whole || delivery.is_unproved() {
            // Its map may be another one than before.
            true => self.reports.reaches(None, true),
            false => {
                subscriber.applied.fetch_max(welcome.position.offset, Ordering::Relaxed);
                self.reports.reaches(Some(welcome.position), true);
            }
        }
        self.stage = Stage::Known(Box::new(delivery));
        self.publish(subscriber);
        Ok(())
    }

    fn identify(&mut self, table: &SubscriberTable, hello: &Hello, subscriber: &Subscriber) {
        if let Some((node, name)) = hello.identity() {
            table.has_connected(node, self.id);
            let name = Arc::<str>::from(name);
            self.reports.identity = Some((node, Arc::clone(&name)));
            let known = subscriber.name.set(name);
            debug_assert!(known.is_ok(), "welcomed twice");
        }
    }

    /// The next bytes to send, and of the stream none beyond `limit`; `None` if there is nothing
    /// now. Without `has_room`, no further pairs.
    ///
    /// # Errors
    /// The replica has to begin again.
    pub(crate) fn next(
        &mut self,
        limit: Option<StreamPosition>,
        now: Instant,
        has_room: bool,
    ) -> Result<Option<Payload>, Broken> {
        if !self.words.is_empty() {
            return Ok(Some(Payload::Words(Bytes::from(std::mem::take(&mut self.words)))));
        }
        match &mut self.stage {
            Stage::Known(delivery) => delivery.next(limit, now, has_room).map_err(over),
            Stage::Refused(why) => broken(why.clone()),
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

    fn publish(&mut self, subscriber: &Subscriber) {
        if let Stage::Known(delivery) = &self.stage {
            let state = match delivery.is_syncing() {
                true => ReplicaState::Syncing,
                false => ReplicaState::Following,
            };
            subscriber.state.store(state as u8, Ordering::Relaxed);
            subscriber.sent.store(delivery.position().offset, Ordering::Relaxed);
            let SyncBytes { pairs, wire } = delivery.sync_bytes();
            for (shown, bytes) in subscriber.sync_bytes.iter().zip([pairs, wire]) {
                shown.store(bytes, Ordering::Relaxed);
            }
            if !delivery.is_unproved() {
                self.reports.compare(delivery.position(), subscriber);
            }
        }
    }
}

/// The introduction of an origin whose map has not all keys: it refuses every replica.
fn partial(error: &Error) -> Introduction {
    let refusal = Some((Refusal::NotServed, error.to_string()));
    Introduction { refusal, ..Introduction::new(Lineage::default()) }
}

/// Why the replica is not served, and the same for people.
fn refusal(map: &Map, hello: &Hello, own: &Lineage) -> Option<(Refusal, String)> {
    let (id, epoch) = hello.lineage;
    let unwanted = match hello.wish() {
        Some(Wish::Map(name)) if name != map.name() => Some(format!("not the map '{name}'")),
        Some(Wish::Catalogue) => Some("not the maps of a whole hold".to_owned()),
        _ => None,
    };
    if let Some(unwanted) = unwanted {
        let name = map.name();
        let text = format!(
            "serves only the map '{name}', {unwanted}: follow the map '{name}', or start an origin \
             of the whole hold ('hold origin HOLD' without a map)"
        );
        return Some((Refusal::NotServed, text));
    }
    if is_unready(map) {
        let text = "has not received the map from its own origin yet".to_owned();
        return Some((Refusal::Unready, text));
    }
    if id == own.id && epoch > own.epoch {
        let text = format!(
            "is an origin of epoch {}, and the replica has seen epoch {epoch}: another copy of the \
             map was promoted or restored meanwhile; drop this map, and make it a replica of that one",
            own.epoch
        );
        return Some((Refusal::Old, text));
    }
    let end = map.follow().ok()?.position();
    let behind = |at: StreamPosition| at.stream == end.stream && at.offset > end.offset;
    if map.is_replica() && id == own.id && hello.position.is_some_and(behind) {
        let text = "is a relay that is behind this replica: wait until it has caught up, follow \
                    another origin, or accept its older contents with --adopt \
                    (ReplicaOptions::adopt)"
            .to_owned();
        return Some((Refusal::Behind, text));
    }
    None
}

/// Why a peer that may join is refused.
pub(crate) const NO_PLACE: &str = "refused: the maximum number of replicas is connected";

fn over(error: Error) -> Broken {
    Broken(error.to_string())
}
