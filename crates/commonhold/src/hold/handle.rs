//! [`Hold`]: the public handle on the file.

use crate::channel::handle::{self as channel, Channel};
use crate::channel::options::ChannelOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::hold::backup::{self, BackupReport};
use crate::hold::check::{self, CheckReport};
use crate::hold::files::{self, Listed};
use crate::hold::freeze::{self, Freeze};
use crate::hold::options::HoldOptions;
use crate::hold::restore::{self, RestoreReport};
use crate::hold::salvage::{self, SalvageReport};
use crate::hold::stat::{self, HoldStat, MapInfo, ParticipantInfo, StructureInfo};
use crate::hold::superblock::superblock;
use crate::log::handle::{self as log, Log};
use crate::log::options::LogOptions;
use crate::map::bound;
use crate::map::compact::{self, Wanted};
use crate::map::dropping;
use crate::map::handle::Map;
use crate::map::lifecycle;
use crate::map::options::MapOptions;
use crate::map::shadow_map;
use crate::memory::arena::Arena;
use crate::memory::lane::LaneGuard;
use crate::memory::roots::{self, StructureKind};
use crate::memory::trim;
use crate::os::location;
use crate::queue::handle::{self as queue, Queue};
use crate::queue::options::QueueOptions;
use crate::queue::stat::{self as queue_stat, QueueStat};
use crate::stream::own;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One file of memory that many processes share, and the handle on it.
///
/// Cheap to clone; usable from any thread; a forked child may go on using it, also if it gives up the rights
/// with which the file was opened (docs/operations/environment.md). Maps taken from it keep it
/// open. When the last handle of a process goes, its place in the hold is given up; the data stays.
///
/// A bare name (`prices`) lives in memory under `/dev/shm` (or `$COMMONHOLD_DIR`); anything with a slash, or ending
/// in `.hold`, is that path. On a disk the hold is a *file hold* that survives a reboot if it was closed
/// cleanly; docs/operations/durability.md says what survives what.
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

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// For structures, which keep it open.
    #[cfg(test)]
    pub(crate) fn shared_arena(&self) -> &Arc<Arena> {
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

    /// Opens the map of this name, or makes it.
    ///
    /// # Errors
    /// `Mismatch` if it exists with other options or as another kind of structure; `NotFound` if it does not exist and this handle is read-only;
    /// `Invalid` (1 to 200 bytes, no NUL); `Full`; `Closed`.
    pub fn map(&self, name: &str, options: MapOptions) -> Result<Map> {
        self.arena.ensure_open()?;
        if self.arena.participant().is_none() {
            lifecycle::check_name(name)?;
            let map = self.open_map(name)?;
            if map.options().mode != options.mode {
                let text = format!(
                    "map '{name}' exists with other options; open it with its existing options"
                );
                return Err(Error::new(ErrorKind::Mismatch, text));
            }
            return Ok(map);
        }
        let bound = lifecycle::open_or_create(&self.arena, name, &options)?;
        Ok(Map::new(Arc::clone(&self.arena), bound.with_value_room(options.value_room)))
    }

    /// Opens an existing map, whatever its options.
    ///
    /// # Errors
    /// `NotFound`; `Closed`; `Damaged`.
    pub fn open_map(&self, name: &str) -> Result<Map> {
        self.arena.ensure_open()?;
        if let Some(bound) = bound::open(self.space(), name)? {
            return Ok(Map::new(Arc::clone(&self.arena), bound));
        }
        roots::check_kind(self.space(), name, StructureKind::Map)?;
        let path = self.path().display();
        let text = format!(
            "{path}: has no map '{}'; 'hold list' shows its contents",
            name.escape_default()
        );
        Err(Error::new(ErrorKind::NotFound, text))
    }

    /// Drops a map with everything in it; false if there is none. Other handles on it report `NotFound`
    /// from then on, and the name is free. Does not wait for a process that is stopped in the
    /// middle of a change of the map: then the memory is freed later, by the next
    /// [`sweep`](Self::sweep), [`trim`](Self::trim) or drop, or by whoever opens or closes the hold.
    ///
    /// # Errors
    /// `Mismatch` if it is another kind of structure; `ReadOnly`; `Closed`; `Busy` if this thread
    /// has frozen the hold; `TimedOut` if somebody else keeps it frozen (see
    /// [`HoldOptions::lock_timeout`]); `Damaged`.
    pub fn drop_map(&self, name: &str) -> Result<bool> {
        dropping::drop_map(&self.arena, name)
    }

    /// Opens a map that only this replica writes, or makes it: the handle may write it, all others of the map may only read it and
    /// get `ReadOnly`. Which program is its replica is a matter between programs; there should be one.
    ///
    /// # Errors
    /// `Mismatch` if it exists as a map that everybody may write, or with other options; those of [`map`](Self::map).
    pub fn replica_map(&self, name: &str, options: MapOptions) -> Result<Map> {
        let map = self.map(name, MapOptions { replica: true, ..options })?;
        if map.is_replica() { Ok(map.for_replica()) } else { Err(shadow_map::not_a_replica(name)) }
    }

    /// Creates an empty replica's map called `next`, with the options of the map called `name`. The
    /// replica fills it and then lets it [take the place](Self::swap_in_shadow_map) of that map. An
    /// existing map `next` is dropped first.
    ///
    /// # Errors
    /// `NotFound` if there is no map `name`; `Mismatch` if one of them is no replica's; those of [`replica_map`](Self::replica_map).
    pub fn create_shadow_map(&self, next: &str, name: &str) -> Result<Map> {
        let map = self.open_map(name)?;
        if !map.is_replica() {
            return Err(shadow_map::not_a_replica(name));
        }
        match self.open_map(next) {
            Ok(old) if old.is_replica() => drop(self.drop_map(next)?),
            Ok(_) => return Err(shadow_map::not_a_replica(next)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let seed = Some(map.bound.root(self.space()).seed.load(Ordering::Relaxed));
        self.replica_map(next, MapOptions { seed, ..map.options().clone() })
    }

    /// Gives the replica's map `next` the name of the replica's map `name`, in one step, and drops
    /// the old map of that name. Handles on the old map continue with the new one from their next
    /// reading operation on; a write through them fails with `NotFound`, because the replica has a
    /// handle on the new map. A reader sees all of the old map or all of the new one, and an
    /// iteration ([`Map::iter`]) under way continues in the new one. Followers of the old map's stream
    /// get `NotFound`. If the process dies meanwhile, the swap has happened or it has not.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if one of them is no replica's or if they have different modes; those of [`drop_map`](Self::drop_map).
    pub fn swap_in_shadow_map(&self, next: &str, name: &str) -> Result<()> {
        shadow_map::swap_in(&self.arena, next, name)
    }

    /// Makes a replica's map one that everybody may write from now on: its origin is gone for good, or what it was to be rebuilt from is
    /// read. False if everybody may already.
    ///
    /// # Errors
    /// `NotFound`; those of [`drop_map`](Self::drop_map).
    pub fn promote_map(&self, name: &str) -> Result<bool> {
        shadow_map::promote(&self.arena, name)
    }

    /// Opens the channel of this name, or makes it.
    ///
    /// # Errors
    /// `Mismatch` if it exists with another ring or as another kind of structure; `Invalid` (the ring's size, or a name
    /// that is not 1 to 200 bytes without NUL); `NotFound` if it does not exist and this handle is read-only; `Full`;
    /// `Closed`; `Damaged`.
    pub fn channel(&self, name: &str, options: ChannelOptions) -> Result<Channel> {
        self.arena.ensure_open()?;
        channel::open(&self.arena, name, Some(options))?.ok_or_else(|| self.no_channel(name))
    }

    /// Opens an existing channel, whatever its options.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if the name is that of another kind of structure; `Closed`; `Damaged`.
    pub fn open_channel(&self, name: &str) -> Result<Channel> {
        self.arena.ensure_open()?;
        channel::open(&self.arena, name, None)?.ok_or_else(|| self.no_channel(name))
    }

    fn no_channel(&self, name: &str) -> Error {
        let path = self.path().display();
        let text = format!(
            "{path}: has no channel '{}'; 'hold list' shows its contents",
            name.escape_default()
        );
        Error::new(ErrorKind::NotFound, text)
    }

    /// Drops a channel with all messages in it; false if there is none.
    ///
    /// # Errors
    /// `Busy`, naming slot and process, while another writable handle has it open, or while this one has a producer or
    /// consumer of it; `Mismatch` if the name is that of another kind of structure; `ReadOnly`; `Closed`.
    pub fn drop_channel(&self, name: &str) -> Result<bool> {
        channel::drop_named(&self.arena, name)
    }

    /// The maps in the hold, sorted by name.
    ///
    /// # Errors
    /// `Closed`; `Damaged`.
    pub fn maps(&self) -> Result<Vec<MapInfo>> {
        self.arena.ensure_open()?;
        stat::maps(self)
    }

    /// Gives a map a stream: from now on every change of it is told to whoever follows ([`Map::follow`]), and the last `bytes` (rounded up to a
    /// power of two, at least 64 KiB) of what was told are kept. Writers of the hold wait for a moment, as for a [`freeze`](Self::freeze); not if there is a stream. False if the map has a stream
    /// already, which stays as it is. The stream ends with the map.
    ///
    /// A writer pays for it with one more lock, which all writers of the map share, and the copying of key and value.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if it is another kind of structure; `Invalid` for more than 4 GiB; `Full`; those of
    /// [`freeze`](Self::freeze).
    pub fn begin_stream(&self, map: &str, bytes: u64) -> Result<bool> {
        let size = own::size(bytes)?;
        let map = self.open_map(map)?;
        let stream = map.bound.stream(self.space());
        if stream.ring()?.is_some() {
            return map.bound.ensure_current(self.space()).map(|()| false);
        }
        self.arena.operate(|lane| {
            let ring = own::claim(lane, size)?;
            let _frozen = freeze::freeze_in(&self.arena, lane)?;
            map.bound.ensure_current(self.space())?;
            own::begin(stream, ring)
        })
    }

    /// Opens the queue of this name, or makes it.
    ///
    /// # Errors
    /// `Mismatch` if it exists with other options or as another kind of structure; `ReadOnly`; `Invalid` for bad names or
    /// numbers; `Full`; `Closed`; `Busy` if this thread has frozen the hold.
    pub fn queue(&self, name: &str, options: QueueOptions) -> Result<Queue> {
        queue::open_or_create(&self.arena, name, &options)
    }

    /// Opens an existing queue, whatever its options.
    ///
    /// # Errors
    /// `NotFound`; otherwise as for [`queue`](Self::queue).
    pub fn open_queue(&self, name: &str) -> Result<Queue> {
        queue::open(&self.arena, name)
    }

    /// The figures of a queue, also from a read-only handle.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if it is another kind of structure; `Closed`; `Damaged`.
    pub fn queue_stat(&self, name: &str) -> Result<QueueStat> {
        self.arena.ensure_open()?;
        queue_stat::stat_named(&self.arena, name)
    }

    /// Drops a queue with all its elements; false if there is none. Other handles of this process on it report `NotFound` from
    /// then on. If the process dies meanwhile, its successor finishes.
    ///
    /// # Errors
    /// `Busy` while another living process has it open (naming slot and process), or this one has elements in flight; `Mismatch`.
    pub fn drop_queue(&self, name: &str) -> Result<bool> {
        queue::drop_queue(&self.arena, name)
    }

    /// The other structures in the hold (queues, channels, logs), sorted by name.
    ///
    /// # Errors
    /// `Closed`.
    pub fn others(&self) -> Result<Vec<StructureInfo>> {
        self.arena.ensure_open()?;
        Ok(stat::others(self))
    }

    /// Opens the log of this name, or makes it.
    ///
    /// # Errors
    /// `Mismatch` if it exists with other rings or as another kind of structure; `NotFound` if it does not exist and this handle is
    /// read-only; `Invalid` (name, rings); `Full`; `Closed`.
    pub fn log(&self, name: &str, options: LogOptions) -> Result<Log> {
        self.arena.ensure_open()?;
        log::open(&self.arena, name, &options)
    }

    /// Opens an existing log, whatever its options; from a read-only handle it can be dumped.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch`; `Closed`; `Damaged`.
    pub fn open_log(&self, name: &str) -> Result<Log> {
        self.arena.ensure_open()?;
        log::open_existing(&self.arena, name)
    }

    /// Drops a log with everything in it; false if there is none. Handles of this process on it report `NotFound` from
    /// then on.
    ///
    /// # Errors
    /// `Busy`, naming slot and process, while another living participant has it open; `Mismatch`.
    pub fn drop_log(&self, name: &str) -> Result<bool> {
        log::drop_log(&self.arena, name)
    }

    /// Where the file is.
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

    /// This handle in the table of participants: whoever wants to tell others who it is, and whether it lives, names slot and
    /// generation. A forked child is another one.
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

    /// Proves the hold whole: every slot, record and extent; allocated = reachable. Writers wait while it looks
    /// (about a second per ten million keys), readers do not.
    ///
    /// # Errors
    /// Those of [`freeze`](Self::freeze), which it does first. What is wrong with the hold is no error but in the report.
    pub fn check(&self) -> Result<CheckReport> {
        check::check(self)
    }

    /// Empties extents that are less than half full and gives memory back to the system that has been free for a
    /// quarter of a second; returns the bytes. Writers give back too, whenever 4 MiB have been freed by whomever, and where a
    /// hold is full they empty extents. A hold with a cache map keeps its memory. Waits for nobody:
    /// what somebody has locked stays where it is.
    ///
    /// # Errors
    /// `Closed`, `ReadOnly`, `Reentrant`, `Damaged`.
    pub fn trim(&self) -> Result<u64> {
        self.arena.finish_drops();
        let lane: LaneGuard<'_> = self.arena.enter()?.impatient();
        compact::compact(&lane, Wanted::SPARSE)?;
        Ok(trim::trim(self.space(), lane.me(), lane.lane()))
    }

    /// Writes a copy of all maps, as they were at one moment, to a new file, while others go on writing. Queues, channels
    /// and logs carry messages and are left out ([`BackupReport::left_out`]).
    /// Writers are kept waiting only for the last, short part ([`BackupReport::paused_ms`]).
    ///
    /// # Errors
    /// `Exists` if there is a file already; those of [`freeze`](Self::freeze) and of writing files.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        backup::backup(self, to.as_ref())
    }

    /// Keeps all writers waiting until the result is dropped; readers go on. For a consistent view of several
    /// keys or maps. Writing from this thread meanwhile is the error `Busy`.
    ///
    /// # Errors
    /// `Closed`; `ReadOnly`; `Busy` if this thread has frozen the hold already; `TimedOut`;
    /// `Damaged`. Waits for a writer that is stopped in the middle of a change as long as it takes,
    /// unless there is a [`lock_timeout`](HoldOptions::lock_timeout); other writers go on meanwhile.
    pub fn freeze(&self) -> Result<Freeze<'_>> {
        freeze::freeze(&self.arena)
    }

    /// Closes the handle, for all its clones and maps: later operations are the error `Closed`. Waits for
    /// operations that run in other threads. Dropping the last clone closes it, too.
    ///
    /// # Errors
    /// None at present.
    pub fn close(self) -> Result<()> {
        self.arena.ensure_open()?;
        self.arena.close();
        Ok(())
    }

    /// The path that a name stands for.
    ///
    /// # Errors
    /// `Invalid` for a name that no hold can have.
    pub fn resolve(name: impl AsRef<Path>, directory: Option<&Path>) -> Result<PathBuf> {
        location::resolve(name.as_ref(), directory)
    }

    /// The holds where bare names live, sorted by name; also those that cannot be opened, with the reason.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub fn list(directory: Option<&Path>) -> Result<Vec<Listed>> {
        files::list(directory)
    }

    /// Deletes the file of a hold.
    ///
    /// # Errors
    /// `NotFound`; `NotAHold` (nothing else is ever deleted); `Busy` if a process has it open, unless `force`: then
    /// those go on with the memory they have, which vanishes with the last of them.
    pub fn drop_hold(name: impl AsRef<Path>, force: bool) -> Result<()> {
        files::drop_hold(name.as_ref(), force)
    }

    /// Makes a new hold from a backup; nobody sees it before it is whole.
    ///
    /// # Errors
    /// `Exists`; `Damaged` or `Truncated` if the backup is not whole; `Full`.
    pub fn restore(backup: impl AsRef<Path>, name: impl AsRef<Path>) -> Result<RestoreReport> {
        restore::restore(backup.as_ref(), name.as_ref())
    }

    /// Saves what is intact in a file hold that was open when the system stopped. Alone on the hold.
    ///
    /// Keeps every record whose checksum is intact, per key the one with the highest sequence; **deleted keys may
    /// return**, because a page that says so may not have reached the disk. The old file is kept beside the new one.
    ///
    /// # Errors
    /// `Busy` if anybody has it open; `NotAHold`; those of writing files.
    pub fn salvage(name: impl AsRef<Path>) -> Result<SalvageReport> {
        salvage::salvage(name.as_ref())
    }
}
