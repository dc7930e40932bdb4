//! The thread of an origin of a whole hold that accepts connections. It waits until a peer has
//! identified itself, and passes the connection to the origin of the map that the peer wants. It
//! keeps the connections that get the catalogue.
//!
//! Invariant: nothing here waits for a peer, or for a process that has the hold open.

use crate::holds::ending::wait;
use crate::holds::peer::Peer;
use crate::holds::served_maps::{ServedMaps, Unserved};
use crate::origin::admission;
use crate::origin::handshake::Greeted;
use crate::origin::limits::MOST_JOINING;
use crate::origin::session::NO_PLACE;
use crate::protocol::wire::Broken;
use crate::protocol::wish::Wish;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How often all peers are checked, and the catalogue is compared.
const TICK: Duration = Duration::from_millis(100);
/// How long accepting pauses after descriptors had run out.
const RETRY_ACCEPT: Duration = Duration::from_millis(500);
/// The most connections of one listener that are accepted in a row.
const MOST_ACCEPTED: usize = 64;

/// See the module.
pub(super) struct Front {
    maps: Arc<ServedMaps>,
    /// Sockets that listen.
    new_listeners: Receiver<OwnedFd>,
    listeners: Vec<OwnedFd>,
    /// By the order in which they came.
    peers: BTreeMap<u64, Peer>,
    next: u64,
    /// Until then nothing is accepted.
    paused: Option<Instant>,
}

impl Front {
    pub(super) fn new(maps: &Arc<ServedMaps>, new_listeners: Receiver<OwnedFd>) -> Front {
        let (maps, listeners, peers) = (Arc::clone(maps), Vec::new(), BTreeMap::new());
        Front { maps, new_listeners, listeners, peers, next: 0, paused: None }
    }

    /// Runs until the origin ends.
    pub(super) fn run(mut self) {
        let mut tick = Instant::now();
        while !self.maps.ending.is_over() {
            let (accepting, ready) = self.wait(tick.saturating_duration_since(Instant::now()));
            self.listeners.extend(self.new_listeners.try_iter());
            accepting.into_iter().for_each(|listener| self.accept(listener));
            let now = Instant::now();
            ready.into_iter().for_each(|peer| self.turn(peer, now, Self::receive));
            if now >= tick {
                tick = now + TICK;
                self.paused = self.paused.filter(|until| now < *until);
                let all: Vec<_> = self.peers.keys().copied().collect();
                all.into_iter().for_each(|peer| self.turn(peer, now, Self::check));
            }
        }
        // The connections end although a forked child has copies of the sockets.
        self.peers.values().for_each(close);
    }

