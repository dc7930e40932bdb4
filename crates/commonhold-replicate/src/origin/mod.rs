//! The writable side: serves a map's changes to replicas.

pub(crate) mod acks;
pub(crate) mod admission;
mod catch_up;
mod expiry;
pub(crate) mod handshake;
pub(crate) mod limits;
pub(crate) mod notices;
mod serve;
pub(crate) mod session;
mod start;
mod stream_room;
pub(crate) mod subscriber_table;
mod watch;

use crate::compression::Compression;
use crate::lineage;
use crate::origin::session::NO_PLACE;
use crate::origin::subscriber_table::{InCommon, Known, Order, ReplicaInfo, SubscriberTable};
use crate::protocol::secret::Secret;
use commonhold::map::Map;
use commonhold::raw::open_unready_map;
use commonhold::{Error, ErrorKind, Hold, Result, fault};
use commonhold_io::address::{self, Address, Listener, SocketFile};
use commonhold_io::owned_threads::{JOIN_TIMEOUT, OwnedThreads};
use commonhold_io::sockets::LoopKind;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How often a map may be replaced while its origin starts.
const MOST_REPLACED: u32 = 100;

/// When changes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmission {
    /// As they happen; but while less than `watermark` bytes wait, up to `delay` later. With a
    /// watermark of 0, at once.
    Automatic {
        /// Bytes of the stream.
        watermark: u64,
        /// The longest time that fewer bytes wait.
        delay: Duration,
    },
    /// When [`Origin::transmit`] is called.
    Explicit,
}

/// A callback for events, which gets one line of text at a time, from any thread. It must not call
/// the origin.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// Options of an origin.
#[derive(Clone)]
pub struct OriginOptions {
    /// Bytes of changes that the map's stream keeps; 0 leaves the stream as it is, or begins one of
    /// 64 MiB. A stream of another size begins again: see
    /// [`Maps::begin_stream`](commonhold::hold::Maps::begin_stream). A replica that was away for
    /// longer gets the whole map, unless the map has a journal with the changes in between.
    pub stream_bytes: u64,
    /// The number of threads that serve, 1 to 64.
    pub io_threads: usize,
    /// The kind of I/O loop that they use.
    pub kind: LoopKind,
    /// When changes are sent.
    pub transmission: Transmission,
    /// The secret that replicas have to prove, and that the origin proves to them.
    pub secret: Option<Secret>,
    /// Allows listening without a secret where other machines can connect: every client that
    /// connects can then read the map.
    pub allow_unauthenticated: bool,
    /// The users whose processes may connect over unix sockets that [`Origin::listen`] made; `None`
    /// for every user who can open the socket.
    pub allowed_uids: Option<Vec<u32>>,
    /// The most connections; further ones are closed at once.
    pub most_replicas: usize,
    /// Whether the pairs of full syncs are compressed, if the replica allows it too.
    pub compression: Compression,
    /// The callback for events.
    pub notice: Option<Notice>,
}

impl Default for OriginOptions {
    fn default() -> OriginOptions {
        OriginOptions {
            stream_bytes: 0,
            io_threads: 1,
            kind: LoopKind::Epoll,
            transmission: Transmission::Automatic { watermark: 0, delay: Duration::ZERO },
            secret: None,
            allow_unauthenticated: false,
            allowed_uids: None,
            most_replicas: 8192,
            compression: Compression::default(),
            notice: None,
        }
    }
}

impl OriginOptions {
    /// The number of threads.
    ///
    /// # Errors
    /// `Invalid` if it is outside 1 to 64.
    pub(crate) fn threads(&self) -> Result<usize> {
        let threads = self.io_threads;
        if (1..=64).contains(&threads) {
            return Ok(threads);
        }
        let text = format!("expected 1 to 64 threads to serve replicas, got {threads}");
        Err(Error::new(ErrorKind::Invalid, text))
    }
}

impl fmt::Debug for OriginOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OriginOptions")
            .field("io_threads", &self.io_threads)
            .field("kind", &self.kind)
            .field("transmission", &self.transmission)
            .finish_non_exhaustive()
    }
}

