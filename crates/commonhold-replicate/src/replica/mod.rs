//! The reading side: keeps a map of this machine equal to an origin's map.

pub(crate) mod connecting;
mod conversation;
pub(crate) mod follower;
pub(crate) mod greeting;
mod intake;
mod pin;
pub(crate) mod position;
mod regain;
pub(crate) mod tap;

use crate::compression::Compression;
use crate::protocol::key_prefix::KeyPrefix;
use crate::protocol::secret::Secret;
use crate::protocol::wire::now_ms;
use crate::protocol::wish::Wish;
use crate::replica::follower::{Follower, Source};
use crate::replica::intake::Intake;
use commonhold::raw::check_replica_name;
use commonhold::stream::{StreamFrame, StreamPosition};
use commonhold::{Error, ErrorKind, Hold, Result, fault};
use commonhold_io::address::Address;
use commonhold_io::callback_gate::CallbackGate;
use commonhold_io::owned_threads::{JOIN_TIMEOUT, OwnedThreads};
use commonhold_io::reports::Reporter;
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An origin without a message for this long is silent: it sends the time twice a second.
const SILENT: Duration = Duration::from_secs(1);

/// Callbacks for the events of a replica. The replica's thread calls them, so a slow callback holds
/// up the replica. A callback must not wait for the replica.
pub trait ReplicaEvents: Send {
    /// A change was applied. Not called for the changes of a first or new synchronisation, which is
    /// one step, see [`ready`](Self::ready).
    fn changed(&mut self, _change: &StreamFrame<'_>) {}
    /// The map equals the origin's map at some moment after the connection was made: for the first
    /// time, or again after the connection was lost.
    fn ready(&mut self, _position: StreamPosition) {}
    /// The connection is lost, or could not be made; the replica tries again.
    fn lost(&mut self, _why: &str) {}
}

/// No callbacks.
impl ReplicaEvents for () {}

/// Options of a replica.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// The secret that both sides have to prove.
    pub secret: Option<Secret>,
    /// The pause after the first failed connection. Each next pause is twice as long, up to
    /// `longest_pause`, and up to half longer or shorter, so that a thousand replicas do not
    /// reconnect at the same time.
    pub first_pause: Duration,
    /// The longest pause; see `first_pause`.
    pub longest_pause: Duration,
    /// Further addresses of the map: its origin's, its relays'. If the connection is lost, the
    /// replica tries all of them in turn, and goes on at its position where it can.
    pub also: Vec<Address>,
    /// Accepts, for one connection, an origin of another map, or one of an earlier epoch than the
    /// replica has seen. Its map replaces the replica's.
    pub adopt: bool,
    /// The name by which a process at the origin waits for this replica
    /// ([`Map::wait_for_replica`](commonhold::map::Map::wait_for_replica)). It has at most 64 bytes
    /// without control characters, or none, and should differ from the names of the origin's other
    /// replicas.
    pub name: String,
    /// The map's name at the origin, if it differs from the replica's. An origin of a whole hold
    /// ([`HoldOrigin`](crate::HoldOrigin)) serves the map of this name, and without this option the
    /// map of the replica's name. An origin of one map refuses another name than its map's, and
    /// without this option it accepts every name.
    pub map: Option<String>,
    /// For a relay: the map gets a stream of this size that has the origin's positions, so that its
    /// replicas can continue at another relay, and at the origin. An existing stream stays.
    pub stream_bytes: Option<u64>,
    /// Whether the pairs of full syncs are compressed, if the origin allows it too.
    pub compression: Compression,
    /// Only the pairs whose keys begin with these bytes, 1 to 255 of them: the origin sends no
    /// others. `None` for all pairs. The map keeps to the prefix: to replicate other keys, drop it
    /// first. It cannot be served to other replicas, and it cannot be promoted.
    pub prefix: Option<Vec<u8>>,
}

impl Default for ReplicaOptions {
    fn default() -> ReplicaOptions {
        let (first_pause, longest_pause) = (Duration::from_millis(50), Duration::from_secs(5));
        let (secret, also, adopt) = (None, Vec::new(), false);
        ReplicaOptions {
            secret,
            first_pause,
            longest_pause,
            also,
            adopt,
            name: String::new(),
            map: None,
            stream_bytes: None,
            compression: Compression::default(),
            prefix: None,
        }
    }
}

