//! The writable side of a whole hold: serves its maps to replicas at one address.

use crate::holds::front::Front;
use crate::holds::served_maps::ServedMaps;
use crate::origin::subscriber_table::ReplicaInfo;
use crate::origin::{OriginOptions, Transmission, admission};
use commonhold::{Error, ErrorKind, Hold, Result};
use commonhold_io::address::{Address, Listener, SocketFile};
use commonhold_io::owned_threads::{JOIN_TIMEOUT, OwnedThreads};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How often it checks which maps there are.
const SCAN: Duration = Duration::from_millis(250);

/// Options of an origin of a whole hold.
#[derive(Clone, Debug, Default)]
pub struct HoldOriginOptions {
    /// The options of each map's origin. `io_threads` is the number of threads for each map, and
    /// `most_replicas` the most replicas of each map, and the most replicas of the whole hold.
    /// `transmission` must not be [`Transmission::Explicit`].
    pub origin: OriginOptions,
    /// Patterns of the names of the maps to serve: `*` stands for any characters, `?` for one.
    /// Empty for all maps.
    pub maps: Vec<String>,
}

/// A map that an origin of a whole hold serves.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ServedMap {
    /// Its name.
    pub name: String,
    /// Why it cannot be served at the moment; it is tried again.
    pub error: Option<String>,
    /// Its connected replicas.
    pub replicas: Vec<ReplicaInfo>,
}

/// Serves all maps of a hold to replicas, at the same addresses: those that exist, and those that
/// are created while it runs. Channels, logs and queues are not served, and neither are
/// Commonhold's own maps, whose names begin with a dot.
///
/// Each replica of a map has a connection of its own, which an [`Origin`](crate::Origin) of that
/// map serves. One more connection names the maps for a [`HoldReplica`](crate::HoldReplica), as
/// they come and go. A [`Replica`](crate::Replica) of one map gets the map of its own name, or the
/// one that [`ReplicaOptions::map`](crate::ReplicaOptions::map) names.
///
/// Each map gets a stream, and needs two threads or more. Dropping it, forking, and killing its
/// process are as for an [`Origin`](crate::Origin).
pub struct HoldOrigin {
    maps: Arc<ServedMaps>,
    /// Passes sockets that listen to the thread that accepts.
    listeners: Sender<OwnedFd>,
    /// Socket files that are removed in the end.
    files: Mutex<Vec<SocketFile>>,
    threads: OwnedThreads,
}

impl fmt::Debug for HoldOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldOrigin").field("maps", &self.maps()).finish_non_exhaustive()
    }
}

impl HoldOrigin {
    /// Begins to serve the maps of a hold, and streams of those that have none. A map that cannot
    /// be served, for example because the hold has no room for its stream, does not affect the
    /// others: see [`maps`](Self::maps).
    ///
    /// # Errors
    /// `Invalid` for a number of threads outside 1 to 64, an empty pattern, or
    /// [`Transmission::Explicit`]; `Io` if threads cannot be made.
    pub fn start(hold: &Hold, options: HoldOriginOptions) -> Result<HoldOrigin> {
        if options.origin.transmission == Transmission::Explicit {
            let text = "an origin of a whole hold sends changes as they happen; set \
                        Transmission::Automatic, or start an origin of one map";
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let maps = Arc::new(ServedMaps::new(hold, options)?);
        let (listeners, new_listeners) = channel();
        let (files, threads) = (Mutex::default(), OwnedThreads::default());
        let mut origin = HoldOrigin { maps, listeners, files, threads };
        // A replica that asks for the maps gets all of them.
        origin.maps.scan();
        let maps = Arc::clone(&origin.maps);
        origin.threads.push(spawn("hold scan", move || {
            while !maps.ending.sleep(SCAN) {
                maps.scan();
            }
        })?);
        let front = Front::new(&origin.maps, new_listeners);
        origin.threads.push(spawn("hold origin", move || front.run())?);
        Ok(origin)
    }

    /// Listens at an address; returns it, with the port that the system chose if it was 0. The
    /// socket of a unix address has the mode 0600, and is removed when the origin ends.
    ///
    /// # Errors
    /// As for [`Origin::listen`](crate::Origin::listen).
    pub fn listen(&self, address: &Address) -> Result<Address> {
        self.ensure_authenticates(address)?;
        self.accept_from(address.listen()?)
    }

    /// Accepts from a socket that listens already, such as one from systemd; returns its address.
    /// Its file is not removed.
    ///
    /// # Errors
    /// As for [`Origin::listen_on`](crate::Origin::listen_on).
    pub fn listen_on(&self, socket: OwnedFd) -> Result<Address> {
        let listener = Listener::given(socket)?;
        self.ensure_authenticates(listener.address())?;
        self.accept_from(listener)
    }

    fn ensure_authenticates(&self, address: &Address) -> Result<()> {
        admission::ensure_authenticates(&self.maps.options, address, "all maps of the hold")
    }

    fn accept_from(&self, listener: Listener) -> Result<Address> {
        let (socket, address, file) = listener.into_parts();
        admission::warning(&address).iter().for_each(|text| self.maps.notices.note(text));
        if let Err(error) = rustix::io::ioctl_fionbio(&socket, true) {
            file.iter().for_each(SocketFile::remove);
            let text = format!("{address}: cannot accept connections: {error}");
            return Err(Error::new(ErrorKind::Io, text));
        }
        lock(&self.maps.in_common.addresses).push(address.clone());
        lock(&self.files).extend(file);
        // The thread that takes it ends only when this is dropped.
        let _ = self.listeners.send(socket);
        Ok(address)
    }

    /// The addresses where it listens.
    pub fn addresses(&self) -> Vec<Address> {
        lock(&self.maps.in_common.addresses).clone()
    }

    /// The maps that it serves, with their replicas.
    pub fn maps(&self) -> Vec<ServedMap> {
        self.maps.all()
    }

    /// Stops accepting, sends all changes to all replicas, and ends; see
    /// [`Origin::finish`](crate::Origin::finish).
    pub fn finish(mut self, time: Duration) {
        self.end(time);
    }

    fn end(&mut self, time: Duration) {
        if !self.threads.are_here() {
            return;
        }
        // Before the next origin finds a socket without a listener.
        lock(&self.files).drain(..).for_each(|file| file.remove());
        self.maps.ending.begin();
        self.threads.join_for(JOIN_TIMEOUT);
        self.maps.finish(time);
        self.maps.notices.gate.close();
    }
}

impl Drop for HoldOrigin {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(run).map_err(|error| {
        Error::new(ErrorKind::Io, format!("cannot serve the maps of the hold: {error}"))
    })
}