/// Serves one map to replicas, over addresses where it listens and over sockets that are attached.
///
/// Writers of the map do not depend on it: any process may write before, during and after an
/// origin's run. An origin that is killed and started again serves replicas from their positions. A
/// slow, stopped or malicious replica costs one socket's memory and delays no other process, except
/// one that clears the map. A replica that falls behind by more than the stream keeps is
/// disconnected. When it reconnects, it gets the changes that it lacks from the map's
/// [`journal`](crate::journal), if the map has one with all of them, and the whole map otherwise.
/// With [`Transmission::Explicit`] it always gets the whole map. Several origins may serve one map.
///
/// The origin finds the journal's files by the paths that the journal has noted in the hold. It
/// reads them in a thread of its own, and trusts them only if their changes are the map's.
///
/// Dropping an origin ends its threads and closes the connections, between two system calls;
/// [`finish`](Self::finish) sends all changes first. If a stopped process blocks a thread, the
/// drop returns after 5 s, and the thread ends later. A forked child may drop the origin, which has
/// no effect: the threads and the connections belong to the parent, and the child's copies of the
/// descriptors are closed when the child ends or executes another program. The child must not use
/// it otherwise.
pub struct Origin {
    table: Arc<SubscriberTable>,
    /// The serving threads.
    threads: OwnedThreads,
    watcher: OwnedThreads,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("map", &self.table.name).finish_non_exhaustive()
    }
}

impl Origin {
    /// Begins to serve a map, and a stream of the map if it has none.
    ///
    /// # Errors
    /// `NotFound` if there is no such map; `Mismatch` if it has only the keys of a prefix
    /// ([`ReplicaOptions::prefix`](crate::ReplicaOptions::prefix)); those of
    /// [`Maps::begin_stream`](commonhold::hold::Maps::begin_stream); `Invalid` for a number of
    /// threads outside 1 to 64; `Io` if threads or loops cannot be made.
    pub fn start(hold: &Hold, map: &str, options: OriginOptions) -> Result<Origin> {
        Origin::start_among(hold, map, options, InCommon::default())
    }

    /// The same, for one of several origins that serve one hold together.
    pub(crate) fn start_among(
        hold: &Hold,
        map: &str,
        options: OriginOptions,
        in_common: InCommon,
    ) -> Result<Origin> {
        let threads = options.threads()?;
        lineage::ensure_whole(hold, &open_unready_map(hold, map)?, "serve replicas")?;
        let map = follow(hold, map, options.stream_bytes)?;
        lineage::of_origin(hold, map.name())?;
        let table = Arc::new(SubscriberTable::new(hold, map, options, in_common)?);
        let mut origin =
            Origin { table, threads: OwnedThreads::default(), watcher: OwnedThreads::default() };
        for number in 0..threads {
            let thread = serve::start(&origin.table, number).map_err(|e| no_thread(&e))?;
            origin.threads.push(thread);
        }
        let table = Arc::clone(&origin.table);
        let named = std::thread::Builder::new().name("origin watch".into());
        let watcher = fault!("origin.watch-thread")
            .and_then(|()| named.spawn(move || watch::run(&table)))
            .map_err(|e| no_thread(&e))?;
        origin.watcher.push(watcher);
        Ok(origin)
    }

    /// Listens at an address; returns it, with the port that the system chose if it was 0. The
    /// socket of a unix address has the mode 0600, and is removed when the origin ends.
    ///
    /// # Errors
    /// `Busy` if another process listens there; `Invalid` if other machines can connect there and
    /// the options have neither a secret nor [`allow_unauthenticated`]; `Permission`; `Io`.
    ///
    /// [`allow_unauthenticated`]: OriginOptions::allow_unauthenticated
    pub fn listen(&self, address: &Address) -> Result<Address> {
        self.ensure_authenticates(address)?;
        self.serve_at(address.listen()?)
    }

    /// Accepts from a socket that listens already, such as one from systemd; returns its address.
    /// Its file is not removed.
    ///
    /// # Errors
    /// `Invalid` if it is neither TCP nor unix, and as for [`listen`](Self::listen); `Io`.
    pub fn listen_on(&self, socket: OwnedFd) -> Result<Address> {
        let listener = Listener::given(socket)?;
        self.ensure_authenticates(listener.address())?;
        self.serve_at(listener)
    }

    fn ensure_authenticates(&self, address: &Address) -> Result<()> {
        let what = format!("map '{}'", self.table.name);
        admission::ensure_authenticates(&self.table.options, address, &what)
    }

    fn serve_at(&self, listener: Listener) -> Result<Address> {
        let (socket, address, file) = listener.into_parts();
        admission::warning(&address).iter().for_each(|text| self.table.note(text));
        if let Err(error) = self.accept_from(socket, &address) {
            file.iter().for_each(SocketFile::remove);
            return Err(error);
        }
        lock(&self.table.in_common.addresses).push(address.clone());
        lock(&self.table.files).extend(file);
        Ok(address)
    }

