//! Shared code of the tests of several crates.
//!
//! | module | idea |
//! |---|---|
//! | [`support`] | support of the library's own tests |
//! | [`alone`] | a test, or a child, that shares nothing with other tests of the process |
//! | `trial` | a scenario in which every call that can fail does fail |
//! | `fault_table` | a crate's table of faults against its sources |
#![allow(missing_docs)]

pub mod alone;
#[cfg(feature = "steps")]
pub mod fault_table;
#[path = "../../commonhold/tests/support/mod.rs"]
pub mod support;
#[cfg(feature = "steps")]
pub mod trial;
