//! The sockets of a driver: their ids, and the outstanding operations of each.
//!
//! Invariants:
//! - a socket's place is taken again only when nothing is outstanding on it any more, and under the
//!   next generation; a place whose generations are used up is left alone;
//! - an operation is refused or stored, and one that is refused has a completion in `early`;
//! - a descriptor is closed or returned only while no side of its socket is running.

use super::calls::Receive;
use super::driver::{Done, SocketId};
use commonhold::fault;
use rustix::io::ioctl_fionbio;
use rustix::net::Shutdown;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// One kind of operation on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Accept,
    Receive,
    Send,
}

/// The outstanding operation of one kind.
#[derive(Debug)]
pub(super) struct Side<T> {
    /// The operation's data; for an accept, that connections are requested. Absent while a job has
    /// it.
    pub(super) given: Option<T>,
    /// The kernel or a job works on it.
    pub(super) running: bool,
    /// Polled drivers: no call is known to have to wait. Cleared when a call begins, set by an
    /// event of epoll.
    pub(super) ready: bool,
    /// Polled drivers: it is in the next turn.
    pub(super) queued: bool,
}

impl<T> Side<T> {
    fn new() -> Side<T> {
        Side { given: None, running: false, ready: true, queued: false }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.given.is_none() && !self.running
    }

    /// Whether the side goes into the next turn now.
    pub(super) fn queue(&mut self) -> bool {
        let due = self.given.is_some() && self.ready && !self.running && !self.queued;
        self.queued |= due;
        due
    }

    /// The beginning of a call: every later event of epoll comes after it.
    pub(super) fn start(&mut self) {
        (self.running, self.ready) = (true, false);
    }

