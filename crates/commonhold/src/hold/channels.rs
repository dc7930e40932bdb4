//! [`Channels`]: the channels of a hold by name.

use crate::channel::handle::{self, Channel};
use crate::channel::options::ChannelOptions;
use crate::error::{Error, Result};
use crate::hold::stat::{self, StructureInfo};
use crate::memory::arena::Arena;
use crate::memory::roots::{self, Existing, StructureKind, is_own};
use std::sync::Arc;

/// The channels of a hold by name; see [`Hold::channels`](crate::Hold::channels).
///
/// A name has 1 to 200 bytes and no NUL. Maps, queues, channels and logs of a hold share one space
/// of names.
#[derive(Clone, Copy, Debug)]
pub struct Channels<'h> {
    arena: &'h Arc<Arena>,
}

impl<'h> Channels<'h> {
    pub(crate) fn new(arena: &'h Arc<Arena>) -> Channels<'h> {
        Channels { arena }
    }

    /// Opens an existing channel, whatever its options.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if the name is that of another kind of structure; `Closed`;
    /// `Damaged`.
    pub fn open(&self, name: &str) -> Result<Channel> {
        self.arena.ensure_open()?;
        handle::open(self.arena, name, None, Existing::Open)?.ok_or_else(|| self.not_found(name))
    }

    /// Opens a channel, or creates it if there is none.
    ///
    /// # Errors
    /// `Mismatch` if it exists with another ring or as another kind of structure; `NotFound` if it
    /// does not exist and this handle is read-only; `Invalid` for a bad name or a bad size of the
    /// ring; `Full`; `Closed`; `Damaged`.
    pub fn open_or_create(&self, name: &str, options: ChannelOptions) -> Result<Channel> {
        self.arena.ensure_open()?;
        self.make(name, options, Existing::Open)
    }

    /// Creates a channel.
    ///
    /// # Errors
    /// `Exists` if there is one; `Mismatch` if the name is that of another kind of structure;
    /// `ReadOnly`; `Invalid` for a bad name or bad options; `Full`; `Closed`; `TimedOut`.
    pub fn create(&self, name: &str, options: ChannelOptions) -> Result<Channel> {
        drop(self.arena.enter()?);
        self.make(name, options, Existing::Refuse)
    }

    /// Drops a channel and everything in it; returns false if there is none.
    ///
    /// # Errors
    /// `Busy`, naming slot and process, while another writable handle has it open, or while this
    /// one has a producer or consumer of it; `Mismatch` if the name is that of another kind of
    /// structure; `ReadOnly`; `Closed`.
    pub fn drop(&self, name: &str) -> Result<bool> {
        handle::drop_named(self.arena, name)
    }

    /// The channels in the hold, sorted by name, without Commonhold's own, whose names begin with a
    /// dot. [`Hold::structures`](crate::Hold::structures) lists all.
    ///
    /// # Errors
    /// `Closed`.
    pub fn list(&self) -> Result<Vec<StructureInfo>> {
        self.arena.ensure_open()?;
        let mut found = stat::structures(&self.arena.space, &[StructureKind::Channel]);
        found.retain(|structure| !is_own(&structure.name));
        Ok(found)
    }

    fn make(&self, name: &str, options: ChannelOptions, existing: Existing) -> Result<Channel> {
        let channel = handle::open(self.arena, name, Some(options), existing)?;
        channel.ok_or_else(|| self.not_found(name))
    }

    fn not_found(&self, name: &str) -> Error {
        roots::not_found(&self.arena.space, StructureKind::Channel, name)
    }
}
