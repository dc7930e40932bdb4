//! A thread's socket I/O: operations are given to a driver, completions come back.
//!
//! [`Driver`] is the one interface, in proactor style: the driver owns what it sends and what it
//! receives into until it is done with it. Three drivers implement it; who writes a protocol writes
//! it once, generic over the driver, and it is compiled for each. Which one runs is chosen at the
//! edge ([`choose`]); nothing is called through a table of functions.
//!
//! | driver | who waits | who makes the system calls | per turn of 1,000 sends |
//! |---|---|---|---|
//! | [`Epoll`] | one epoll instance, edge-triggered | the thread itself | 1 `epoll_wait`, 1,000 `sendmsg` |
//! | [`Pool`] | the same | worker threads, one per core | the same, beside each other |
//! | [`Uring`] | the kernel | the kernel | 1 `io_uring_enter` |
//!
//! | module | idea |
//! |---|---|
//! | `driver` | the trait, the ids of sockets, the completions |
//! | `outgoing` | bytes that a driver sends, also ones that other processes write |
//! | `choose` | from a word on the command line to a running driver |
//! | `table` | the sockets of a driver: generations, one receive and one send each |
//! | `polled` | what `epoll` and `pool` share: readiness, turns, completions |
//! | `calls` | one system call on one socket, as a job |
//! | `epoll`, `pool` | who makes the calls of `polled` |
//! | `uring`, `ring` | the driver over `io_uring`; the entries of its queues |
//! | `waker`, `deadline` | how `wait` ends when no socket has anything to say |
//! | `error_backoff` | an error of `wait` that comes again and again |
//!
//! Common to all: a driver belongs to the thread that made it. Every receive and every send that
//! was given comes back exactly once, from [`Driver::wait`], whatever happens to its socket. No
//! peer can starve another: an operation gets one system call per turn, then the others have
//! theirs. Unsafe are only `outgoing`, `calls`, `ring` and the three calls that `uring` makes of
//! `ring`.
//!
//! ```
//! use commonhold_io::sockets::{Bytes, Done, Driver, Epoll, Options};
//! use std::os::unix::net::UnixStream;
//!
//! let (here, there) = UnixStream::pair()?;
//! let mut driver = Epoll::new(&Options::default())?;
//! let here = driver.add(here.into())?;
//! let there = driver.add(there.into())?;
//! driver.send(here, Bytes::from(b"hello".to_vec()));
//! driver.receive(there, Vec::new(), 100);
//! let mut done = Vec::new();
//! while done.len() < 2 {
//!     driver.wait(None, &mut done)?;
//! }
//! let received = done.iter().find_map(|done| match done {
//!     Done::Received { buffer, .. } => Some(buffer.as_slice()),
//!     _ => None,
//! });
//! assert_eq!(received, Some(&b"hello"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```

mod calls;
mod choose;
mod deadline;
mod driver;
mod epoll;
mod error_backoff;
mod outgoing;
mod polled;
mod pool;
mod ring;
mod table;
#[cfg(test)]
mod tests;
mod uring;
mod waker;

pub use calls::block_broken_pipes;
pub(crate) use calls::peer_of_unix;
pub use choose::{Chosen, LoopKind, Options, WithDriver, choose};
pub use driver::{Done, Driver, SocketId};
pub use epoll::Epoll;
pub use error_backoff::ErrorBackoff;
pub use outgoing::{Bytes, FilePart, Outgoing};
pub use polled::Polled;
pub use pool::Pool;
pub use uring::Uring;
pub use waker::Waker;
