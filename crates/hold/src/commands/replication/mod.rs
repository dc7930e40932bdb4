//! Maps over the network: [`origin`] serves one, [`replica`] keeps a copy of one, [`relay`] does
//! both, [`verify`] compares them; [`journal`] keeps a copy in a file, and [`sync`] waits until
//! that file has all changes.
//!
//! - [`serving`]: addresses and server options, for `origin` and `relay`
//! - [`following`]: the origin that is followed, and the reports, for `replica` and `relay`
//! - [`secret`]: the file with the secret that both sides know
//! - [`service`]: running until a signal comes, or until there is nothing left to serve
//! - [`reports`]: their reports, for `hold stat`
//!
//! Invariant: standard error has one line per event; only `--format json` writes to standard
//! output, one object per line, for scripts that wait for it.

mod following;
pub mod journal;
pub mod origin;
pub mod relay;
pub mod replica;
mod secret;
pub mod service;
pub mod serving;
pub mod sync;
pub mod verify;
