//! The tests of the file server as its clients see it: with real sockets and real processes.

#[cfg(all(feature = "steps", feature = "sqlite"))]
mod faults;
#[cfg(feature = "sqlite")]
mod server;
mod store;
