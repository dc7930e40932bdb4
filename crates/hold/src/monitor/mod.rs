//! A hold in the browser, and in Prometheus: a small server of pages at an address of its own, for
//! `hold serve --admin` and `hold monitor`.
//!
//! | path | what |
//! |---|---|
//! | `/_hold/` | the page: figures of file servers, their last minutes, and all that is in the hold |
//! | `/_hold/page.css`, `/_hold/page.js` | how it looks; what keeps it up to date |
//! | `/_hold/status.json` | the same figures, for programs |
//! | `/metrics` | the same, for Prometheus |
//!
//! | module | idea |
//! |---|---|
//! | [`buckets`] | how long answers took, of one worker or of many |
//! | [`workers`] | workers of file servers, as they report: sums that never decrease, rates |
//! | [`history`] | the last minutes |
//! | [`inventory`] | everything else in the hold at one moment |
//! | [`observer`] | the three together, looked at once a second |
//! | [`server`], [`connection`], [`responses`] | the address, one connection, what is answered |
//! | [`page`], [`status`], [`metrics`] | how figures look to people, to programs, to Prometheus |
//!
//! Invariant: the hold is read and never changed; what others named (maps, files, peers) is escaped
//! wherever it is written.

mod connection;
pub mod history;
mod inventory;
mod metrics;
mod observer;
mod page;
mod responses;
mod server;
mod status;
mod workers;

pub use server::Monitor;
