//! The tests of the command, as a user types it. One binary for all of them: see the library's
//! `tests/suite.rs`.

mod support;

#[cfg(feature = "lab")]
mod bench_files;
mod channels;
mod command;
mod files;
mod holds;
mod killed;
#[cfg(feature = "lab")]
mod latency;
mod logs;
mod messages;
mod monitor;
mod pairs;
mod queues;
mod replication;
#[cfg(feature = "lab")]
mod runs;
mod serve;
mod watch;