    /// The end of a call on a polled socket: returns the operation's data and the result, if the
    /// call completes the operation. Otherwise the data is stored again. `more`: the next call need
    /// not wait, as far as is known.
    pub(super) fn stop(
        &mut self,
        given: T,
        result: io::Result<usize>,
        more: bool,
        shut: bool,
    ) -> Option<(T, io::Result<usize>)> {
        self.running = false;
        let waits = matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        match waits {
            true if shut => Some((given, Err(failed(libc::ECANCELED)))),
            true => {
                self.given = Some(given);
                None
            }
            false => {
                self.ready |= more;
                Some((given, result))
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Socket<P> {
    pub(super) fd: OwnedFd,
    pub(super) accept: Side<()>,
    pub(super) receive: Side<Receive>,
    pub(super) send: Side<P>,
    /// The socket was shut; it is closed when nothing is outstanding any more.
    pub(super) shut: bool,
    /// Polled drivers: the stream ended or broke; epoll reports that once, so receiving stays
    /// ready.
    pub(super) ended: bool,
    /// Cancellations that the kernel has not answered; they name the descriptor.
    pub(super) cancels: u32,
    /// The sending direction ends when no send is outstanding.
    pub(super) finishing: bool,
}

impl<P> Socket<P> {
    fn new(fd: OwnedFd) -> Socket<P> {
        let (accept, receive, send) = (Side::new(), Side::new(), Side::new());
        let (shut, ended, finishing) = (false, false, false);
        Socket { fd, accept, receive, send, shut, ended, cancels: 0, finishing }
    }

    /// Called after each send: ends the sending direction if that was requested and nothing is
    /// being sent.
    pub(super) fn finish_if_due(&mut self) {
        if self.finishing && self.send.is_idle() {
            self.finishing = false;
            // It can only fail because the socket is a listener, or its peer has left.
            let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.accept.is_idle() && self.receive.is_idle() && self.send.is_idle() && self.cancels == 0
    }
}

#[derive(Debug)]
struct Place<P> {
    generation: u32,
    socket: Option<Socket<P>>,
}

/// All sockets of one driver, and the completions that needed no turn.
#[derive(Debug)]
pub(super) struct Table<P> {
    places: Vec<Place<P>>,
    free: Vec<u32>,
    early: Vec<Done<P>>,
}

impl<P> Default for Table<P> {
    fn default() -> Table<P> {
        Table { places: Vec::new(), free: Vec::new(), early: Vec::new() }
    }
}

/// Makes the closing of a socket send a reset.
pub(super) fn reset(fd: &OwnedFd) {
    // Where that fails the peer has left, or it is a listener.
    let _ = rustix::net::sockopt::set_socket_linger(fd, Some(Duration::ZERO));
}

pub(super) fn failed(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

impl<P> Table<P> {
    /// Takes a socket over.
    ///
    /// # Errors
    /// Those of `ioctl`; `ENFILE` if the table can take no more.
    pub(super) fn add(&mut self, fd: OwnedFd) -> io::Result<SocketId> {
        let nonblocking = fault!("event.nonblocking").and_then(|()| Ok(ioctl_fionbio(&fd, true)?));
        nonblocking.inspect_err(|_| reset(&fd))?;
        // A socket that is not TCP has no delay to turn off.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&fd, true);
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.places.len()).ok().filter(|&at| at < u32::MAX - 1);
                let index = index.ok_or_else(|| failed(libc::ENFILE))?;
                self.places.push(Place { generation: 0, socket: None });
                index
            }
        };
        let place = &mut self.places[index as usize];
        place.socket = Some(Socket::new(fd));
        Ok(SocketId { index, generation: place.generation })
    }

    /// The socket, unless it was shut.
    pub(super) fn open(&mut self, id: SocketId) -> Option<&mut Socket<P>> {
        self.get(id).filter(|socket| !socket.shut)
    }

    /// The socket, also while it waits to be closed.
    pub(super) fn get(&mut self, id: SocketId) -> Option<&mut Socket<P>> {
        let place = self.places.get_mut(id.index as usize)?;
        place.socket.as_mut().filter(|_| place.generation == id.generation)
    }

    /// The id of the socket in a place.
    pub(super) fn id(&self, index: u32) -> Option<SocketId> {
        let place = self.places.get(index as usize)?;
        place.socket.is_some().then_some(SocketId { index, generation: place.generation })
    }

    /// Notes that connections are requested; returns whether that is new.
    pub(super) fn begin_accept(&mut self, listener: SocketId) -> bool {
        match self.open(listener) {
            Some(socket) => socket.accept.given.replace(()).is_none(),
            None => {
                let result = Err(failed(libc::EBADF));
                self.early.push(Done::Accepted { listener, result });
                false
            }
        }
    }

    /// Stores a receive; `false` if it was refused.
    pub(super) fn begin_receive(&mut self, id: SocketId, buffer: Vec<u8>, at_most: usize) -> bool {
        let refused = match (self.open(id), Receive::new(buffer, at_most)) {
            (None, Ok(receive)) => (receive.into_buffer(), failed(libc::EBADF)),
            (None, Err((buffer, _))) => (buffer, failed(libc::EBADF)),
            (Some(_), Err(refused)) => refused,
            (Some(socket), Ok(receive)) if socket.receive.is_idle() => {
                socket.receive.given = Some(receive);
                return true;
            }
            (Some(_), Ok(receive)) => (receive.into_buffer(), failed(libc::EALREADY)),
        };
        let (buffer, error) = refused;
        self.early.push(Done::Received { socket: id, buffer, result: Err(error) });
        false
    }

    /// Stores a send; `false` if it was refused.
    pub(super) fn begin_send(&mut self, id: SocketId, payload: P) -> bool {
        let error = match self.open(id) {
            Some(socket) if socket.send.is_idle() => {
                socket.send.given = Some(payload);
                return true;
            }
            Some(_) => failed(libc::EALREADY),
            None => failed(libc::EBADF),
        };
        self.early.push(Done::Sent { socket: id, payload, result: Err(error) });
        false
    }

    /// Ends the sending direction of a socket, behind a send that is outstanding.
    pub(super) fn finish(&mut self, id: SocketId) {
        if let Some(socket) = self.open(id) {
            socket.finishing = true;
            socket.finish_if_due();
        }
    }

    /// Cancels the operations of a socket that was shut, unless they are running; closes it if
    /// nothing is left.
    pub(super) fn cancel(&mut self, id: SocketId) {
        let Some(socket) = self.places.get_mut(id.index as usize).and_then(|at| at.socket.as_mut())
        else {
            return;
        };
        if !socket.accept.running && socket.accept.given.take().is_some() {
            let result = Err(failed(libc::ECANCELED));
            self.early.push(Done::Accepted { listener: id, result });
        }
        if !socket.receive.running
            && let Some(receive) = socket.receive.given.take()
        {
            let (buffer, result) = (receive.into_buffer(), Err(failed(libc::ECANCELED)));
            self.early.push(Done::Received { socket: id, buffer, result });
        }
        if !socket.send.running
            && let Some(payload) = socket.send.given.take()
        {
            let result = Err(failed(libc::ECANCELED));
            self.early.push(Done::Sent { socket: id, payload, result });
        }
        self.close_if_idle(id);
    }

    /// Closes a socket that was shut, if nothing is outstanding on it.
    pub(super) fn close_if_idle(&mut self, id: SocketId) {
        if let Some(socket) = self.get(id).filter(|socket| socket.shut && socket.is_idle()) {
            socket.finish_if_due();
            self.vacate(id);
        }
    }

    /// Takes a socket out of the table, if nothing is outstanding on it.
    pub(super) fn release(&mut self, id: SocketId) -> Option<OwnedFd> {
        let idle = self.open(id)?.is_idle();
        if idle { self.vacate(id) } else { None }
    }

    fn vacate(&mut self, id: SocketId) -> Option<OwnedFd> {
        let place = self.places.get_mut(id.index as usize)?;
        let socket = place.socket.take()?;
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(id.index);
        }
        Some(socket.fd)
    }

    /// Closes all sockets, and leaks the memory that may still be read or written for them.
    pub(super) fn abandon(self) {
        for Socket { fd, receive, send, .. } in self.places.into_iter().filter_map(|at| at.socket) {
            // An operation of the kernel's keeps the socket itself open.
            drop(fd);
            mem::forget((receive.given, send.given));
        }
    }

    pub(super) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// Appends the completions that needed no turn.
    pub(super) fn take_early(&mut self, done: &mut Vec<Done<P>>) {
        done.append(&mut self.early);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn socket() -> OwnedFd {
        UnixStream::pair().unwrap().0.into()
    }

    #[test]
    fn a_place_is_taken_again_under_another_id() {
        let mut table = Table::<()>::default();
        let first = table.add(socket()).unwrap();
        assert!(table.release(first).is_some());
        let second = table.add(socket()).unwrap();
        assert_eq!(first.index, second.index);
        assert_ne!(first, second);
        assert!(table.get(first).is_none() && table.get(second).is_some());
    }

    #[test]
    fn a_place_without_generations_left_is_not_taken_again() {
        let mut table = Table::<()>::default();
        let first = table.add(socket()).unwrap();
        table.places[0].generation = u32::MAX;
        let last = table.id(first.index).unwrap();
        assert!(table.release(last).is_some());
        assert_ne!(table.add(socket()).unwrap().index, first.index);
    }

    #[test]
    fn ids_survive_being_numbers() {
        let id = SocketId { index: 7, generation: u32::MAX };
        assert_eq!(SocketId::from_bits(id.to_bits()), id);
    }
}
