//! The reading side: keeps a map of this machine's what a map elsewhere is.

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
use commonhold_io::owned_threads::{FAREWELL, OwnedThreads};
use commonhold_io::reports::Reporter;
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An origin that has said nothing for so long is silent: it says what time it is twice a second.
const SILENT: Duration = Duration::from_secs(1);

/// What happens to a replica. Called by its thread: what takes long holds up the replica. Must not
/// wait for the replica.
pub trait ReplicaEvents: Send {
    /// A change was applied. Not called for what a first or new synchronisation brings: that is one
    /// step, see [`ready`](Self::ready).
    fn changed(&mut self, _change: &StreamFrame<'_>) {}
    /// The map is what the origin's was at some moment after the connection was made: for the first
    /// time, or again after it was lost.
    fn ready(&mut self, _position: StreamPosition) {}
    /// The connection is lost, or could not be made; the replica tries again.
    fn lost(&mut self, _why: &str) {}
}

/// Nobody who wants to know.
impl ReplicaEvents for () {}

/// How a replica follows.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// What the origin wants to be proved, and has to prove.
    pub secret: Option<Secret>,
    /// The pause after the first failed connection; each next one is twice as long, up to
    /// `longest_pause`, and up to half longer or shorter, so that a thousand replicas do not come
    /// at the same time.
    pub first_pause: Duration,
    /// See `first_pause`.
    pub longest_pause: Duration,
}

impl Default for ReplicaOptions {
    fn default() -> ReplicaOptions {
        let (first_pause, longest_pause) = (Duration::from_millis(50), Duration::from_secs(5));
        ReplicaOptions { secret: None, first_pause, longest_pause }
    }
}

/// How a replica is.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ReplicaStatus {
    /// Its process.
    pub pid: u32,
    /// Its origin.
    pub origin: String,
    /// Whether the connection stands.
    pub connected: bool,
    /// Whether its map has been what the origin's was. It stays so while a new one is built.
    pub ready: bool,
    /// How far its map has come.
    pub position: Option<StreamPosition>,
    /// How many bytes of the stream it has not applied, by what the origin said last: it knows of
    /// no more while the connection is lost.
    pub lag_bytes: u64,
    /// About how many changes that is, by the mean size of those that came.
    pub lag_messages: u64,
    /// How old what the replica has is: from when the origin said where its stream ended to when
    /// all before that was applied, by the clocks of both machines; or since when it has said
    /// nothing, if that is longer. It grows while the connection is lost; if there was none yet,
    /// from when the replica began.
    pub lag_ms: u64,
    /// Changes applied.
    pub changes: u64,
    /// Bytes of changes applied.
    pub bytes: u64,
    /// How often the whole map was sent.
    pub synchronisations: u64,
    /// How often a connection was made.
    pub connections: u64,
    /// Why the last connection ended.
    pub last_error: Option<String>,
    /// Its thread has ended, and nothing will change any more: the attached socket is gone, or a
    /// [`ReplicaEvents`] has panicked, which `last_error` says then.
    pub ended: bool,
}

/// Keeps a map in a hold what an origin's map is.
///
/// Every process that has the hold open reads it as any map; writing it is the error `ReadOnly`.
/// Readers see changes in each key's order; a first or a new synchronisation is built beside, and
/// shown as a whole. If the connection is lost the map stays as it is, and the replica tries to
/// connect again; it goes on from where it was if the origin's stream still has that, also after
/// its own process was killed and started again.
///
/// Dropping it ends it; the map stays. If a stopped process blocks its thread, the drop returns
/// after 5 s, and the thread ends later; until then the map still has this replica. A forked child
/// may drop it, which does nothing: the thread is the parent's. It must not do anything else with
/// it. No callback runs after the drop, which waits for one that is running; a callback must not
/// drop the replica.
pub struct Replica {
    shared: Arc<Shared>,
    threads: OwnedThreads,
}

/// What the replica's thread and the others share.
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Readable when the replica is to end.
    pub(super) end: OwnedFd,
    /// The same, for a thread that cannot wait for descriptors.
    ended: AtomicBool,
    /// Closed when the replica is dropped: its thread may end later.
    gate: CallbackGate,
}

/// Says so when the thread of a replica ends, however it does.
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
    /// When the origin spoke last, or the replica began.
    heard: Instant,
}

impl State {
    /// The status as of now: what the replica has gets older while the origin is silent, and while
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

    /// Has the thread end.
    fn end(&self) {
        // Release: pairs with the thread's look, which may be all that it learns this by.
        self.ended.store(true, Ordering::Release);
        // It fails only if the counter is at its end: then it is readable.
        let _ = rustix::io::write(&self.end, &1u64.to_ne_bytes());
    }

    /// Whether the thread is to end.
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

    /// Changes the status, and wakes who waits for it.
    pub(super) fn update(&self, change: impl FnOnce(&mut ReplicaStatus)) {
        change(&mut self.lock().status);
        self.changed.notify_all();
    }

    /// The origin has said something.
    pub(super) fn hear(&self) {
        self.lock().heard = Instant::now();
    }

    /// How long the origin has said nothing.
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
    /// Follows the origin at an address, with the map `name` of `hold`, which is made if it is not
    /// there. Returns at once.
    ///
    /// # Errors
    /// `Mismatch` if there is a map of this name that is no replica's; `Busy` if it has a replica
    /// already; `ReadOnly`; `Io` if there is no thread to be had.
    pub fn connect(
        hold: &Hold,
        name: &str,
        origin: &Address,
        options: ReplicaOptions,
        events: impl ReplicaEvents + 'static,
    ) -> Result<Replica> {
        start(hold, name, Source::Address(origin.clone()), options, events)
    }

    /// Follows the origin at the other end of a connected stream socket. When that ends, the
    /// replica stays as it is.
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

    /// How it is.
    pub fn status(&self) -> ReplicaStatus {
        self.shared.status()
    }

    /// Waits until the map is what the origin's was; false if it was not within the time.
    pub fn wait_ready(&self, time: Duration) -> bool {
        self.wait(time, |status| status.ready)
    }

    /// Waits until the map has come to a position of the origin's stream; false if it has not
    /// within the time.
    pub fn wait_for(&self, position: StreamPosition, time: Duration) -> bool {
        let there =
            |at: StreamPosition| at.stream == position.stream && at.offset >= position.offset;
        self.wait(time, |status| status.position.is_some_and(there))
    }

    /// Waits until the status is such; false if it was not within the time, or the replica has
    /// ended. Looked at whenever something happens to the replica.
    pub fn wait(&self, time: Duration, such: impl Fn(&ReplicaStatus) -> bool) -> bool {
        let not_yet = |state: &mut State| !state.status.ended && !such(&state.now());
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), time, not_yet);
        such(&waited.unwrap_or_else(PoisonError::into_inner).0.now())
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // In a forked child it is the parent's thread that would end.
        if self.threads.are_here() {
            self.shared.end();
            self.threads.join_for(FAREWELL);
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
