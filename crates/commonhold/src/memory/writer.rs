//! Writers of structures: a thread in its lane, or a recoverer in the name of a dead participant.

use crate::error::Result;
use crate::memory::arena::Arena;
use crate::memory::{lane, slab};
use crate::sync::owner::Owner;
use crate::sync::participant::{self, LaneList};
use crate::sync::patience::Patience;
use crate::sync::robust_lock::{Level, Peers};
use std::sync::atomic::AtomicU32;

/// The sequence numbers of a writer.
pub(crate) trait Sequences {
    /// A sequence above `floor` and above all earlier ones of this writer.
    fn next_sequence(&self, floor: u64) -> u64;
}

/// A writer of maps: a lane in an operation, or a recoverer acting as a dead participant.
pub(crate) trait Writer: Peers + Sequences {
    fn arena(&self) -> &Arena;
    /// Where this writer lists the locks that it is about to take.
    fn list(&self) -> &LaneList;
    /// The number of its lane; `None` for a recoverer.
    fn lane_number(&self) -> Option<u32>;
    /// Frees a record that this participant unlinked.
    fn retire(&self, offset: u64);
}

/// A recoverer that acts as the dead `owner`. Nobody else does so meanwhile.
pub(crate) struct Acting<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) owner: Owner,
    pub(crate) list: &'a LaneList,
    /// The patience of the call that does this recovery on its way, or less.
    pub(crate) patience: Patience,
}

impl Writer for Acting<'_> {
    fn arena(&self) -> &Arena {
        self.arena
    }
    fn list(&self) -> &LaneList {
        self.list
    }
    fn lane_number(&self) -> Option<u32> {
        None
    }
    fn retire(&self, offset: u64) {
        slab::retire(&self.arena.space, offset, self.owner);
    }
}

impl Sequences for Acting<'_> {
    fn next_sequence(&self, floor: u64) -> u64 {
        // Only used for the counters of segments, which have to grow but not to be unique.
        floor + 1
    }
}

impl Peers for Acting<'_> {
    fn me(&self) -> Owner {
        self.owner
    }
    fn ask_dead(&self, owner: Owner) -> Result<bool> {
        participant::ask_dead(&self.arena.space, owner)
    }
    fn has_ended(&self, owner: Owner) -> Option<bool> {
        participant::has_ended(&self.arena.space, owner)
    }
    fn recover(&self, owner: Owner, level: Level) -> Result<()> {
        self.arena.recover(owner, level, self.patience)
    }
    fn may_hold(&self, owner: Owner, word: &AtomicU32) -> bool {
        // Only this recoverer runs as the dead one, and it is here.
        owner != self.owner && lane::lists(self.arena, owner, word, |_| true)
    }
    fn patience(&self) -> Patience {
        self.patience
    }
    fn describe(&self, word: &AtomicU32) -> (&'static str, u64) {
        lane::describe(&self.arena.space, word)
    }
    fn pid(&self, owner: Owner) -> u32 {
        participant::pid(&self.arena.space, owner.slot())
    }
    fn waits_for(&self, _: Option<&AtomicU32>) {}
}
