//! A thread's socket I/O: a driver takes operations and returns completions.
//!
//! [`Driver`] is the one interface, in proactor style: the driver owns the bytes that it sends and
//! the buffers that it receives into until it is done with them. Three drivers implement it. A
//! protocol is written once, generic over the driver, and compiled for each. The driver is chosen
//! at the edge ([`choose`]); nothing is called through a table of functions.
//!
//! | driver | waits | makes the system calls | per turn of 1,000 sends |
//! |---|---|---|---|
//! | [`Epoll`] | edge-triggered epoll | the thread itself | 1 `epoll_wait`, 1,000 `sendmsg` |
//! | [`Pool`] | the same | worker threads, one per core | the same, in parallel |
//! | [`Uring`] | the kernel | the kernel | 1 `io_uring_enter` |
//!
//! | module | idea |
//! |---|---|
//! | `driver` | the trait, the ids of sockets, the completions |
//! | `outgoing` | bytes that a driver sends, also ones that other processes write |
//! | `choose` | from a word on the command line to a running driver |
//! | `table` | the sockets of a driver: generations, one receive and one send each |
//! | `polled` | the common part of `epoll` and `pool`: readiness, turns, completions |
//! | `calls` | one system call on one socket, as a job |
//! | `epoll`, `pool` | the threads that make the calls of `polled` |
//! | `uring`, `ring` | the driver over `io_uring`; the entries of its queues |
//! | `waker`, `deadline` | how `wait` ends without an event of a socket |
//! | `error_backoff` | an error of `wait` that comes again and again |
//!
//! Common to all: a driver belongs to the thread that made it. Every receive and every send comes
//! back exactly once, from [`Driver::wait`], whatever happens to its socket. No peer can starve
//! another: an operation gets one system call per turn, then the others have theirs. Only
//! `outgoing`, `calls`, `ring` and the three calls that `uring` makes of `ring` are unsafe.
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
mod pacing;
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
pub use pacing::stop_pacing;
pub use polled::Polled;
pub use pool::Pool;
pub use uring::Uring;
pub use waker::Waker;