    /// Lets the first thread accept from a socket, and waits until it does.
    fn accept_from(&self, socket: OwnedFd, address: &Address) -> Result<()> {
        let (begun, answer) = mpsc::channel();
        self.table.order(0, Order::Listen { socket, begun });
        let ended = |_| Err(std::io::Error::other("the thread has ended"));
        answer.recv().unwrap_or_else(ended).map_err(|error| {
            Error::new(ErrorKind::Io, format!("{address}: cannot accept connections: {error}"))
        })
    }

    /// Serves the replica at the other end of a connected stream socket, also one of a pair.
    /// Returns a number for [`detach`](Self::detach). The socket is made nonblocking, and TCP sends
    /// without delay. The caller is responsible for the connection: without a secret, the process
    /// at its other end can read the map, on whatever machine it runs.
    ///
    /// # Errors
    /// `Full` if the maximum number of replicas is connected.
    pub fn attach(&self, socket: OwnedFd) -> Result<u64> {
        let (peer, _) = address::peer(socket.as_fd());
        let Some(id) = self.table.admit(peer) else {
            let most = self.table.options.most_replicas;
            let text = format!("map '{}' has {most} replicas, the maximum", self.table.name);
            return Err(Error::new(ErrorKind::Full, text));
        };
        self.table.order(id, Order::Serve { id, socket, known: None });
        Ok(id)
    }

    /// Serves a replica of an accepted connection that has identified itself.
    ///
    /// # Errors
    /// The refusal, if the maximum number of replicas is connected.
    pub(crate) fn serve_known(
        &self,
        peer: String,
        socket: OwnedFd,
        known: Known,
    ) -> std::result::Result<(), &'static str> {
        let id = self.table.admit(peer).ok_or(NO_PLACE)?;
        self.table.order(id, Order::Serve { id, socket, known: Some(Box::new(known)) });
        Ok(())
    }

    /// Closes the connection to a replica; false if no replica has this number.
    pub fn detach(&self, id: u64) -> bool {
        let known = self.table.subscriber(id).is_some();
        self.table.order(id, Order::Dismiss(id));
        known
    }

    /// With [`Transmission::Explicit`]: lets the threads send every change that was made before
    /// this call. Does not wait for them.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped; those of a writing operation.
    pub fn transmit(&self) -> Result<()> {
        let end = self.table.map().follow()?.end()?;
        self.table.raise_limit(Some(end));
        Ok(())
    }

    /// The connected replicas.
    pub fn replicas(&self) -> Vec<ReplicaInfo> {
        self.table.replicas()
    }

    /// The offset of the stream up to which all replicas were sent everything; `None` if no replica
    /// is served.
    pub fn sent_to_all(&self) -> Option<u64> {
        self.table.sent_to_all()
    }

    /// The addresses where it listens.
    pub fn addresses(&self) -> Vec<Address> {
        lock(&self.table.in_common.addresses).clone()
    }

    /// Stops accepting, sends all changes to all replicas, and ends. It waits until the replicas
    /// have taken the changes and closed their connections, but at most for `time`. A replica gets
    /// the remaining changes when an origin runs again.
    pub fn finish(mut self, time: Duration) {
        self.end(time);
    }

    /// Requests the end, at most after `time`, and does not wait for it.
    pub(crate) fn begin_end(&self, time: Duration) {
        if !time.is_zero() {
            self.table.raise_limit(None);
        }
        serve::end(&self.table, time);
    }

    /// Ends the threads that serve. The rest ends when this is dropped.
    pub(crate) fn end_serving(&mut self, time: Duration) {
        if !self.threads.are_here() {
            return;
        }
        // Before the next origin finds a socket without a listener.
        lock(&self.table.files).drain(..).for_each(|file| file.remove());
        self.begin_end(time);
        self.threads.join_for(time.saturating_add(JOIN_TIMEOUT));
        self.table.close();
    }

    fn end(&mut self, time: Duration) {
        if !self.threads.are_here() {
            return;
        }
        self.end_serving(time);
        let end = Instant::now() + JOIN_TIMEOUT;
        self.watcher.join_for(JOIN_TIMEOUT);
        self.table.catch_ups.end(end.saturating_duration_since(Instant::now()));
        self.table.notices.gate.close();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// The map of this name, with a stream. A replica may give the name to another map meanwhile.
fn follow(hold: &Hold, name: &str, stream_bytes: u64) -> Result<Map> {
    for _ in 0..MOST_REPLACED {
        hold.maps().begin_stream(name, stream_bytes)?;
        let map = open_unready_map(hold, name)?;
        // An origin that may not write the hold cannot determine the end of the stream.
        match map.follow().and_then(|follower| follower.end()) {
            Ok(_) => return Ok(map),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let text = format!("map '{name}' is replaced again and again; try again when it is not");
    Err(Error::new(ErrorKind::Busy, text))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot serve replicas: {error}"))
}
