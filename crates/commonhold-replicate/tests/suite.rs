//! The tests of replication and journals as their users see them: with real sockets and processes.

mod access;
mod cast;
mod catch_up;
#[cfg(feature = "steps")]
mod clocks;
mod compression;
mod crowds;
mod descent;
mod expiry;
mod failover;
#[cfg(feature = "steps")]
mod faults;
mod fork;
mod history;
mod hold_journal;
mod holds;
mod hostile;
mod journal;
mod kills;
mod links;
mod lives;
mod party;
mod patience;
mod prefix;
mod replica_journal;
mod replicate;
mod rot;
mod sealing;
mod size_limit;
mod stairs;
mod stalls;
mod verify;
mod waiting;
mod wire;
