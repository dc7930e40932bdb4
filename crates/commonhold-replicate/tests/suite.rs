//! The tests of replication and of the file server as their users see them: with real sockets and real processes.

#[path = "../../commonhold/tests/support/mod.rs"]
mod support;

mod cast;
mod crowds;
mod expiry;
#[cfg(feature = "steps")]
mod faults;
#[cfg(feature = "sqlite")]
mod files;
mod fork;
mod hostile;
mod journal;
mod kills;
mod links;
mod party;
mod replicate;
mod stairs;
mod stalls;
mod store;
mod verify;
mod wire;