/// The state of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ReplicaStatus {
    /// The id of its process.
    pub pid: u32,
    /// The address of its origin.
    pub origin: String,
    /// The prefix of the keys that it replicates, with escapes for bytes that are not text; `None`
    /// for all keys.
    pub prefix: Option<String>,
    /// Whether the connection stands.
    pub connected: bool,
    /// Whether its map has equalled the origin's map. It stays true while a new map is built.
    pub ready: bool,
    /// The position that its map has reached.
    pub position: Option<StreamPosition>,
    /// Bytes of the stream that it has not applied, by the origin's last message: it learns of no
    /// more while the connection is lost.
    pub lag_bytes: u64,
    /// An estimate of the number of these changes, by the mean size of earlier ones.
    pub lag_messages: u64,
    /// The age of the replica's data in milliseconds: everything that the first origin had so long
    /// ago is here, by the clocks of both machines. Relays hand the first origin's time down, so
    /// the age grows while any connection on the way is lost. If the time is not known yet, it
    /// counts from the replica's start.
    pub lag_ms: u64,
    /// The number of changes applied.
    pub changes: u64,
    /// The number of bytes of changes applied.
    pub bytes: u64,
    /// How often the whole map was sent.
    pub synchronisations: u64,
    /// Bytes of the pairs that full syncs sent.
    pub sync_bytes: u64,
    /// The same as they came over the wire: fewer if they were compressed.
    pub sync_wire_bytes: u64,
    /// How often a connection was made.
    pub connections: u64,
    /// The reason why the last connection ended.
    pub last_error: Option<String>,
    /// Its thread has ended, and nothing will change any more: the attached socket was closed, or a
    /// [`ReplicaEvents`] has panicked, which `last_error` then reports.
    pub ended: bool,
}

/// Keeps a map in a hold equal to an origin's map.
///
/// Every process that has the hold open reads it as any map; writing it fails with `ReadOnly`.
/// Readers see changes in each key's order. A first or a new synchronisation is built as a shadow
/// map, and becomes visible as a whole. If the connection is lost, the map stays, and the replica
/// tries to reconnect. It resumes from its position if the origin's stream still has that, also
/// after its own process was killed and started again.
///
/// Dropping a replica ends it; the map stays. If a stopped process blocks its thread, the drop
/// returns after 5 s, and the thread ends later; until then the map still has this replica. A
/// forked child may drop it, which has no effect, because the thread belongs to the parent; the
/// child must not use it otherwise. No callback runs after the drop, which waits for one that is
/// running; a callback must not drop the replica.
pub struct Replica {
    shared: Arc<Shared>,
    threads: OwnedThreads,
}

/// The data that the replica's thread and the others share.
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Readable when the replica has to end.
    pub(super) end: OwnedFd,
    /// The same, for a thread that cannot wait for descriptors.
    ended: AtomicBool,
    /// Closed when the replica is dropped: its thread may end later.
    gate: CallbackGate,
}

/// Publishes the end of a replica's thread, however it ends.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.update(|status| {
            (status.connected, status.ended) = (false, true);
            if std::thread::panicking() {
                status.last_error = Some("the replica's thread has panicked".to_owned());
            }
        });
    }
}

struct State {
    status: ReplicaStatus,
    /// The time of the origin's last message, or of the replica's start.
    last_message: Instant,
    /// The map has everything that the first origin had at this time, in milliseconds since 1970;
    /// if it is not known, the time of the replica's start.
    as_of_ms: u64,
}

impl State {
    /// The status as of now: the replica's data gets older while the origin is silent, and while
    /// there is no connection.
    fn now(&self) -> ReplicaStatus {
        let mut status = self.status.clone();
        let silence = self.last_message.elapsed();
        if silence > SILENT || !status.connected {
            status.lag_ms = status.lag_ms.max(now_ms().saturating_sub(self.as_of_ms));
        }
        status
    }
}

impl Shared {
    fn new(status: ReplicaStatus, end: OwnedFd) -> Shared {
        let (last_message, as_of_ms) = (Instant::now(), now_ms());
        let state = Mutex::new(State { status, last_message, as_of_ms });
        let (changed, gate) = (Condvar::new(), CallbackGate::default());
        Shared { state, changed, end, ended: AtomicBool::new(false), gate }
    }

