//! Maps over the network: [`origin`] serves one, [`replica`] keeps a copy of one, [`relay`] does
//! both, [`verify`] compares them; [`journal`] keeps a copy that is a file, and [`sync`] waits
//! until that has everything.
//!
//! - [`serving`]: where and how is listened, for `origin` and `relay`
//! - [`following`]: what is followed, and what is said of it, for `replica` and `relay`
//! - [`secret`]: the file with the secret that both sides know
//! - [`service`]: running until a signal comes, or until there is nothing left to serve
//! - [`reports`]: what they tell of themselves, for `hold stat`
//!
//! Invariant: what happens is told on standard error, a line each; only `--format json` writes to
//! standard output, one object a line, for scripts that wait for it.

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
