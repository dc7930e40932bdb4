//! The interface of all drivers: what can be asked of one, and what comes back.
//!
//! Invariant: each receive and each send that is given completes exactly once, out of
//! [`Driver::wait`] and nowhere else. Also the refused ones: their buffer or payload comes back
//! with an error.

use super::outgoing::Outgoing;
use super::waker::Waker;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Names a socket of one driver. Never names another socket of it later, also not after this one is
/// gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl SocketId {
    /// As one number: the generation in the upper half, the place in the table in the lower. Never
    /// `u64::MAX` or one less.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The reverse of [`to_bits`](Self::to_bits). Any number will do: one that names no socket is
    /// refused like an old id.
    #[must_use]
    pub fn from_bits(bits: u64) -> SocketId {
        SocketId { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// A completion: what became of an operation.
///
/// Beside the errors of the system call: `ECANCELED` if the socket was shut first, `EBADF` if the
/// id named no socket (any more), `EALREADY` if the socket had such an operation already, `EINVAL`
/// to receive at most nothing, `ENOMEM` if there is no memory to receive into.
#[derive(Debug)]
pub enum Done<P> {
    /// A listener has a connection, or an error; after an error it accepts no more until it is
    /// asked again.
    Accepted {
        /// The listener.
        listener: SocketId,
        /// The connection, nonblocking and close-on-exec; it belongs to no driver yet. `EMFILE` and
        /// `ENFILE`: descriptors have run out, close some and ask again.
        result: io::Result<OwnedFd>,
    },
    /// A receive has ended.
    Received {
        /// The socket.
        socket: SocketId,
        /// The buffer that was given; what was received stands behind what it contained.
        buffer: Vec<u8>,
        /// How many bytes were received; 0 is the end of the stream.
        result: io::Result<usize>,
    },
    /// A send has ended.
    Sent {
        /// The socket.
        socket: SocketId,
        /// The payload that was given.
        payload: P,
        /// How many of its bytes the kernel has taken; often fewer than all.
        result: io::Result<usize>,
    },
    /// A [`Waker`] was used, once or more often.
    Woken,
}

/// A thread's socket I/O. Operations may be given at any time; system calls on sockets happen in
/// [`wait`](Self::wait) (and in threads that it sets going), a bounded number of bytes and one call
/// per operation and turn.
///
/// Only [`wait`](Self::wait) blocks. Nothing here raises SIGPIPE, save in a thread that sends files
/// and did not block it. Dropping a driver ends its operations, then its threads, and closes its
/// sockets; buffers and payloads that have not come back are dropped.
///
/// Sockets are connected stream sockets (TCP, Unix) or listeners of such.
pub trait Driver<P: Outgoing>: Sized {
    /// Takes a socket over. Makes it nonblocking and, if it is TCP, turns Nagle's delay off.
    ///
    /// # Errors
    /// Those of `ioctl`, and of `epoll_ctl` where it is used. The socket is closed then; its peer
    /// gets a reset, which is no end of a stream.
    fn add(&mut self, socket: OwnedFd) -> io::Result<SocketId>;

    /// Accepts connections until an error, [`pause`](Self::pause) or [`shut`](Self::shut). Nothing
    /// changes if it does so already. Connections that their peers gave up meanwhile are passed
    /// over.
    fn accept(&mut self, listener: SocketId);

    /// Accepts no more until asked again; a connection that was just being accepted is still
    /// delivered.
    fn pause(&mut self, listener: SocketId);

    /// Receives, once, at least one and at most `at_most` bytes behind the contents of `buffer`. A
    /// socket has one receive at a time. The memory is reserved at once.
    fn receive(&mut self, socket: SocketId, buffer: Vec<u8>, at_most: usize);

    /// Sends what the kernel takes of `payload`, once. A socket has one send at a time; it may have
    /// a receive as well.
    fn send(&mut self, socket: SocketId, payload: P);

    /// Ends the sending direction, behind the bytes that sends have achieved: at once, or when the
    /// send that is outstanding completes. Who reads at the other end gets what was sent, then the
    /// end of the stream; sends to come fail with `EPIPE`. It still receives, and is to be
    /// [`shut`](Self::shut) when the peer has ended, too, or nobody means to wait longer: who shuts
    /// a TCP socket at once may destroy what the peer has not read yet. Does nothing if the id
    /// names no socket, or its peer is gone.
    fn finish(&mut self, socket: SocketId);

    /// Ends the socket. Its outstanding operations complete with `ECANCELED`, or with what they had
    /// achieved, and so does an accept; when the last has, the descriptor is closed: in a `wait` to
    /// come, or at once if there are none. The id names nothing from now on.
    fn shut(&mut self, socket: SocketId);

    /// Gives the descriptor back, nonblocking still. `None`, and nothing changed, if something is
    /// outstanding on it, accepting included, or the id names no socket.
    fn release(&mut self, socket: SocketId) -> Option<OwnedFd>;

    /// What makes [`wait`](Self::wait) return [`Done::Woken`], from any thread.
    fn waker(&self) -> Waker;

    /// Carries operations out and appends completions to `done`. Returns once there is one, or
    /// after `timeout`; `None` waits without end. Sleeps while there is nothing to do. A timeout of
    /// zero starts what was given and takes what is complete.
    ///
    /// # Errors
    /// Those of `epoll_wait` and `io_uring_enter`, for want of memory. No operation is lost; it may
    /// be called again.
    fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Done<P>>) -> io::Result<()>;
}
