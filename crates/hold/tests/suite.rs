//! The tests of the command, as a user types it. One binary for all of them: see the library's `tests/suite.rs`.

mod support;

mod command;
mod files;
mod holds;
mod messages;
mod pairs;
mod runs;
