//! The tests of the benchmark: that what is compared is right. One binary for all of them: see the
//! library's `tests/suite.rs`.

mod absent;

mod files;
mod messages;
mod rivals;
mod run;
