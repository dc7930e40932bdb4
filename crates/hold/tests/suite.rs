//! The tests of the command, as a user types it. One binary for all of them: see the library's
//! `tests/suite.rs`.

mod support;

// The banned phrases are those of the documents.
#[path = "../../commonhold/tests/layering/english.rs"]
#[allow(dead_code, reason = "this binary uses a part of it")]
mod english;

mod alter;
mod backups;
#[cfg(feature = "lab")]
mod bench_files;
mod bulk;
mod channels;
mod command;
mod deployment;
mod files;
#[cfg(feature = "lab")]
mod help;
mod holds;
mod killed;
#[cfg(feature = "lab")]
mod latency;
mod logs;
mod messages;
mod monitor;
mod pairs;
mod pipes;
mod queues;
mod replication;
#[cfg(feature = "lab")]
mod runs;
mod samples;
mod serve;
mod top;
mod watch;
