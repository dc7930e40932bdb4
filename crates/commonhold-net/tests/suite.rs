//! The tests of replication as its users see it: origins, replicas, relays, with real sockets and real processes.

#[path = "../../commonhold/tests/support/mod.rs"]
mod support;

mod cast;
mod crowds;
mod expiry;
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
