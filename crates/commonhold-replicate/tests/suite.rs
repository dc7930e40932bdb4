//! The tests of replication and journals as their users see them: with real sockets and processes.

mod cast;
mod crowds;
mod expiry;
#[cfg(feature = "steps")]
mod faults;
mod fork;
mod hostile;
mod journal;
mod kills;
mod links;
mod party;
mod patience;
mod replicate;
mod stairs;
mod stalls;
mod verify;
mod wire;
