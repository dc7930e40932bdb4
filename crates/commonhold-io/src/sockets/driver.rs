//! The interface of all drivers: operations and completions.
//!
//! Invariant: each receive and each send completes exactly once, in [`Driver::wait`] and nowhere
//! else. This holds for refused ones, too: their buffer or payload comes back with an error.

use super::outgoing::Outgoing;
use super::waker::Waker;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// The id of a socket of one driver. It never names another socket of that driver later, also not
/// after this socket was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl SocketId {
    /// The id as one number: the generation in the upper half, the place in the table in the lower.
    /// Never `u64::MAX` or one less.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The reverse of [`to_bits`](Self::to_bits). Accepts any number: the driver refuses a number
    /// that names no socket, as it refuses an old id.
    #[must_use]
    pub fn from_bits(bits: u64) -> SocketId {
        SocketId { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// A completion: the result of an operation.
///
/// Besides the errors of the system call: `ECANCELED` if the socket was shut first, `EBADF` if the
/// id names no socket (any more), `EALREADY` if the socket had such an operation already, `EINVAL`
/// for a receive of at most 0 bytes, `ENOMEM` if there is no memory to receive into.
#[derive(Debug)]
pub enum Done<P> {
    /// A listener has a connection, or an error. After an error it accepts no more until the next
    /// [`accept`](Driver::accept).
    Accepted {
        /// The listener.
        listener: SocketId,
        /// The connection, nonblocking and close-on-exec; it belongs to no driver yet. `EMFILE` and
        /// `ENFILE`: descriptors have run out, so close some and accept again.
        result: io::Result<OwnedFd>,
    },
    /// A receive has ended.
    Received {
        /// The socket.
        socket: SocketId,
        /// The buffer of the receive; the received bytes stand behind its earlier contents.
        buffer: Vec<u8>,
        /// The number of bytes received; 0 is the end of the stream.
        result: io::Result<usize>,
    },
    /// A send has ended.
    Sent {
        /// The socket.
        socket: SocketId,
        /// The payload of the send.
        payload: P,
        /// The number of its bytes that the kernel has taken; often fewer than all.
        result: io::Result<usize>,
    },
    /// A [`Waker`] was used, once or more often.
    Woken,
}

/// A thread's socket I/O. Operations may be started at any time. System calls on sockets happen in
/// [`wait`](Self::wait) and in the driver's threads: one call per operation and turn, with a
/// bounded number of bytes.
///
/// Only [`wait`](Self::wait) blocks. No method raises SIGPIPE, except in a thread that sends files
/// and did not block the signal. Dropping a driver ends its operations, then its threads, and
/// closes its sockets; buffers and payloads that have not come back are dropped.
///
/// Sockets are connected stream sockets (TCP, Unix) or listeners of such.
pub trait Driver<P: Outgoing>: Sized {
    /// Takes a socket over. Makes it nonblocking and, if it is TCP, turns Nagle's delay off.
    ///
    /// # Errors
    /// Those of `ioctl`, and of `epoll_ctl` where it is used. The socket is closed then; its peer
    /// gets a reset, which is not an end of a stream.
    fn add(&mut self, socket: OwnedFd) -> io::Result<SocketId>;

    /// Accepts connections until an error, [`pause`](Self::pause) or [`shut`](Self::shut). Has no
    /// effect if the listener accepts already. Skips connections that their peers closed meanwhile.
    fn accept(&mut self, listener: SocketId);

    /// Stops accepting until the next [`accept`](Self::accept). A connection that was just being
    /// accepted is still delivered.
    fn pause(&mut self, listener: SocketId);

    /// Receives once: at least one and at most `at_most` bytes, behind the contents of `buffer`. A
    /// socket has one receive at a time. The memory is reserved at once.
    fn receive(&mut self, socket: SocketId, buffer: Vec<u8>, at_most: usize);

    /// Sends once: as much of `payload` as the kernel takes. A socket has one send at a time; it
    /// may have a receive as well.
    fn send(&mut self, socket: SocketId, payload: P);

    /// Ends the sending direction behind the bytes that sends have passed to the kernel: at once,
    /// or when the outstanding send completes. The peer receives these bytes, then the end of the
    /// stream; later sends fail with `EPIPE`.
    ///
    /// The socket still receives. Call [`shut`](Self::shut) when the peer has ended its direction,
    /// too, or when you stop waiting for that: shutting a TCP socket at once may destroy bytes that
    /// the peer has not read yet. Has no effect if the id names no socket, or its peer has left.
    fn finish(&mut self, socket: SocketId);

    /// Ends the socket. Its outstanding operations, accepting included, complete with `ECANCELED`
    /// or with the result that they had reached. The descriptor is closed after the last of them,
    /// in a later `wait`, or at once if there are none. The id names nothing from now on.
    fn shut(&mut self, socket: SocketId);

    /// Returns the descriptor, which is still nonblocking. Returns `None` and changes nothing if an
    /// operation is outstanding on it, accepting included, or if the id names no socket.
    fn release(&mut self, socket: SocketId) -> Option<OwnedFd>;

    /// The descriptor, for options of the socket; `None` if the id names no socket.
    fn descriptor(&mut self, socket: SocketId) -> Option<BorrowedFd<'_>>;

    /// The waker that makes [`wait`](Self::wait) return [`Done::Woken`], from any thread.
    fn waker(&self) -> Waker;

    /// Runs operations and appends completions to `done`. Returns once there is one, or after
    /// `timeout`; `None` waits without limit. Sleeps while there is nothing to do. With a timeout
    /// of zero it starts the operations and returns the completions that are there.
    ///
    /// # Errors
    /// Those of `epoll_wait` and `io_uring_enter`, for lack of memory. No operation is lost, and
    /// `wait` may be called again.
    /// be called again.
    fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Done<P>>) -> io::Result<()>;
}