    /// Waits; returns the places of the listeners and the numbers of the peers that are ready.
    fn wait(&self, time: Duration) -> (Vec<usize>, Vec<u64>) {
        let listeners = if self.paused.is_none() { &self.listeners[..] } else { &[] };
        let end = PollFd::new(&self.maps.ending.descriptor, PollFlags::IN);
        let mut fds: Vec<_> = std::iter::once(end)
            .chain(listeners.iter().map(|socket| PollFd::new(socket, PollFlags::IN)))
            .chain(self.peers.values().map(|peer| PollFd::new(&peer.socket, peer.wanted())))
            .collect();
        wait(&mut fds, time);
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (accepting, peers) = fds[1..].split_at(listeners.len());
        let accepting = accepting.iter().enumerate().filter(|(_, fd)| is_ready(fd));
        let ready = self.peers.keys().zip(peers).filter(|(_, fd)| is_ready(fd));
        (accepting.map(|(at, _)| at).collect(), ready.map(|(peer, _)| *peer).collect())
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..MOST_ACCEPTED {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(&self.listeners[listener], flags) {
                Ok(socket) => self.admit(socket),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => {
                    let text = format!("cannot accept connections: {error}; retrying");
                    self.maps.notices.note(&text);
                    self.paused = Some(Instant::now() + RETRY_ACCEPT);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd) {
        match admission::peer_of(&self.maps.options, &socket) {
            Ok(name) => {
                self.make_room();
                self.peers.insert(self.next, Peer::new(socket, name));
                self.next += 1;
            }
            Err(refusal) => self.maps.notices.note_stranger(&refusal),
        }
    }

    /// If too many peers have not identified themselves yet, the oldest of them has to go.
    fn make_room(&mut self) {
        let mut joining = self.peers.iter().filter(|(_, peer)| peer.is_joining());
        let oldest = joining.next().map(|(oldest, _)| *oldest);
        if let Some(oldest) = oldest.filter(|_| joining.count() + 1 >= MOST_JOINING)
            && let Some(peer) = self.peers.remove(&oldest)
        {
            self.dismiss(&peer, "had not identified itself when many others came");
        }
    }

    /// Lets one peer have its turn, and keeps it unless it was passed on or has to go.
    fn turn(
        &mut self,
        number: u64,
        now: Instant,
        act: impl FnOnce(&Front, &mut Peer, Instant) -> Result<Option<Greeted>, Broken>,
    ) {
        let Some(mut peer) = self.peers.remove(&number) else { return };
        let acted = match act(self, &mut peer, now) {
            Ok(None) => peer.send(now),
            Ok(Some(greeted)) if greeted.hello.wish() == Some(Wish::Catalogue) => {
                self.begin_catalogue(&greeted, &mut peer, now).and_then(|()| peer.send(now))
            }
            Ok(Some(greeted)) => match self.place(greeted, peer) {
                None => return,
                Some(kept) => {
                    peer = kept;
                    peer.send(now)
                }
            },
            Err(error) => Err(error),
        };
        match acted {
            Ok(()) => drop(self.peers.insert(number, peer)),
            Err(Broken(why)) => self.dismiss(&peer, &why),
        }
    }

    fn receive(&self, peer: &mut Peer, _now: Instant) -> Result<Option<Greeted>, Broken> {
        peer.receive(self.maps.options.secret.as_ref())
    }

    fn check(&self, peer: &mut Peer, now: Instant) -> Result<Option<Greeted>, Broken> {
        peer.ensure_in_time(now)?;
        peer.inform(&self.maps, now);
        Ok(None)
    }

    /// Passes a peer that has identified itself to the origin of its map, or returns it with a
    /// refusal.
    fn place(&self, greeted: Greeted, mut peer: Peer) -> Option<Peer> {
        let map = match greeted.hello.wish() {
            Some(Wish::AnyOrMap(map) | Wish::Map(map)) => map,
            Some(Wish::Catalogue) | None => {
                let text = "serves all maps of a hold, and the replica does not name one of them; \
                            update the replica's program, or start an origin of one map ('hold \
                            origin HOLD MAP')";
                peer.refuse(text.to_owned());
                return Some(peer);
            }
        };
        let name = peer.name.clone();
        match self.maps.pass(&map, peer, greeted) {
            Ok(()) => None,
            Err(Unserved::NoPlace(why)) => {
                self.maps.notices.note_stranger(&format!("{name}: {why}"));
                None
            }
            Err(Unserved::Map(mut peer, why)) => {
                peer.refuse(why);
                Some(*peer)
            }
        }
    }

    /// # Errors
    /// The fault of its bytes.
    fn begin_catalogue(
        &self,
        greeted: &Greeted,
        peer: &mut Peer,
        now: Instant,
    ) -> Result<(), Broken> {
        let others = self.peers.values().filter(|peer| !peer.is_joining()).count();
        if others >= self.maps.options.most_replicas {
            peer.refuse(NO_PLACE.to_owned());
            return Ok(());
        }
        let hold = self.maps.hold.path().file_name().unwrap_or_default();
        let secret = self.maps.options.secret.as_ref();
        peer.begin_catalogue(greeted, secret, hold.to_string_lossy().into_owned())?;
        peer.inform(&self.maps, now);
        self.maps.notices.note(&format!("{}: follows the hold", peer.name));
        Ok(())
    }

    fn dismiss(&self, peer: &Peer, why: &str) {
        // A forked child may have the socket, too: its connection ends all the same.
        close(peer);
        let text = format!("{}: {why}", peer.name);
        match peer.is_joining() {
            true => self.maps.notices.note_stranger(&text),
            false => self.maps.notices.note(&text),
        }
    }
}

fn close(peer: &Peer) {
    // It can only fail because the connection has ended already.
    let _ = shutdown(&peer.socket, Shutdown::Both);
}
