//! Maps over the network: [`origin`] serves one or all, [`replica`] keeps copies, [`relay`] does
//! both, [`verify`] compares them; [`journal`] keeps a copy in a file; [`sync`] waits until that
//! file has all changes, and [`wait`] until replicas have them.
//!
//! - [`serving`]: addresses and server options, for `origin` and `relay`
//! - [`following`]: the origin that is followed, and the reports, for `replica` and `relay`
//! - [`following_hold`]: all maps of a hold, for `replica`
//! - [`compress`]: the option for compression, for both sides
//! - [`secret`]: the file with the secret that both sides know
//! - [`timed_wait`]: the result of a wait with a time limit, for `sync` and `wait`
//! - [`service`]: running until a signal comes, or until there is nothing left to serve
//! - [`reports`]: their reports, for `hold stat`
//!
//! Invariant: standard error has one line per event; only `--format json` writes to standard
//! output, one object per line, for scripts that wait for it.

mod compress;
mod following;
mod following_hold;
pub mod journal;
pub mod origin;
pub mod promote;
pub mod relay;
pub mod replica;
pub mod secret;
pub mod service;
pub mod serving;
pub mod sync;
mod timed_wait;
pub mod verify;
pub mod wait;
