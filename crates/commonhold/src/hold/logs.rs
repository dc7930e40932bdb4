//! [`Logs`]: the logs of a hold by name.

use crate::error::Result;
use crate::hold::stat::{self, StructureInfo};
use crate::log::handle::{self, Log};
use crate::log::options::LogOptions;
use crate::memory::arena::Arena;
use crate::memory::roots::{Existing, StructureKind, is_own};
use std::sync::Arc;

/// The logs of a hold by name; see [`Hold::logs`](crate::Hold::logs).
///
/// A name has 1 to 200 bytes and no NUL. Maps, queues, channels and logs of a hold share one space
/// of names.
#[derive(Clone, Copy, Debug)]
pub struct Logs<'h> {
    arena: &'h Arc<Arena>,
}

impl<'h> Logs<'h> {
    pub(crate) fn new(arena: &'h Arc<Arena>) -> Logs<'h> {
        Logs { arena }
    }

    /// Opens an existing log, whatever its options. With a read-only handle, the log can be dumped.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if the name is that of another kind of structure; `Closed`;
    /// `Damaged`.
    pub fn open(&self, name: &str) -> Result<Log> {
        self.arena.ensure_open()?;
        handle::open_existing(self.arena, name)
    }

    /// Opens a log, or creates it if there is none.
    ///
    /// # Errors
    /// `Mismatch` if it exists with other rings or as another kind of structure; `NotFound` if it
    /// does not exist and this handle is read-only; `Invalid` for a bad name or bad rings; `Full`;
    /// `Closed`.
    pub fn open_or_create(&self, name: &str, options: LogOptions) -> Result<Log> {
        self.arena.ensure_open()?;
        handle::create(self.arena, name, &options, Existing::Open)
    }

    /// Creates a log.
    ///
    /// # Errors
    /// `Exists` if there is one; `Mismatch` if the name is that of another kind of structure;
    /// `ReadOnly`; `Invalid` for a bad name or bad options; `Full`; `Closed`; `TimedOut`.
    pub fn create(&self, name: &str, options: LogOptions) -> Result<Log> {
        drop(self.arena.enter()?);
        handle::create(self.arena, name, &options, Existing::Refuse)
    }

    /// Drops a log and everything in it; returns false if there is none. Handles of this process on
    /// it return `NotFound` from then on.
    ///
    /// # Errors
    /// `Busy`, naming slot and process, while another living participant has it open; `Mismatch` if
    /// the name is that of another kind of structure; `ReadOnly`; `Closed`.
    pub fn drop(&self, name: &str) -> Result<bool> {
        handle::drop_log(self.arena, name)
    }

    /// The logs in the hold, sorted by name, without Commonhold's own, whose names begin with a
    /// dot. [`Hold::structures`](crate::Hold::structures) lists all.
    ///
    /// # Errors
    /// `Closed`.
    pub fn list(&self) -> Result<Vec<StructureInfo>> {
        self.arena.ensure_open()?;
        let mut found = stat::structures(&self.arena.space, &[StructureKind::Log]);
        found.retain(|structure| !is_own(&structure.name));
        Ok(found)
    }
}
