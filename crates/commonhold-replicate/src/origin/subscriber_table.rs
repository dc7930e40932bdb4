//! The shared data of an origin's threads: the map, the replicas, the requests to be woken.

use crate::delivery::repair_stream;
use crate::origin::catch_up::CatchUps;
use crate::origin::handshake::Greeted;
use crate::origin::limits::{MOST_JOINING, PairBytes};
use crate::origin::notices::Notices;
use crate::origin::session::{ReplicaState, Subscriber};
use crate::origin::stream_room::StreamRoom;
use crate::origin::{OriginOptions, Transmission};
use crate::protocol::inbox::Inbox;
use commonhold::map::Map;
use commonhold::raw::open_unready_map;
use commonhold::stream::StreamPosition;
use commonhold::{Error, Hold};
use commonhold_io::address::{Address, SocketFile};
use commonhold_io::sockets::Waker;
use commonhold_io::thread_patience::with_patience;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long repairing the stream may wait for a stopped process.
const PATIENCE: Duration = Duration::from_millis(100);

/// An order for a serving thread.
pub(crate) enum Order {
    /// Accept from a socket that listens, and report whether that has begun.
    Listen { socket: OwnedFd, begun: Sender<io::Result<()>> },
    /// Serve the replica at the other end, which may have identified itself already.
    Serve { id: u64, socket: OwnedFd, known: Option<Box<Known>> },
    /// Disconnect a replica.
    Dismiss(u64),
    /// Send all changes, at most for this time, then end.
    Finish(Duration),
}

/// A replica that has identified itself before this origin got its connection.
pub(crate) struct Known {
    pub(crate) greeted: Greeted,
    /// The bytes that it sent afterwards.
    pub(crate) inbox: Inbox,
    /// Messages to send before anything else.
    pub(crate) words: Vec<u8>,
}

/// The parts of several origins that serve one hold together; each other origin has its own.
#[derive(Clone, Default)]
pub(crate) struct InCommon {
    /// Bytes of pairs that wait to be taken.
    pub(crate) pair_bytes: Arc<PairBytes>,
    /// The addresses of the listeners.
    pub(crate) addresses: Arc<Mutex<Vec<Address>>>,
}

/// One serving thread, as the others see it.
pub(crate) struct ServingThread {
    pub(crate) orders: Sender<Order>,
    pub(crate) waker: Waker,
}

/// A replica that an origin serves.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ReplicaInfo {
    /// Its number, for [`Origin::detach`](crate::Origin::detach).
    pub id: u64,
    /// The address or the process at the other end.
    pub peer: String,
    /// Its own name; empty if it has none.
    pub name: String,
    /// The prefix of the keys that it wants, with escapes for bytes that are not text; `None` for
    /// all keys.
    pub prefix: Option<String>,
    /// Its progress.
    pub state: ReplicaState,
    /// The offset up to which it was sent everything.
    pub sent: u64,
    /// The offset up to which it reports that it has applied everything.
    pub applied: u64,
    /// Bytes of the stream that it has not applied yet.
    pub lag_bytes: u64,
    /// How long it has been connected, in milliseconds.
    pub connected_ms: u64,
    /// Bytes of the pairs that its full sync has sent.
    pub sync_bytes: u64,
    /// The same on the wire: fewer if they are compressed.
    pub sync_wire_bytes: u64,
}

/// An origin, as `hold stat` shows it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct OriginReport {
    /// The id of its process.
    pub pid: u32,
    /// The addresses where it listens.
    pub listens: Vec<String>,
    /// The number of replicas that have caught up from the map's journal, since it began.
    pub caught_up_from_journal: u64,
    /// The replicas that it serves.
    pub replicas: Vec<ReplicaInfo>,
}

/// See the module.
pub(crate) struct SubscriberTable {
    pub(crate) hold: Hold,
    /// The map's name.
    pub(crate) name: String,
    map: Mutex<Map>,
    pub(crate) options: OriginOptions,
    /// The stream is not sent beyond this position; `None` if all of it is sent.
    limit: Mutex<Option<StreamPosition>>,
    served: Mutex<BTreeMap<u64, Arc<Subscriber>>>,
    next_id: AtomicU64,
    /// By the number of a replica's map: the number of its last connection.
    latest: Mutex<HashMap<u64, u64>>,
    serving_threads: Mutex<Vec<ServingThread>>,
    /// Sockets in the file system that are removed in the end.
    pub(crate) files: Mutex<Vec<SocketFile>>,
    waiting: Mutex<Waiting>,
    asked: Condvar,
    pub(crate) in_common: InCommon,
    pub(crate) notices: Notices,
    pub(crate) catch_ups: Arc<CatchUps>,
    pub(crate) stream_room: StreamRoom,
    /// The last attempt to begin a stream again.
    stream_repair: StreamRoom,
}

/// The threads that wait for the stream to grow beyond an offset, with that offset.
#[derive(Default)]
struct Waiting {
    beyond: Vec<Option<u64>>,
    over: bool,
}

