//! [`Queues`]: the queues of a hold by name.

use crate::error::Result;
use crate::hold::stat::{self, StructureInfo};
use crate::memory::arena::Arena;
use crate::memory::roots::{Existing, StructureKind, is_own};
use crate::queue::handle::{self, Queue};
use crate::queue::options::QueueOptions;
use crate::queue::stat::{self as queue_stat, QueueStat};
use std::sync::Arc;

/// The queues of a hold by name; see [`Hold::queues`](crate::Hold::queues).
///
/// A name has 1 to 200 bytes and no NUL. Maps, queues, channels and logs of a hold share one space
/// of names.
#[derive(Clone, Copy, Debug)]
pub struct Queues<'h> {
    arena: &'h Arc<Arena>,
}

impl<'h> Queues<'h> {
    pub(crate) fn new(arena: &'h Arc<Arena>) -> Queues<'h> {
        Queues { arena }
    }

    /// Opens an existing queue, whatever its options.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if the name is that of another kind of structure; `ReadOnly`;
    /// `Closed`; `Damaged`; `Busy` if this thread has frozen the hold.
    pub fn open(&self, name: &str) -> Result<Queue> {
        self.arena.ensure_open()?;
        handle::open(self.arena, name)
    }

    /// Opens a queue, or creates it if there is none.
    ///
    /// # Errors
    /// `Mismatch` if it exists with other options or as another kind of structure; `ReadOnly`;
    /// `Invalid` for bad names or numbers; `Full`; `Closed`; `Busy` if this thread has frozen the
    /// hold.
    pub fn open_or_create(&self, name: &str, options: QueueOptions) -> Result<Queue> {
        self.arena.ensure_open()?;
        handle::create(self.arena, name, &options, Existing::Open)
    }

    /// Creates a queue.
    ///
    /// # Errors
    /// `Exists` if there is one; `Mismatch` if the name is that of another kind of structure;
    /// `ReadOnly`; `Invalid` for a bad name or bad options; `Full`; `Closed`; `TimedOut`.
    pub fn create(&self, name: &str, options: QueueOptions) -> Result<Queue> {
        drop(self.arena.enter()?);
        handle::create(self.arena, name, &options, Existing::Refuse)
    }

    /// Drops a queue and everything in it; returns false if there is none. Other handles of this
    /// process on it return `NotFound` from then on. If the process dies in the meantime, a later
    /// drop or [`sweep`](crate::Hold::sweep) completes it.
    ///
    /// # Errors
    /// `Busy`, naming slot and process, while another living process has it open, or this one has
    /// elements in flight; `Mismatch` if the name is that of another kind of structure; `ReadOnly`;
    /// `Closed`.
    pub fn drop(&self, name: &str) -> Result<bool> {
        handle::drop_queue(self.arena, name)
    }

    /// The queues in the hold, sorted by name, without Commonhold's own, whose names begin with a
    /// dot. [`Hold::structures`](crate::Hold::structures) lists all.
    ///
    /// # Errors
    /// `Closed`.
    pub fn list(&self) -> Result<Vec<StructureInfo>> {
        self.arena.ensure_open()?;
        let mut found = stat::structures(&self.arena.space, &[StructureKind::Queue]);
        found.retain(|structure| !is_own(&structure.name));
        Ok(found)
    }

    /// The statistics of a queue; works even with a read-only handle.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if it is another kind of structure; `Closed`; `Damaged`.
    pub fn stat(&self, name: &str) -> Result<QueueStat> {
        self.arena.ensure_open()?;
        queue_stat::stat_named(self.arena, name)
    }
}