    /// Requests the thread's end.
    fn end(&self) {
        // Release: pairs with the thread's look, which may be all that it learns this by.
        self.ended.store(true, Ordering::Release);
        // It fails only if the counter is at its end: then it is readable.
        let _ = rustix::io::write(&self.end, &1u64.to_ne_bytes());
    }

    /// Whether the thread has to end.
    pub(super) fn is_to_end(&self) -> bool {
        // Acquire: see `end`.
        self.ended.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> ReplicaStatus {
        self.lock().now()
    }

    /// Changes the status, and wakes the threads that wait for it.
    pub(super) fn update(&self, change: impl FnOnce(&mut ReplicaStatus)) {
        change(&mut self.lock().status);
        self.changed.notify_all();
    }

    /// Notes a message of the origin.
    pub(super) fn note_message(&self) {
        self.lock().last_message = Instant::now();
    }

    /// Notes the age of the map's contents: it has everything up to this time, or up to the last
    /// one.
    pub(super) fn note_age(&self, as_of_ms: Option<u64>) {
        let mut state = self.lock();
        state.as_of_ms = as_of_ms.unwrap_or(state.as_of_ms);
        state.status.lag_ms = now_ms().saturating_sub(state.as_of_ms);
        drop(state);
        self.changed.notify_all();
    }

    /// The time since the origin's last message.
    pub(super) fn silence(&self) -> Duration {
        self.lock().last_message.elapsed()
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Replica {
    /// Follows the origin at an address, with the map `name` of `hold`, which is created if it is
    /// missing. Returns at once.
    ///
    /// # Errors
    /// `Mismatch` if there is a map of this name that is not a replica's, or one with the keys of
    /// another [`prefix`](ReplicaOptions::prefix); `Busy` if it has a replica already; `ReadOnly`;
    /// `Invalid` for a bad [`name`](ReplicaOptions::name) or prefix, and for a prefix together with
    /// [`stream_bytes`](ReplicaOptions::stream_bytes); `Io` if no thread can be started.
    pub fn connect(
        hold: &Hold,
        name: &str,
        origin: &Address,
        options: ReplicaOptions,
        events: impl ReplicaEvents + 'static,
    ) -> Result<Replica> {
        let source = Source::addresses(origin, &options.also);
        start(hold, name, source, How::following(options, name), events)
    }

    /// The same with a copy for comparisons, which ends soon: no process waits for it. It wants the
    /// origin's map `of`, unless the options name another.
    pub(crate) fn connect_to_compare(
        hold: &Hold,
        (name, of): (&str, &str),
        origin: &Address,
        options: ReplicaOptions,
        events: impl ReplicaEvents + 'static,
    ) -> Result<Replica> {
        let source = Source::addresses(origin, &options.also);
        let how = How { counts: false, ..How::following(options, of) };
        start(hold, name, source, how, events)
    }

    /// Follows the origin at the other end of a connected stream socket. When the connection ends,
    /// the map stays, and the replica does not reconnect.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub fn attach(
        hold: &Hold,
        name: &str,
        socket: OwnedFd,
        options: ReplicaOptions,
        events: impl ReplicaEvents + 'static,
    ) -> Result<Replica> {
        let source = Source::Socket(Some(socket));
        start(hold, name, source, How::following(options, name), events)
    }

    /// The status at this moment.
    pub fn status(&self) -> ReplicaStatus {
        self.shared.status()
    }

    /// Waits until the map equals the origin's map; false if that took longer than `time`.
    pub fn wait_ready(&self, time: Duration) -> bool {
        self.wait(time, |status| status.ready)
    }

    /// Waits until the map has reached a position of the origin's stream; false if that took longer
    /// than `time`.
    pub fn wait_for(&self, position: StreamPosition, time: Duration) -> bool {
        let there =
            |at: StreamPosition| at.stream == position.stream && at.offset >= position.offset;
        self.wait(time, |status| status.position.is_some_and(there))
    }

    /// Waits until `such` accepts the status; false if that took longer than `time`, or the replica
    /// has ended. `such` is called whenever the replica's status changes.
    pub fn wait(&self, time: Duration, such: impl Fn(&ReplicaStatus) -> bool) -> bool {
        let not_yet = |state: &mut State| !state.status.ended && !such(&state.now());
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), time, not_yet);
        such(&waited.unwrap_or_else(PoisonError::into_inner).0.now())
    }
}

