//! Reports on holds and their contents: as text, as tables, as JSON.
//!
//! - [`hold`], [`map`], [`queue`], [`channel`], [`log`], [`others`]: one structure each
//! - [`mode`]: the mode of a map
//! - [`replication`]: origins, replicas and journals; [`servers`]: workers of file servers
//! - [`table`]: columns that line up; [`numbers`]: numbers for people
//! - [`latency_buckets`]: latencies of several workers in one
//!
//! Commands and the monitor use this; nothing here knows of them.

pub mod channel;
pub mod hold;
pub mod latency_buckets;
pub mod log;
pub mod map;
pub mod mode;
pub mod numbers;
pub mod others;
pub mod queue;
pub mod replication;
pub mod servers;
pub mod table;
