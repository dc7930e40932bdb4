//! The tests of the benchmark: they check that the comparisons are valid. One binary for all of
//! them: see the library's `tests/suite.rs`.

mod absent;

mod files;
mod messages;
mod report;
mod rivals;
mod run;