impl Replica {
    /// Requests the end, and does not wait for it.
    pub(crate) fn begin_end(&self) {
        if self.threads.are_here() {
            self.shared.end();
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // In a forked child the thread to end belongs to the parent.
        if self.threads.are_here() {
            self.shared.end();
            self.threads.join_for(JOIN_TIMEOUT);
            self.shared.gate.close();
        }
    }
}

/// The callbacks of a program, until its handle is dropped.
struct GatedEvents<E> {
    events: E,
    shared: Arc<Shared>,
}

impl<E: ReplicaEvents> ReplicaEvents for GatedEvents<E> {
    fn changed(&mut self, change: &StreamFrame<'_>) {
        self.shared.gate.call(|| self.events.changed(change));
    }

    fn ready(&mut self, position: StreamPosition) {
        self.shared.gate.call(|| self.events.ready(position));
    }

    fn lost(&mut self, why: &str) {
        self.shared.gate.call(|| self.events.lost(why));
    }
}

/// How a replica follows its origin.
pub(super) struct How {
    pub(super) options: ReplicaOptions,
    /// Whether processes at the origin may wait for it.
    pub(super) counts: bool,
    /// The map that it wants from the origin.
    pub(super) wish: Wish,
}

impl How {
    /// With the origin's map of this name, unless the options name another or the origin has only
    /// one.
    fn following(options: ReplicaOptions, name: &str) -> How {
        let wish = match &options.map {
            Some(map) => Wish::Map(map.clone()),
            None => Wish::AnyOrMap(name.to_owned()),
        };
        How { options, counts: true, wish }
    }
}

/// The prefix that a replica asks for.
fn wanted_prefix(options: &ReplicaOptions) -> Result<KeyPrefix> {
    let prefix = KeyPrefix::wanted(options.prefix.as_deref())?;
    if prefix.is_of_all() || options.stream_bytes.is_none() {
        return Ok(prefix);
    }
    let text = format!(
        "a relay needs all keys, but this replica asks for {prefix}: leave out the prefix, or \
         the stream for replicas (ReplicaOptions::stream_bytes)"
    );
    Err(Error::new(ErrorKind::Invalid, text))
}

fn start(
    hold: &Hold,
    name: &str,
    source: Source,
    how: How,
    events: impl ReplicaEvents + 'static,
) -> Result<Replica> {
    check_replica_name(&how.options.name)?;
    let io = |what: &str, e: &dyn fmt::Display| Error::new(ErrorKind::Io, format!("{what}: {e}"));
    let end = fault!("replica.eventfd").and_then(|()| Ok(eventfd(0, EventfdFlags::CLOEXEC)?));
    let end = end.map_err(|e| io("cannot create an eventfd", &e))?;
    let prefix = wanted_prefix(&how.options)?;
    let intake = Intake::open(hold, name, &prefix)?;
    if let Some(bytes) = how.options.stream_bytes {
        intake.begin_stream(bytes)?;
    }
    let origin = match &source {
        Source::Addresses(addresses, _) => {
            addresses.first().map_or_else(String::new, Address::to_string)
        }
        Source::Socket(_) => "attached socket".to_owned(),
    };
    let status = ReplicaStatus {
        pid: std::process::id(),
        origin,
        prefix: prefix.shown(),
        ready: intake.position().is_some(),
        position: intake.position(),
        ..ReplicaStatus::default()
    };
    let shared = Arc::new(Shared::new(status, end));
    let reporter = Reporter::new(hold, "replica", name).ok();
    let events = GatedEvents { events, shared: Arc::clone(&shared) };
    let follower = Follower::new(&shared, intake, how, events, reporter);
    let thread = std::thread::Builder::new().name("replica".into());
    let ending = Arc::clone(&shared);
    let thread = fault!("replica.thread").and_then(|()| {
        thread.stack_size(256 << 10).spawn(move || {
            let _ending = Ending(ending);
            follower.run(source);
        })
    });
    let mut threads = OwnedThreads::default();
    threads.push(thread.map_err(|e| io("cannot start a thread", &e))?);
    Ok(Replica { shared, threads })
}
