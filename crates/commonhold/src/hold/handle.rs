//! [`Hold`]: the public handle on the file.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::channels::Channels;
use crate::hold::freeze::{self, Freeze};
use crate::hold::logs::Logs;
use crate::hold::maps::Maps;
use crate::hold::options::HoldOptions;
use crate::hold::queues::Queues;
use crate::hold::stat::{self, HoldStat, ParticipantInfo, StructureInfo};
use crate::hold::superblock::superblock;
use crate::map::engine::compact::{self, Wanted};
use crate::memory::arena::Arena;
use crate::memory::lane::LaneGuard;
use crate::memory::roots::StructureKind;
use crate::memory::trim;
use crate::sync::hold_clock;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A handle on a hold: a memory-mapped file that many processes share.
///
/// A handle is cheap to clone and usable from any thread. A forked child may keep using it, even
/// after the child drops the privileges with which the file was opened
/// (docs/operations/environment.md). Maps taken from a handle keep it open. When the last handle of
/// a process is dropped, its participant slot becomes free; the data stays.
///
/// A bare name (`prices`) stands for a hold in memory, in `/dev/shm` (or `$COMMONHOLD_DIR`). A name
/// that contains a slash or ends in `.hold` is a path. A hold on disk is a *file hold*: it survives
/// a reboot if it was closed cleanly. docs/operations/durability.md lists what survives which
/// failure.
#[derive(Clone)]
pub struct Hold {
    arena: Arc<Arena>,
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl Hold {
    pub(crate) fn new(arena: Arc<Arena>) -> Hold {
        Hold { arena }
    }

    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    pub(crate) fn space(&self) -> &Space {
        &self.arena.space
    }

    /// Opens an existing hold with default options.
    ///
    /// # Errors
    /// As for [`HoldOptions::open`].
    pub fn open(name: impl AsRef<Path>) -> Result<Hold> {
        Hold::options().open(name)
    }

    /// Creates a hold with default options.
    ///
    /// # Errors
    /// As for [`HoldOptions::create`].
    pub fn create(name: impl AsRef<Path>) -> Result<Hold> {
        Hold::options().create(name)
    }

    /// Opens a hold, or creates it if there is none, with default options.
    ///
    /// # Errors
    /// As for [`HoldOptions::open_or_create`].
    pub fn open_or_create(name: impl AsRef<Path>) -> Result<Hold> {
        Hold::options().open_or_create(name)
    }

    /// Options for opening or creating a hold.
    pub fn options() -> HoldOptions {
        HoldOptions::default()
    }

    /// The maps in the hold.
    pub fn maps(&self) -> Maps<'_> {
        Maps::new(&self.arena)
    }

    /// The queues in the hold.
    pub fn queues(&self) -> Queues<'_> {
        Queues::new(&self.arena)
    }

    /// The channels in the hold.
    pub fn channels(&self) -> Channels<'_> {
        Channels::new(&self.arena)
    }

    /// The logs in the hold.
    pub fn logs(&self) -> Logs<'_> {
        Logs::new(&self.arena)
    }

    /// The queues, channels and logs in the hold, sorted by name.
    ///
    /// # Errors
    /// `Closed`.
    pub fn structures(&self) -> Result<Vec<StructureInfo>> {
        self.arena.ensure_open()?;
        let kinds = [StructureKind::Queue, StructureKind::Channel, StructureKind::Log];
        Ok(stat::structures(self.space(), &kinds))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.space().file().path()
    }

    /// The hold's identity, which it keeps from its creation on.
    pub fn uuid(&self) -> [u8; 16] {
        superblock(self.space()).uuid()
    }

    /// Sizes and counts of the hold.
    ///
    /// # Errors
    /// `Closed`; those of the file system's calls.
    pub fn stat(&self) -> Result<HoldStat> {
        self.arena.ensure_open()?;
        stat::stat(self.space())
    }

    /// All participants, live or dead.
    ///
    /// # Errors
    /// `Closed`.
    pub fn participants(&self) -> Result<Vec<ParticipantInfo>> {
        self.arena.ensure_open()?;
        Ok(stat::participants(self.space()))
    }

    /// This handle's entry in the table of participants. Slot and generation name the participant
    /// for other processes, which can then see whether it lives. A forked child is another
    /// participant.
    ///
    /// # Errors
    /// `Closed`; `ReadOnly`: a read-only handle is not a participant.
    pub fn participant(&self) -> Result<ParticipantInfo> {
        let lane = self.arena.enter()?;
        let (slot, generation) = (lane.me().slot(), lane.me().generation());
        let mut all = stat::participants(self.space()).into_iter();
        let own = all.find(|other| (other.slot, other.generation) == (slot, generation));
        own.ok_or_else(|| Error::new(ErrorKind::Damaged, "this participant is not in the table"))
    }

    /// Recovers the unfinished work of dead participants and returns the number of dead
    /// participants. Opening and closing a hold also recover it, but without waiting for living
    /// participants; this call waits for them.
    ///
    /// # Errors
    /// `Closed`; `ReadOnly`; `Reentrant`; `Damaged`; `TimedOut` if a stopped process holds a lock
    /// that the recovery needs, and there is a [`lock_timeout`](HoldOptions::lock_timeout): the
    /// rest is then recovered.
    pub fn sweep(&self) -> Result<usize> {
        drop(self.arena.enter()?);
        self.arena.sweep_patiently()
    }

    /// Empties extents that are less than half full, and returns memory that has been free for a
    /// quarter of a second to the system. Returns the number of bytes. Writers also return memory,
    /// after every 4 MiB that any process has freed, and they empty extents when a hold is full. A
    /// hold with a cache map keeps its memory. This call does not wait for other processes: memory
    /// that another process has locked stays where it is.
    ///
    /// # Errors
    /// `Closed`, `ReadOnly`, `Reentrant`, `Damaged`.
    pub fn trim(&self) -> Result<u64> {
        self.arena.finish_drops();
        let lane: LaneGuard<'_> = self.arena.enter()?.impatient();
        compact::compact(&lane, Wanted::SPARSE)?;
        Ok(trim::trim(self.space(), lane.me(), lane.lane()))
    }

    /// Makes all writers wait until the result is dropped; readers continue. This gives a
    /// consistent view of several keys or maps. In the meantime, a write from this thread fails
    /// with `Busy`.
    ///
    /// Without a [`lock_timeout`](HoldOptions::lock_timeout), the call waits without limit for a
    /// writer that is stopped in the middle of a change; other writers continue meanwhile.
    ///
    /// # Errors
    /// `Closed`; `ReadOnly`; `Busy` if this thread has frozen the hold already; `TimedOut`;
    /// `Damaged`.
    pub fn freeze(&self) -> Result<Freeze<'_>> {
        freeze::freeze(&self.arena)
    }

    /// Closes the handle for all its clones and maps: later operations fail with `Closed`. Waits
    /// for operations that run in other threads. If a producer, a consumer or a collector lives, it
    /// keeps the registration, and its drop waits instead. Dropping the last clone also closes the
    /// handle.
    ///
    /// # Errors
    /// None at present.
    pub fn close(self) -> Result<()> {
        self.arena.ensure_open()?;
        self.arena.close();
        Ok(())
    }
}

/// The time of a hold's clock, in milliseconds: the pairs of its caches expire by it.
pub fn hold_time_ms(hold: &Hold) -> u64 {
    hold_clock::now(hold.space())
}