/// The number of peers that have identified themselves.
fn known(served: &BTreeMap<u64, Arc<Subscriber>>) -> usize {
    served.values().filter(|one| one.state() != ReplicaState::Joining).count()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SubscriberTable {
    pub(crate) fn new(
        hold: &Hold,
        map: Map,
        options: OriginOptions,
        in_common: InCommon,
    ) -> Result<SubscriberTable, Error> {
        let notices = Notices::to(options.notice.clone());
        let limit = match options.transmission {
            Transmission::Automatic { .. } => None,
            Transmission::Explicit => Some(map.follow()?.position()),
        };
        Ok(SubscriberTable {
            hold: hold.clone(),
            name: map.name().to_owned(),
            map: Mutex::new(map),
            options,
            limit: Mutex::new(limit),
            served: Mutex::default(),
            next_id: AtomicU64::new(1),
            latest: Mutex::default(),
            serving_threads: Mutex::default(),
            files: Mutex::default(),
            waiting: Mutex::default(),
            asked: Condvar::new(),
            in_common,
            notices,
            catch_ups: Arc::default(),
            stream_room: StreamRoom::default(),
            stream_repair: StreamRoom::default(),
        })
    }

    pub(crate) fn map(&self) -> Map {
        lock(&self.map).clone()
    }

    /// If the map was dropped, continues with the map that has the name now: a relay's map is
    /// replaced when its origin has another one. If the map has lost its stream, begins another.
    pub(crate) fn renew(&self) {
        let map = self.map();
        if map.follow().is_ok() {
            return;
        }
        if map.len().is_ok() {
            // If it fails, or takes too long, the next call tries it again.
            let repair = || with_patience(PATIENCE, || repair_stream(&self.hold, &map)).err();
            let _ = self.stream_repair.make_by(Instant::now(), repair);
            return;
        }
        let next = || {
            let map = open_unready_map(&self.hold, &self.name)?;
            if map.follow().is_err_and(|error| error.is_not_found()) {
                let begin = || self.hold.maps().begin_stream(&self.name, self.options.stream_bytes);
                let begin = || with_patience(PATIENCE, begin).err();
                // Even without a stream, the origin answers replicas for the new map. The next call
                // begins its stream.
                let _ = self.stream_repair.make_by(Instant::now(), begin);
            }
            Ok::<_, commonhold::Error>(map)
        };
        if let Ok(map) = next() {
            *lock(&self.map) = map;
        }
    }

    pub(crate) fn limit(&self) -> Option<StreamPosition> {
        *lock(&self.limit)
    }

    /// Releases everything before `to`; without that, everything from now on.
    pub(crate) fn raise_limit(&self, to: Option<StreamPosition>) {
        let mut limit = lock(&self.limit);
        match (*limit, to) {
            (None, _) => {}
            // Another call of `transmit` came before.
            (Some(now), Some(to)) if now.stream == to.stream && now.offset > to.offset => {}
            _ => *limit = to,
        }
        drop(limit);
        self.wake_all();
    }

    pub(crate) fn add_thread(&self, thread: ServingThread) {
        lock(&self.serving_threads).push(thread);
        lock(&self.waiting).beyond.push(None);
    }

    /// The waker of one thread; the number selects the thread.
    pub(crate) fn waker(&self, number: u64) -> Option<Waker> {
        let serving_threads = lock(&self.serving_threads);
        let thread = serving_threads.get(number as usize % serving_threads.len().max(1));
        thread.map(|thread| thread.waker.clone())
    }

    /// Gives an order to one thread; the number selects the thread.
    pub(crate) fn order(&self, number: u64, order: Order) {
        let serving_threads = lock(&self.serving_threads);
        if let Some(thread) = serving_threads.get(number as usize % serving_threads.len().max(1)) {
            // If the thread has ended, no replica needs the order.
            let _ = thread.orders.send(order);
            thread.waker.wake();
        }
    }

    pub(crate) fn order_all(&self, order: impl Fn() -> Order) {
        let serving_threads = lock(&self.serving_threads).len() as u64;
        (0..serving_threads).for_each(|number| self.order(number, order()));
    }

    fn wake_all(&self) {
        lock(&self.serving_threads).iter().for_each(|thread| thread.waker.wake());
    }

    /// Registers a peer, unless the maximum number of replicas is connected. If too many peers have
    /// not identified themselves yet, the oldest of them has to go.
    pub(crate) fn admit(&self, peer: String) -> Option<u64> {
        let mut served = lock(&self.served);
        if known(&served) >= self.options.most_replicas {
            return None;
        }
        let joining = |(id, subscriber): (&u64, &Arc<Subscriber>)| {
            (subscriber.state() == ReplicaState::Joining).then_some(*id)
        };
        let too_many = served.len() - known(&served) >= MOST_JOINING;
        let oldest = if too_many { served.iter().find_map(joining) } else { None };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        served.insert(id, Arc::new(Subscriber::new(peer)));
        // No longer counted, before its thread has dismissed it.
        oldest.inspect(|oldest| drop(served.remove(oldest)));
        drop(served);
        oldest.into_iter().for_each(|oldest| self.order(oldest, Order::Dismiss(oldest)));
        Some(id)
    }

    /// Whether one more peer may join.
    pub(crate) fn has_place(&self) -> bool {
        known(&lock(&self.served)) < self.options.most_replicas
    }

    pub(crate) fn subscriber(&self, id: u64) -> Option<Arc<Subscriber>> {
        lock(&self.served).get(&id).cloned()
    }

    pub(crate) fn dismissed(&self, id: u64) -> Option<Arc<Subscriber>> {
        lock(&self.served).remove(&id)
    }

    /// Notes the connection of a replica.
    pub(crate) fn has_connected(&self, node: u64, session: u64) {
        let mut latest = lock(&self.latest);
        if latest.len() > self.options.most_replicas {
            let served = lock(&self.served);
            latest.retain(|_, session| served.contains_key(session));
        }
        latest.insert(node, session);
    }

    /// False if the replica has connected again since.
    pub(crate) fn is_latest(&self, node: u64, session: u64) -> bool {
        lock(&self.latest).get(&node).is_none_or(|latest| *latest <= session)
    }

    pub(crate) fn serves_nobody(&self) -> bool {
        lock(&self.served).is_empty()
    }

    /// All replicas, as of now.
    pub(crate) fn replicas(&self) -> Vec<ReplicaInfo> {
        let tail = self.map().follow().map_or(0, |follower| follower.position().offset);
        let info = |(id, subscriber): (&u64, &Arc<Subscriber>)| {
            let applied = subscriber.applied.load(Ordering::Relaxed);
            ReplicaInfo {
                id: *id,
                peer: subscriber.peer.clone(),
                name: subscriber.name.get().map_or_else(String::new, |name| name.to_string()),
                prefix: subscriber.prefix.get().cloned().flatten(),
                state: subscriber.state(),
                sent: subscriber.sent.load(Ordering::Relaxed),
                applied,
                lag_bytes: tail.saturating_sub(applied),
                connected_ms: subscriber.since.elapsed().as_millis() as u64,
                sync_bytes: subscriber.sync_bytes[0].load(Ordering::Relaxed),
                sync_wire_bytes: subscriber.sync_bytes[1].load(Ordering::Relaxed),
            }
        };
        lock(&self.served).iter().map(info).collect()
    }

    /// The offset up to which the slowest replica was sent everything.
    pub(crate) fn sent_to_all(&self) -> Option<u64> {
        let served = lock(&self.served);
        let known =
            served.values().filter(|subscriber| subscriber.state() != ReplicaState::Joining);
        known.map(|subscriber| subscriber.sent.load(Ordering::Relaxed)).min()
    }

    /// Its report for the hold.
    pub(crate) fn report(&self) -> OriginReport {
        let listens = lock(&self.in_common.addresses).iter().map(ToString::to_string).collect();
        OriginReport {
            pid: std::process::id(),
            listens,
            caught_up_from_journal: self.catch_ups.caught_up(),
            replicas: self.replicas(),
        }
    }

    /// Passes a line about a peer that has not joined to the callback for events.
    pub(crate) fn note_stranger(&self, text: &str) {
        self.notices.note_stranger(text);
    }

    /// Passes a line to the callback for events.
    pub(crate) fn note(&self, text: &str) {
        self.notices.note(text);
    }

    /// Thread `number` requests a waking when the stream grows beyond an offset.
    pub(crate) fn ask(&self, number: usize, offset: u64) {
        let mut waiting = lock(&self.waiting);
        if let Some(beyond) = waiting.beyond.get_mut(number) {
            *beyond = Some(beyond.map_or(offset, |before| before.min(offset)));
            self.asked.notify_one();
        }
    }

    /// The least requested offset; waits for a request at most for `time`. `None` when the origin
    /// ends.
    pub(crate) fn asked(&self, time: Duration) -> Option<Option<u64>> {
        let waiting = lock(&self.waiting);
        let none = |waiting: &mut Waiting| {
            !waiting.over && waiting.beyond.iter().all(|beyond| beyond.is_none())
        };
        let (waiting, _) = self
            .asked
            .wait_timeout_while(waiting, time, none)
            .unwrap_or_else(PoisonError::into_inner);
        (!waiting.over).then(|| waiting.beyond.iter().flatten().min().copied())
    }

    /// Wakes the threads whose offset the stream has reached; all of them, if it is another stream.
    pub(crate) fn reached(&self, tail: Option<u64>) {
        let mut waiting = lock(&self.waiting);
        let serving_threads = lock(&self.serving_threads);
        for (beyond, thread) in waiting.beyond.iter_mut().zip(serving_threads.iter()) {
            if beyond.is_some_and(|beyond| tail.is_none_or(|tail| tail > beyond)) {
                *beyond = None;
                thread.waker.wake();
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        lock(&self.waiting).over
    }

    /// Ends all requests.
    pub(crate) fn close(&self) {
        lock(&self.waiting).over = true;
        self.asked.notify_all();
    }
}
