//! [`Hold`]: the public handle on the file.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::backup::{self, BackupReport};
use crate::hold::channels::Channels;
use crate::hold::check::{self, CheckReport};
use crate::hold::freeze::{self, Freeze};
use crate::hold::logs::Logs;
use crate::hold::maps::Maps;
use crate::hold::options::HoldOptions;
use crate::hold::queues::Queues;
use crate::hold::stat::{self, HoldStat, ParticipantInfo, StructureInfo};
use crate::hold::superblock::superblock;
use crate::map::compact::{self, Wanted};
use crate::memory::arena::Arena;
use crate::memory::lane::LaneGuard;
use crate::memory::roots::StructureKind;
use crate::memory::trim;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// One file of memory that many processes share, and the handle on it.
///
/// Cheap to clone; usable from any thread; a forked child may go on using it, also if it gives up
/// the rights with which the file was opened (docs/operations/environment.md). Maps taken from it
/// keep it open. When the last handle of a process goes, its place in the hold is given up; the
/// data stays.
///
/// A bare name (`prices`) lives in memory under `/dev/shm` (or `$COMMONHOLD_DIR`); anything with a
/// slash, or ending in `.hold`, is that path. On a disk the hold is a *file hold* that survives a
/// reboot if it was closed cleanly; docs/operations/durability.md says what survives what.
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

    /// Opens an existing hold with default options; errors as for [`HoldOptions::open`].
    ///
    /// # Errors
    /// As [`HoldOptions::open`].
    pub fn open(name: impl AsRef<Path>) -> Result<Hold> {
        Hold::options().open(name)
    }

    /// Creates a hold with default options; errors as for [`HoldOptions::create`].
    ///
    /// # Errors
    /// As [`HoldOptions::create`].
    pub fn create(name: impl AsRef<Path>) -> Result<Hold> {
        Hold::options().create(name)
    }

    /// Opens a hold, or creates it if there is none, with default options.
    ///
    /// # Errors
    /// As [`HoldOptions::open_or_create`].
    pub fn open_or_create(name: impl AsRef<Path>) -> Result<Hold> {
        Hold::options().open_or_create(name)
    }

    /// Options to open or create with.
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

    /// The hold's identity, from its creation on.
    pub fn uuid(&self) -> [u8; 16] {
        superblock(self.space()).uuid()
    }

    /// Sizes and counts.
    ///
    /// # Errors
    /// `Closed`; those of asking the file system.
    pub fn stat(&self) -> Result<HoldStat> {
        self.arena.ensure_open()?;
        stat::stat(self)
    }

    /// Who takes part, dead or alive.
    ///
    /// # Errors
    /// `Closed`.
    pub fn participants(&self) -> Result<Vec<ParticipantInfo>> {
        self.arena.ensure_open()?;
        Ok(stat::participants(self.space()))
    }

    /// This handle in the table of participants: whoever wants to tell others who it is, and
    /// whether it lives, names slot and generation. A forked child is another one.
    ///
    /// # Errors
    /// `Closed`; `ReadOnly`: such a handle is none.
    pub fn participant(&self) -> Result<ParticipantInfo> {
        let lane = self.arena.enter()?;
        let (slot, generation) = (lane.me().slot(), lane.me().generation());
        let mut all = stat::participants(self.space()).into_iter();
        let own = all.find(|other| (other.slot, other.generation) == (slot, generation));
        own.ok_or_else(|| Error::new(ErrorKind::Damaged, "this participant is not in the table"))
    }

    /// Settles what dead participants left; returns how many there were. Opening and closing do it
    /// too, as far as that goes without waiting for those who live; this waits for them.
    ///
    /// # Errors
    /// `Closed`; `ReadOnly`; `Reentrant`; `Damaged`; `TimedOut` if somebody who is stopped holds
    /// what it needs, and there is a [`lock_timeout`](HoldOptions::lock_timeout): the rest is
    /// settled.
    pub fn sweep(&self) -> Result<usize> {
        drop(self.arena.enter()?);
        self.arena.sweep_patiently()
    }

    /// Proves the hold whole: every slot, record and extent; allocated = reachable. Writers wait
    /// while it looks (about a second per ten million keys), readers do not.
    ///
    /// # Errors
    /// Those of [`freeze`](Self::freeze), which it does first. What is wrong with the hold is no
    /// error but in the report.
    pub fn check(&self) -> Result<CheckReport> {
        check::check(self)
    }

    /// Empties extents that are less than half full and gives memory back to the system that has
    /// been free for a quarter of a second; returns the bytes. Writers give back too, whenever 4
    /// MiB have been freed by whomever, and where a hold is full they empty extents. A hold with a
    /// cache map keeps its memory. Waits for nobody: what somebody has locked stays where it is.
    ///
    /// # Errors
    /// `Closed`, `ReadOnly`, `Reentrant`, `Damaged`.
    pub fn trim(&self) -> Result<u64> {
        self.arena.finish_drops();
        let lane: LaneGuard<'_> = self.arena.enter()?.impatient();
        compact::compact(&lane, Wanted::SPARSE)?;
        Ok(trim::trim(self.space(), lane.me(), lane.lane()))
    }

    /// Writes a copy of all maps, as they were at one moment, to a new file, while others go on
    /// writing. Queues, channels and logs carry messages and are left out
    /// ([`BackupReport::left_out`]). Writers are kept waiting only for the last, short part
    /// ([`BackupReport::paused_ms`]).
    ///
    /// # Errors
    /// `Exists` if there is a file already; those of [`freeze`](Self::freeze) and of writing files.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        backup::backup(self, to.as_ref())
    }

    /// Keeps all writers waiting until the result is dropped; readers go on. For a consistent view
    /// of several keys or maps. Writing from this thread meanwhile is the error `Busy`.
    ///
    /// # Errors
    /// `Closed`; `ReadOnly`; `Busy` if this thread has frozen the hold already; `TimedOut`;
    /// `Damaged`. Waits for a writer that is stopped in the middle of a change as long as it takes,
    /// unless there is a [`lock_timeout`](HoldOptions::lock_timeout); other writers go on
    /// meanwhile.
    pub fn freeze(&self) -> Result<Freeze<'_>> {
        freeze::freeze(&self.arena)
    }

    /// Closes the handle, for all its clones and maps: later operations are the error `Closed`.
    /// Waits for operations that run in other threads. Dropping the last clone closes it, too.
    ///
    /// # Errors
    /// None at present.
    pub fn close(self) -> Result<()> {
        self.arena.ensure_open()?;
        self.arena.close();
        Ok(())
    }
}
