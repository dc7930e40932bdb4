//! The writable side: serves a map's changes to replicas.

mod expiry;
mod serve;
pub(crate) mod session;
pub(crate) mod subscriber_table;
mod watch;

use crate::origin::subscriber_table::{Order, ReplicaInfo, SubscriberTable};
use crate::protocol::secret::Secret;
use commonhold::{Error, ErrorKind, Hold, Result, fault};
use commonhold_io::address::{self, Address, Listener, SocketFile};
use commonhold_io::owned_threads::{FAREWELL, OwnedThreads};
use commonhold_io::sockets::LoopKind;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// When changes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmission {
    /// As they happen; but while less than `watermark` bytes wait, up to `delay` later. With 0, at
    /// once.
    Automatic {
        /// Bytes of the stream.
        watermark: u64,
        /// How long fewer bytes may wait.
        delay: Duration,
    },
    /// When [`Origin::transmit`] is called.
    Explicit,
}

/// Who is told what happens: one line of text at a time, from any thread. It must not call the
/// origin.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// How an origin serves.
#[derive(Clone)]
pub struct OriginOptions {
    /// Bytes of changes that the map's stream keeps, if it has none yet. A replica that was away
    /// for longer is sent the whole map.
    pub stream_bytes: u64,
    /// Threads that serve; 1 to 64.
    pub io_threads: usize,
    /// How they wait.
    pub kind: LoopKind,
    /// When changes are sent.
    pub transmission: Transmission,
    /// Replicas have to know it; so does the origin.
    pub secret: Option<Secret>,
    /// Whose processes may connect over unix sockets that [`Origin::listen`] made; `None` for
    /// whoever can open the socket.
    pub allowed_uids: Option<Vec<u32>>,
    /// Connections at most; more are closed at once.
    pub most_replicas: usize,
    /// Who is told what happens.
    pub notice: Option<Notice>,
}

impl Default for OriginOptions {
    fn default() -> OriginOptions {
        OriginOptions {
            stream_bytes: 64 << 20,
            io_threads: 1,
            kind: LoopKind::Epoll,
            transmission: Transmission::Automatic { watermark: 0, delay: Duration::ZERO },
            secret: None,
            allowed_uids: None,
            most_replicas: 8192,
            notice: None,
        }
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

/// Serves one map to replicas: over addresses where it listens, and over sockets that are attached.
///
/// Writers of the map do not know of it: any process may write, before, while and after an origin
/// runs, and an origin that is killed and started again serves replicas on from where they are. A
/// replica that is slow, stopped or malicious costs one socket's memory and holds up nobody; one
/// that falls behind by more than the stream keeps is disconnected, and sent the whole map when it
/// comes again. Several origins may serve one map.
///
/// Dropping it ends its threads and closes the connections, between two system calls;
/// [`finish`](Self::finish) sends first what there is. If a stopped process blocks a thread, the
/// drop returns after 5 s, and the thread ends later. A forked child may drop it, which does
/// nothing: the threads and the connections are the parent's, and the child's copies of the
/// descriptors are closed when it ends or executes another program. It must not do anything else
/// with it.
pub struct Origin {
    table: Arc<SubscriberTable>,
    /// Those that serve.
    threads: OwnedThreads,
    watcher: OwnedThreads,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("map", &self.table.name).finish_non_exhaustive()
    }
}

impl Origin {
    /// Begins to serve a map, which gets a stream if it has none.
    ///
    /// # Errors
    /// `NotFound` if there is no such map; those of [`Maps::begin_stream`](commonhold::hold::Maps::begin_stream); `Invalid` for a number
    /// of threads that cannot be; `Io` if threads or loops cannot be made.
    pub fn start(hold: &Hold, map: &str, options: OriginOptions) -> Result<Origin> {
        let threads = options.io_threads;
        if !(1..=64).contains(&threads) {
            let text = format!("expected 1 to 64 threads to serve replicas, got {threads}");
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        hold.maps().begin_stream(map, options.stream_bytes)?;
        let table = Arc::new(SubscriberTable::new(hold, hold.maps().open(map)?, options)?);
        // Who may not write the hold cannot say from where on a replica is the map.
        table.map().follow()?.end()?;
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
    /// `Busy` if somebody else listens there; `Permission`; `Io`.
    pub fn listen(&self, address: &Address) -> Result<Address> {
        let listener = address.listen()?;
        if !address::is_local(address) {
            let text = format!(
                "{address}: other machines can connect, and the connections are not encrypted"
            );
            self.table.note(&text);
        }
        let (socket, address, file) = listener.into_parts();
        if let Err(error) = self.accept_from(socket, &address) {
            file.iter().for_each(SocketFile::remove);
            return Err(error);
        }
        lock(&self.table.addresses).push(address.clone());
        lock(&self.table.files).extend(file);
        Ok(address)
    }

    /// Accepts from a socket that listens already, as systemd hands them over; returns its address.
    /// Its file is not removed.
    ///
    /// # Errors
    /// `Invalid` if it is neither TCP nor unix; `Io`.
    pub fn listen_on(&self, socket: OwnedFd) -> Result<Address> {
        let (socket, address, _) = Listener::given(socket)?.into_parts();
        self.accept_from(socket, &address)?;
        lock(&self.table.addresses).push(address.clone());
        Ok(address)
    }

    /// Has the first thread accept from a socket, and waits until it does.
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
    /// without delay.
    ///
    /// # Errors
    /// `Full` if there are as many as there may be.
    pub fn attach(&self, socket: OwnedFd) -> Result<u64> {
        let (peer, _) = address::peer(socket.as_fd());
        let Some(id) = self.table.admit(peer) else {
            let most = self.table.options.most_replicas;
            let text = format!("map '{}' has {most} replicas, the maximum", self.table.name);
            return Err(Error::new(ErrorKind::Full, text));
        };
        self.table.order(id, Order::Serve { id, socket });
        Ok(id)
    }

    /// Closes the connection to a replica; false if there is none of this number.
    pub fn detach(&self, id: u64) -> bool {
        let known = self.table.subscriber(id).is_some();
        self.table.order(id, Order::Dismiss(id));
        known
    }

    /// With [`Transmission::Explicit`]: sends every change that was made before this call. Does not
    /// wait for it.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped; those of a writing operation.
    pub fn transmit(&self) -> Result<()> {
        let end = self.table.map().follow()?.end()?;
        self.table.raise_limit(Some(end));
        Ok(())
    }

    /// Who is served.
    pub fn replicas(&self) -> Vec<ReplicaInfo> {
        self.table.replicas()
    }

    /// The offset of the stream that all replicas were sent everything up to; `None` if there are
    /// none that are served.
    pub fn sent_to_all(&self) -> Option<u64> {
        self.table.sent_to_all()
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<Address> {
        lock(&self.table.addresses).clone()
    }

    /// Accepts nobody any more, sends everybody what there is, waits until they have taken it and
    /// closed the connection, for so long at most, and ends. What a replica has not taken by then
    /// it is sent when there is an origin again.
    pub fn finish(mut self, time: Duration) {
        self.end(time);
    }

    fn end(&mut self, time: Duration) {
        if !self.threads.are_here() {
            return;
        }
        if !time.is_zero() {
            self.table.raise_limit(None);
        }
        // Before anybody who comes next finds the socket deaf.
        lock(&self.table.files).drain(..).for_each(|file| file.remove());
        serve::end(&self.table, time);
        self.threads.join_for(time.saturating_add(FAREWELL));
        self.table.close();
        self.watcher.join_for(FAREWELL);
        self.table.gate.close();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot serve replicas: {error}"))
}
