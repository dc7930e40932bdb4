//! The parts that [`commonhold`]'s network crates share: sockets, addresses, and reports in a hold.
//!
//! ```
//! use commonhold_io::address::Address;
//! use commonhold_io::sockets::{Bytes, Done, Driver, Epoll, Options};
//! use std::time::Duration;
//!
//! // A listener on the loopback interface, and a client in this process.
//! let listener = "tcp:127.0.0.1:0".parse::<Address>()?.listen()?;
//! let address = listener.address().clone();
//! let client = address.connect(Duration::from_secs(5))?;
//!
//! // One thread serves any number of sockets through a driver.
//! let mut driver = Epoll::new(&Options::default())?;
//! let (socket, ..) = listener.into_parts();
//! let listener = driver.add(socket)?;
//! let client = driver.add(client)?;
//! driver.accept(listener);
//! driver.send(client, Bytes::from(b"hello".to_vec()));
//! let mut done = Vec::new();
//! while !done.iter().any(|done| matches!(done, Done::Accepted { result: Ok(_), .. })) {
//!     driver.wait(None, &mut done)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | idea |
//! |---|---|
//! | [`sockets`] | a thread's socket I/O by completions: epoll, a pool of threads, io_uring |
//! | [`address`] | where a server listens and a client connects: `unix:PATH`, `tcp:HOST:PORT` |
//! | [`reports`] | what origins, replicas, journals and servers report to `hold stat` |
//! | [`named_choice`](mod@named_choice) | an enum whose variants have names on a command line |
//! | [`owned_threads`] | the threads of a handle, which a forked child does not have |
//! | [`thread_patience`] | how long a thread waits for locks in one call |
//! | [`fault_errno`] | a fault of a test as the error of a system call |

pub mod address;
pub mod callback_gate;
pub mod fault_errno;
#[cfg(feature = "steps")]
#[doc(hidden)]
pub mod faults;
pub mod named_choice;
pub mod owned_threads;
pub mod reports;
pub mod sockets;
pub mod thread_patience;
