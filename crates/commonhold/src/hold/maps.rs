//! [`Maps`]: the maps of a hold by name.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::freeze;
use crate::hold::stat;
use crate::map::bound;
use crate::map::dropping;
use crate::map::handle::Map;
use crate::map::lifecycle;
use crate::map::options::MapOptions;
use crate::map::shadow_map;
use crate::map::walk::MapInfo;
use crate::memory::arena::Arena;
use crate::memory::roots::{self, Existing, StructureKind};
use crate::steps::step;
use crate::stream::own;
use std::fmt;
use std::sync::Arc;

/// The maps of a hold by name; see [`Hold::maps`](crate::Hold::maps).
///
/// A name has 1 to 200 bytes and no NUL. Maps, queues, channels and logs of a hold share one space
/// of names.
#[derive(Clone, Copy)]
pub struct Maps<'h> {
    arena: &'h Arc<Arena>,
}

impl fmt::Debug for Maps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.arena.space.file().path();
        f.debug_struct("Maps").field("hold", &path).finish_non_exhaustive()
    }
}

impl<'h> Maps<'h> {
    pub(crate) fn new(arena: &'h Arc<Arena>) -> Maps<'h> {
        Maps { arena }
    }

    /// Opens an existing map, whatever its options.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if the name is that of another kind of structure; `Closed`;
    /// `Damaged`.
    pub fn open(&self, name: &str) -> Result<Map> {
        self.arena.ensure_open()?;
        if let Some(bound) = bound::open(&self.arena.space, name)? {
            return Ok(Map::new(Arc::clone(self.arena), bound));
        }
        roots::check_kind(&self.arena.space, name, StructureKind::Map)?;
        Err(roots::not_found(&self.arena.space, StructureKind::Map, name))
    }

    /// Opens a map, or creates it if there is none.
    ///
    /// # Errors
    /// `Mismatch` if it exists with other options or as another kind of structure; `NotFound` if it
    /// does not exist and this handle is read-only; `Invalid` for a bad name or bad options;
    /// `Full`; `Closed`; `TimedOut`.
    pub fn open_or_create(&self, name: &str, options: impl Into<MapOptions>) -> Result<Map> {
        let options = options.into();
        self.arena.ensure_open()?;
        if self.arena.participant().is_some() {
            return self.make(name, &options, Existing::Open);
        }
        lifecycle::check_name(name)?;
        let map = self.open(name)?;
        match map.options().mode == options.mode {
            true => Ok(map),
            false => {
                let text = format!("map '{name}' exists with other options; open it with its own");
                Err(Error::new(ErrorKind::Mismatch, text))
            }
        }
    }

    /// Creates a map.
    ///
    /// # Errors
    /// `Exists` if there is one; `Mismatch` if the name is that of another kind of structure;
    /// `ReadOnly`; `Invalid` for a bad name or bad options; `Full`; `Closed`; `TimedOut`.
    pub fn create(&self, name: &str, options: impl Into<MapOptions>) -> Result<Map> {
        drop(self.arena.enter()?);
        self.make(name, &options.into(), Existing::Refuse)
    }

    fn make(&self, name: &str, options: &MapOptions, existing: Existing) -> Result<Map> {
        let bound = lifecycle::create(self.arena, name, options, existing)?;
        Ok(Map::new(Arc::clone(self.arena), bound.with_value_room(options.value_room)))
    }

    /// Drops a map with everything in it; false if there is none. Other handles on it report
    /// `NotFound` from then on, and the name is free. This call does not wait for a process that is
    /// stopped in the middle of a change of the map: the memory is freed later in this case, by the
    /// next [`sweep`](crate::Hold::sweep), [`trim`](crate::Hold::trim) or drop, or when a process
    /// opens or closes the hold.
    ///
    /// # Errors
    /// `Mismatch` if it is another kind of structure; `ReadOnly`; `Closed`; `Busy` if this thread
    /// has frozen the hold; `TimedOut` if another process keeps it frozen (see
    /// [`HoldOptions::lock_timeout`](crate::HoldOptions::lock_timeout)); `Damaged`.
    pub fn drop(&self, name: &str) -> Result<bool> {
        dropping::drop_map(self.arena, name)
    }

    /// The maps in the hold, sorted by name.
    ///
    /// # Errors
    /// `Closed`; `Damaged`.
    pub fn list(&self) -> Result<Vec<MapInfo>> {
        self.arena.ensure_open()?;
        stat::maps(&self.arena.space)
    }

    /// Gives a map a stream. From now on every change of the map is recorded for its followers
    /// ([`Map::follow`]), and the stream keeps the last `bytes` of them, rounded up to a power of
    /// two, at least 64 KiB. Returns false if the map has a stream already, which stays as it is.
    /// The stream ends with the map.
    ///
    /// Writers of the hold wait for a moment while a stream begins, as for a
    /// [`freeze`](crate::Hold::freeze). Afterwards a writer of the map pays for one more lock,
    /// which all its writers share, and for a copy of key and value.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if it is another kind of structure; `Invalid` for more than 4 GiB;
    /// `Full`; those of [`freeze`](crate::Hold::freeze).
    pub fn begin_stream(&self, name: &str, bytes: u64) -> Result<bool> {
        let size = own::size(bytes)?;
        let map = self.open(name)?;
        let stream = map.bound.stream(&self.arena.space);
        if stream.ring()?.is_some() {
            return map.bound.ensure_current(&self.arena.space).map(|()| false);
        }
        self.arena.operate(|lane| {
            let ring = own::claim(lane, size)?;
            let _frozen = freeze::freeze_in(self.arena, lane)?;
            map.bound.ensure_current(&self.arena.space)?;
            step!("stream.frozen");
            own::begin(stream, ring)
        })
    }

    /// Opens a map that only its replica writes, or creates it. This handle may write; every other
    /// handle on the map may only read, and gets `ReadOnly`. The hold does not choose the replica:
    /// the programs that use it must see to it that there is one.
    ///
    /// # Errors
    /// `Mismatch` if it exists as a map that everybody may write, or with other options; those of
    /// [`open_or_create`](Self::open_or_create).
    pub fn open_replica(&self, name: &str, options: impl Into<MapOptions>) -> Result<Map> {
        let map = self.open_or_create(name, MapOptions { replica: true, ..options.into() })?;
        if map.is_replica() { Ok(map.for_replica()) } else { Err(shadow_map::not_a_replica(name)) }
    }

    /// Promotes a replica's map to one that everybody may write, because its origin is gone for
    /// good or the journal that it is rebuilt from has been read. Returns false if everybody may
    /// write it already.
    ///
    /// # Errors
    /// `NotFound`; those of [`drop`](Self::drop).
    pub fn promote(&self, name: &str) -> Result<bool> {
        shadow_map::promote(self.arena, name)
    }
}
