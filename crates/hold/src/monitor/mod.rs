//! A hold in the browser, and in Prometheus: a small server of pages at an address of its own, for
//! `hold serve --admin` and `hold monitor`.
//!
//! | path | what |
//! |---|---|
//! | `/_hold/` | the page: statistics of file servers, their last minutes, and the contents of the hold |
//! | `/_hold/page.css`, `/_hold/page.js` | its style; the script that keeps it up to date |
//! | `/_hold/status.json` | the same statistics, for programs |
//! | `/metrics` | the same, for Prometheus |
//!
//! | module | idea |
//! |---|---|
//! | [`buckets`] | latencies of one worker or of many |
//! | [`workers`] | workers of file servers, as they report: sums that never decrease, rates |
//! | [`history`] | the last minutes |
//! | [`inventory`] | everything else in the hold at one moment |
//! | [`observer`] | the three together, read once a second |
//! | [`server`], [`connection`], [`responses`] | the address, one connection, the answers |
//! | [`access`] | who may read them |
//! | [`page`], [`status`], [`metrics`] | the output for people, for programs, for Prometheus |
//!
//! Invariant: the hold is read and never changed; foreign names (of maps, files, peers) are escaped
//! wherever they are written.

mod access;
mod connection;
pub mod history;
pub mod inventory;
mod metrics;
pub mod observer;
mod page;
mod responses;
mod server;
mod status;
mod workers;

pub use server::Monitor;
