//! The tests of the library as its users see it, with real processes that are killed and stopped.
//!
//! One binary for all of them: to link another takes longer than most of them run, and two long ones pass side by side.
//! `cargo test -p commonhold --all-features --test suite crash::` runs the tests of one file.

mod support;

mod backup_stream;
mod bad_files;
mod by_name;
mod channel;
mod channel_crash;
mod channel_faults;
mod charges;
mod clean_mark;
mod crash;
mod drafts;
mod durability;
mod encounters;
mod expiry_clock;
mod faults;
mod fork;
mod freeze_lock;
mod full;
mod growth;
mod idle;
mod in_place;
mod large;
mod limits;
mod lists;
mod log;
mod log_crash;
mod log_faults;
mod log_files;
mod log_processes;
mod log_rotation;
mod message_pairs;
mod model;
mod one_patience;
mod pair_handle;
mod pairs;
mod panics;
mod patience;
mod processes;
mod punched;
mod queue;
mod queue_contention;
mod queue_faults;
mod queue_handles;
mod queue_raw;
mod replica;
mod replica_acks;
mod restore;
mod rights;
mod room;
mod rotation;
mod smoke;
mod split_errors;
mod stopped;
mod stream;
mod typed;
mod waiting;
