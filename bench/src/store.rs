//! The interface of every system with keys and values: a [`Keeper`] that can be opened, and a
//! [`Store`] through which one worker does its operations.
//!
//! Invariant: the workloads, which `hold bench` runs as well, know a system only through these
//! traits, so that all systems run the same code. Rivals implement them; the worker calls them.

use std::path::Path;

use anyhow::Result;
pub use commonhold_lab::workload::store::{Found, Op, Store};

use crate::rival::{Rival, Shape};

/// Any system's store.
pub type AnyStore = dyn Store<Error = anyhow::Error>;

/// A rival that keeps keys and values.
pub trait Keeper: Rival {
    /// The number of operations that the workloads pass at a time.
    fn batch(&self) -> usize {
        1
    }

    /// Opens the store that [`Rival::prepare`] created, once for each worker of this process. Each
    /// process calls this once; `threads` is its number of workers.
    fn open(&self, site: &Path, shape: &Shape, threads: usize) -> Result<Vec<Box<AnyStore>>>;
}
