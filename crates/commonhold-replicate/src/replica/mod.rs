//! The reading side: keeps a map of this machine equal to an origin's map.

mod connecting;
mod conversation;
mod follower;
mod intake;
pub(crate) mod position;
mod regain;
pub(crate) mod tap;

use crate::protocol::secret::Secret;
use crate::replica::follower::{Follower, Source};
use crate::replica::intake::Intake;
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
}

impl Default for ReplicaOptions {
    fn default() -> ReplicaOptions {
        let (first_pause, longest_pause) = (Duration::from_millis(50), Duration::from_secs(5));
        ReplicaOptions { secret: None, first_pause, longest_pause }
    }
}

/// The state of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ReplicaStatus {
    /// The id of its process.
    pub pid: u32,
    /// The address of its origin.
    pub origin: String,
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
    /// The age of the replica's data in milliseconds: the time from the origin's message with the
    /// end of its stream until all changes before that end were applied, by the clocks of both
    /// machines; or the time since the origin's last message, if that is longer. It grows while the
    /// connection is lost. If there was none yet, it counts from the replica's start.
    pub lag_ms: u64,
    /// The number of changes applied.
    pub changes: u64,
    /// The number of bytes of changes applied.
    pub bytes: u64,
    /// How often the whole map was sent.
    pub synchronisations: u64,
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
    heard: Instant,
}

impl State {
    /// The status as of now: the replica's data gets older while the origin is silent, and while
    /// there is no connection.
    fn now(&self) -> ReplicaStatus {
        let mut status = self.status.clone();
        let silence = self.heard.elapsed();
        if silence > SILENT || !status.connected {
            let silence_ms = u64::try_from(silence.as_millis()).unwrap_or(u64::MAX);
            status.lag_ms = status.lag_ms.max(silence_ms);
        }
        status
    }
}

impl Shared {
    fn new(status: ReplicaStatus, end: OwnedFd) -> Shared {
        let state = Mutex::new(State { status, heard: Instant::now() });
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
    pub(super) fn hear(&self) {
        self.lock().heard = Instant::now();
    }

    /// The time since the origin's last message.
    pub(super) fn silence(&self) -> Duration {
        self.lock().heard.elapsed()
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
    /// `Mismatch` if there is a map of this name that is not a replica's; `Busy` if it has a
    /// replica already; `ReadOnly`; `Io` if no thread can be started.
    pub fn connect(
        hold: &Hold,
        name: &str,
        origin: &Address,
        options: ReplicaOptions,
        events: impl ReplicaEvents + 'static,
    ) -> Result<Replica> {
        start(hold, name, Source::Address(origin.clone()), options, events)
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
        start(hold, name, Source::Socket(Some(socket)), options, events)
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

fn start(
    hold: &Hold,
    name: &str,
    source: Source,
    options: ReplicaOptions,
    events: impl ReplicaEvents + 'static,
) -> Result<Replica> {
    let io = |what: &str, e: &dyn fmt::Display| Error::new(ErrorKind::Io, format!("{what}: {e}"));
    let end = fault!("replica.eventfd").and_then(|()| Ok(eventfd(0, EventfdFlags::CLOEXEC)?));
    let end = end.map_err(|e| io("cannot create an eventfd", &e))?;
    let intake = Intake::open(hold, name)?;
    let origin = match &source {
        Source::Address(address) => address.to_string(),
        Source::Socket(_) => "attached socket".to_owned(),
    };
    let status = ReplicaStatus {
        pid: std::process::id(),
        origin,
        ready: intake.position().is_some(),
        position: intake.position(),
        ..ReplicaStatus::default()
    };
    let shared = Arc::new(Shared::new(status, end));
    let reporter = Reporter::new(hold, "replica", name).ok();
    let events = GatedEvents { events, shared: Arc::clone(&shared) };
    let follower = Follower::new(&shared, intake, options, events, reporter);
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
