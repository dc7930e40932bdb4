//! One system call on one socket, as a job that any thread can do.
//!
//! Invariant: no call here waits for a peer, or moves more than [`MOST`] bytes; a file that is sent
//! may have to be read from a disk first. No call raises a signal, provided that
//! [`block_broken_pipes`] was called before files are sent.
//!
//! # Safety
//! Unsafe to receive into memory that is not initialized, to send from addresses, and to use a
//! descriptor that the table of sockets keeps open.
#![allow(unsafe_code)]

use super::driver::SocketId;
use super::outgoing::{FilePart, Outgoing};
use crate::fault_errno::errno;
use commonhold::{fault, shortened};
use rustix::io::retry_on_intr;
use rustix::net::SocketFlags;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

/// The largest number of bytes that one call moves. It is less than the kernel's own limit, so a
/// call at that limit is not mistaken for a full buffer.
pub(super) const MOST: usize = 1 << 30;

/// A buffer to receive into, with room for `at_most` bytes behind its contents.
///
/// Invariant: `buffer` has that much capacity to spare. Only [`received`](Self::received) changes
/// it.
#[derive(Debug)]
pub struct Receive {
    buffer: Vec<u8>,
    at_most: usize,
}

impl Receive {
    /// # Errors
    /// `EINVAL` if `at_most` is 0, `ENOMEM`; both return the buffer unchanged.
    pub(super) fn new(
        mut buffer: Vec<u8>,
        at_most: usize,
    ) -> Result<Receive, (Vec<u8>, io::Error)> {
        let at_most = at_most.min(MOST);
        if at_most == 0 {
            return Err((buffer, io::Error::from_raw_os_error(libc::EINVAL)));
        }
        match buffer.try_reserve(at_most) {
            Ok(()) => Ok(Receive { buffer, at_most }),
            Err(_) => Err((buffer, io::Error::from_raw_os_error(libc::ENOMEM))),
        }
    }

    /// The address and the length of the room. It is writable as long as this value lives, wherever
    /// the value is moved to.
    pub(super) fn space(&mut self) -> (*mut u8, usize) {
        (self.buffer.spare_capacity_mut().as_mut_ptr().cast(), self.at_most)
    }

    /// # Safety
    /// `len` bytes, at most those of [`space`](Self::space), were written there.
    pub(super) unsafe fn received(&mut self, len: usize) {
        // SAFETY: within the capacity by the type's invariant, and initialized by the caller's
        // promise.
        unsafe { self.buffer.set_len(self.buffer.len() + len) };
        self.at_most -= len;
    }

    pub(super) fn at_most(&self) -> usize {
        self.at_most
    }

    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

/// The work of a job, with its data.
pub enum Work<P> {
    /// Holds the connection once there is one.
    Accept(Option<OwnedFd>),
    Receive(Receive),
    Send(P),
}

/// A call on a socket. The result is the number of bytes.
pub struct Job<P> {
    pub(super) socket: SocketId,
    /// Open until the job is taken back: the table closes no socket that has a job running.
    pub(super) fd: RawFd,
    pub(super) work: Work<P>,
    pub(super) result: io::Result<usize>,
    /// The call moved fewer bytes than it could have.
    pub(super) short: bool,
}

impl<P: Outgoing> Job<P> {
    pub(super) fn new(socket: SocketId, fd: RawFd, work: Work<P>) -> Job<P> {
        Job { socket, fd, work, result: Ok(0), short: false }
    }

    /// Makes the call; repeats it after a signal.
    pub(super) fn run(&mut self) {
        // SAFETY: the descriptor is open until the job is taken back.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        self.result = match &mut self.work {
            Work::Accept(connection) => accept(fd).map(|fd| *connection = Some(fd)).map(|()| 0),
            Work::Receive(into) => {
                let most = shortened!("event.receive-bytes", into.at_most());
                receive(fd, into, most).inspect(|&len| self.short = len > 0 && len < most)
            }
            Work::Send(payload) => match payload.file() {
                // Fewer bytes may also mean that the file has ended: never short.
                Some(part) => send_file(fd, part),
                None => {
                    let parts = clipped(payload.parts(), shortened!("event.send-bytes", MOST));
                    let most = parts[0].iov_len + parts[1].iov_len;
                    // SAFETY: the payload lives, and promises that its parts are readable.
                    unsafe { send(fd, parts, flags(payload)) }
                        .inspect(|&len| self.short = len < most)
                }
            },
        };
    }
}

fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(retry_on_intr(|| {
        errno(fault!("event.accept"))?;
        rustix::net::accept_with(listener, flags)
    })?)
}

/// Whether an accept met a connection that its peer closed before it was accepted: the next
/// connection is not affected.
pub(super) fn is_passed_over(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ECONNABORTED | libc::EPROTO | libc::EINTR))
}

fn receive(socket: BorrowedFd<'_>, into: &mut Receive, most: usize) -> io::Result<usize> {
    let (space, room) = into.space();
    let most = most.min(room);
    let len = repeated(|| {
        fault!("event.receive")?;
        // SAFETY: `space` is writable for `most` bytes.
        let read =
            unsafe { libc::recv(socket.as_raw_fd(), space.cast(), most, libc::MSG_DONTWAIT) };
        checked(read)
    })?;
    // SAFETY: the kernel wrote `len` bytes, at most `most`.
    unsafe { into.received(len) };
    Ok(len)
}

/// # Safety
/// The parts are readable.
unsafe fn send(
    socket: BorrowedFd<'_>,
    mut parts: [libc::iovec; 2],
    flags: i32,
) -> io::Result<usize> {
    let message = message(&mut parts);
    repeated(|| {
        fault!("event.send")?;
        // SAFETY: the message and its parts live; the bytes are readable by the caller's promise.
        let sent =
            unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags | libc::MSG_DONTWAIT) };
        checked(sent)
    })
}

/// How a payload's ranges are sent.
pub(super) fn flags<P: Outgoing>(payload: &P) -> i32 {
    libc::MSG_NOSIGNAL | if payload.is_followed() { libc::MSG_MORE } else { 0 }
}

/// Sends as much of a part of a file as the socket takes; 0 if the file ends before the part.
pub(super) fn send_file(socket: BorrowedFd<'_>, part: FilePart<'_>) -> io::Result<usize> {
    let most = shortened!("event.sendfile-bytes", part.len.min(MOST));
    let sent = retry_on_intr(|| {
        errno(fault!("event.sendfile"))?;
        let mut offset = part.offset;
        rustix::fs::sendfile(socket, part.file, Some(&mut offset), most)
    });
    Ok(sent?)
}

/// Blocks SIGPIPE in this thread and those that it starts. `sendfile` has no flag for that, so a
/// thread that may send files to a closed peer must call this first.
pub fn block_broken_pipes() {
    // SAFETY: the set is this function's own, and initialized by `sigemptyset`; both calls cannot
    // fail on valid arguments.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut());
    }
}

/// The first `most` bytes of the parts.
pub(super) fn clipped([mut first, mut second]: [libc::iovec; 2], most: usize) -> [libc::iovec; 2] {
    first.iov_len = first.iov_len.min(most);
    second.iov_len = second.iov_len.min(most - first.iov_len);
    [first, second]
}

/// A message of these parts without an address. It points to them.
pub(super) fn message(parts: *mut [libc::iovec; 2]) -> libc::msghdr {
    // SAFETY: numbers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = parts.cast();
    message.msg_iovlen = 2;
    message
}

/// Makes a call; repeats it after a signal.
fn repeated(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Converts the return value of a call that was just made.
fn checked(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// Process and user at the other end of a unix socket, as they were when it connected; the process
/// is 0 if it is of another namespace. `None` if the system does not know.
pub(crate) fn peer_of_unix(socket: BorrowedFd<'_>) -> Option<(i32, u32)> {
    let mut found = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `found`, which has `len` bytes and outlives
    // the call; any bytes are a `ucred`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut len,
        )
    };
    let known = result == 0 && len as usize == size_of::<libc::ucred>();
    (known && found.uid != libc::uid_t::MAX).then_some((found.pid, found.uid))
}
