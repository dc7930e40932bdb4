//! [`Maps`]: the maps of a hold by name.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::channels::Channels;
use crate::hold::freeze;
use crate::hold::stat;
use crate::map::api::handle::Map;
use crate::map::api::walk::MapInfo;
use crate::map::engine::bound;
use crate::map::engine::dropping;
use crate::map::engine::lifecycle;
use crate::map::engine::shadow_map;
use crate::map::options::MapOptions;
use crate::memory::arena::Arena;
use crate::memory::roots::{self, Existing, StructureKind};
use crate::steps::step;
use crate::stream::own::{self, Resizing};
use crate::stream::position::StreamPosition;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The beginning of the names of lineages.
const LINEAGE: &str = ".lineage/";

/// The maps of a hold by name; see [`Hold::maps`](crate::Hold::maps).
///
/// A name has 1 to 200 bytes and no NUL. Maps, queues, channels and logs of a hold share one space
/// of names.
#[derive(Clone, Copy, Debug)]
pub struct Maps<'h> {
    arena: &'h Arc<Arena>,
}

impl<'h> Maps<'h> {
    pub(crate) fn new(arena: &'h Arc<Arena>) -> Maps<'h> {
        Maps { arena }
    }

    /// Opens an existing map, whatever its options.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if the name is that of another kind of structure; `Busy` if it is a
    /// replica that has not received its contents yet; `Closed`; `Damaged`.
    pub fn open(&self, name: &str) -> Result<Map> {
        self.ready(self.open_unready(name)?)
    }

    /// The same, also while the map is not ready.
    pub(crate) fn open_unready(&self, name: &str) -> Result<Map> {
        self.arena.ensure_open()?;
        if let Some(bound) = bound::open(&self.arena.space, name)? {
            return Ok(Map::new(Arc::clone(self.arena), bound));
        }
        roots::check_kind(&self.arena.space, name, StructureKind::Map)?;
        Err(roots::not_found(&self.arena.space, StructureKind::Map, name))
    }

    /// # Errors
    /// `Busy` if the map has no contents yet, because it is being replicated or rebuilt.
    fn ready(&self, map: Map) -> Result<Map> {
        if !map.is_unready() {
            return Ok(map);
        }
        let text = format!(
            "map '{}' has not received its contents yet, because it is being replicated or \
             rebuilt; open it again when the replica is ready ('hold stat'), or when the map is \
             rebuilt",
            map.name()
        );
        Err(Error::new(ErrorKind::Busy, text))
    }

    /// Opens a map, or creates it if there is none.
    ///
    /// # Errors
    /// `Mismatch` if it exists with other options or as another kind of structure; `NotFound` if it
    /// does not exist and this handle is read-only; `Busy` if it is a replica that has not received
    /// its contents yet; `Invalid` for a bad name or bad options; `Full`; `Closed`; `TimedOut`.
    pub fn open_or_create(&self, name: &str, options: impl Into<MapOptions>) -> Result<Map> {
        let options = options.into();
        self.arena.ensure_open()?;
        if self.arena.participant().is_some() {
            return self.ready(self.make(name, &options, Existing::Open)?);
        }
        lifecycle::check_name(name)?;
        let map = self.open(name)?;
        match map.options().mode == options.mode {
            true => Ok(map),
            false => {
                let text = format!(
                    "map '{name}' exists with other options; open it with its existing options"
                );
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

    /// Drops a map and everything in it; returns false if there is none. Other handles on it return
    /// `NotFound` from then on, and the name is free. This call does not wait for a process that is
    /// stopped in the middle of a change to the map. In that case the memory is freed later, by the
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

    /// The maps in the hold, sorted by name. Names that begin with a dot are left out: they are
    /// Commonhold's own, for example `.reports` or `.applied/prices`.
    ///
    /// # Errors
    /// `Closed`; `Damaged`.
    pub fn list(&self) -> Result<Vec<MapInfo>> {
        let mut maps = self.list_all()?;
        maps.retain(|map| !roots::is_own(&map.name));
        Ok(maps)
    }

    /// The same with Commonhold's own maps.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn list_all(&self) -> Result<Vec<MapInfo>> {
        self.arena.ensure_open()?;
        stat::all_maps(&self.arena.space)
    }

    /// The names of the same maps, in no order, without the work of counting pairs.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        self.arena.ensure_open()?;
        let mut names = stat::map_names(&self.arena.space)?;
        names.retain(|name| !roots::is_own(name));
        Ok(names)
    }

    /// Gives a map a stream. From now on every change of the map is recorded for its followers
    /// ([`Map::follow`]), and the stream keeps the last `bytes` of them, rounded up to a power of
    /// two, at least 64 KiB. The stream ends with the map.
    ///
    /// If the map has a stream of another size, that stream ends, and a new one with another number
    /// begins: its followers get [`Lapped`](crate::ErrorKind::Lapped), and replicas receive the
    /// whole map again. If the map has a stream of this size, or of any size and `bytes` is 0, the
    /// stream stays as it is, and this returns false. Without a stream, 0 stands for 64 MiB.
    ///
    /// Writers of the hold wait for a moment while a stream begins, as for a
    /// [`freeze`](crate::Hold::freeze). Afterwards a writer of the map pays for one more lock,
    /// which all its writers share, and for a copy of key and value.
    ///
    /// # Errors
    /// `NotFound`; `Mismatch` if it is another kind of structure; `Invalid` for more than 4 GiB;
    /// `Full`; those of [`freeze`](crate::Hold::freeze).
    pub fn begin_stream(&self, name: &str, bytes: u64) -> Result<bool> {
        let resizing = if bytes == 0 { Resizing::Never } else { Resizing::Any };
        self.begin_stream_at(name, (bytes, resizing), None)
    }

    /// The same; with a position, a new stream begins there and has that position's number.
    pub(crate) fn begin_stream_at(
        &self,
        name: &str,
        wanted: (u64, Resizing),
        at: Option<StreamPosition>,
    ) -> Result<bool> {
        loop {
            let map = self.open_unready(name)?;
            match self.begin_own_stream(&map, wanted, at) {
                // Its shadow map has taken its place.
                Err(error) if error.is_not_found() && !map.bound.is_current(&self.arena.space) => {}
                begun => return begun,
            }
        }
    }

    fn begin_own_stream(
        &self,
        map: &Map,
        (bytes, resizing): (u64, Resizing),
        at: Option<StreamPosition>,
    ) -> Result<bool> {
        let stream = map.bound.stream(&self.arena.space);
        let size = own::size(if bytes == 0 { own::usual_size(stream.link) } else { bytes })?;
        if stream.ring()?.is_some_and(|ring| !resizing.replaces(ring.size(), size)) {
            return map.bound.ensure_current(&self.arena.space).map(|()| false);
        }
        // Once the old stream has ended, nothing may fail.
        let numbers = own::draw_numbers()?;
        self.arena.operate(|lane| {
            let ring = own::claim(lane, size)?;
            let _frozen = freeze::freeze_in(self.arena, lane)?;
            map.bound.ensure_current(&self.arena.space)?;
            step!("stream.frozen");
            Ok(own::begin(stream, ring, resizing, at, numbers))
        })
    }

    /// Opens a map that only its replica writes, or creates it. This handle may write; every other
    /// handle on the map may only read, and gets `ReadOnly`. The hold does not choose the replica:
    /// the programs that use it must ensure that there is only one.
    ///
    /// # Errors
    /// `Mismatch` if it exists as a map that every process may write to, or with other options;
    /// those of [`open_or_create`](Self::open_or_create).
    pub fn open_replica(&self, name: &str, options: impl Into<MapOptions>) -> Result<Map> {
        let options = MapOptions { replica: true, ..options.into() };
        let map = match self.arena.participant() {
            Some(_) => self.make(name, &options, Existing::Open)?,
            None => self.open_or_create(name, options)?,
        };
        if map.is_replica() { Ok(map.for_replica()) } else { Err(shadow_map::not_a_replica(name)) }
    }

    /// Promotes a replica's map to one that every process may write to, for example because its
    /// origin will not come back, or because it has been rebuilt from a journal. Returns false if
    /// every process may already write to it. While a replica keeps the map up to date, it cannot
    /// be promoted: end the replica first.
    ///
    /// # Errors
    /// `NotFound`; `Busy`, which names slot and process, while its replica lives, or if it has not
    /// received its contents yet; those of [`drop`](Self::drop).
    pub fn promote(&self, name: &str) -> Result<bool> {
        // While this lives no replica can begin, and so none writes behind the promotion.
        let _place = match Channels::new(self.arena).open(&companion_name("replica", name)) {
            Ok(place) => Some(place.producer().map_err(|error| has_replica(name, error))?),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        self.ready(self.open_unready(name)?)?;
        // A map that the replica was building takes no place any more. If dropping it fails or is
        // killed, nothing is promoted yet, and the next attempt drops it.
        self.drop(&next_name(name))?;
        shadow_map::promote(self.arena, name)
    }
}

/// The name of the map that a replica builds before it takes the place of the map of this name.
pub fn next_name(map: &str) -> String {
    companion_name("next", map)
}

/// The name of a structure that belongs to the map of this name.
pub fn companion_name(what: &str, map: &str) -> String {
    format!(".{what}/{map}")
}

/// The name of the map that records where a map comes from: backups contain it.
pub fn lineage_name(map: &str) -> String {
    format!("{LINEAGE}{map}")
}

/// Whether a map of this name belongs into a backup. Other maps of Commonhold's own describe living
/// processes, and positions in streams, which a backup has not.
pub(crate) fn is_kept(name: &str) -> bool {
    !roots::is_own(name) || name.starts_with(LINEAGE)
}

/// The error of taking the place of a map's replica, which has one producer.
pub fn has_replica(map: &str, error: Error) -> Error {
    if error.kind() != ErrorKind::Busy {
        return error;
    }
    let text = format!("map '{map}' already has a replica: {error}; end that one first");
    Error::new(ErrorKind::Busy, text)
}

/// Makes a map's stream large enough for the largest change that did not fit into it. False if all
/// have fitted.
///
/// # Errors
/// As [`Maps::begin_stream`]; `TooLarge` if no stream has room for that change.
pub fn fit_stream(map: &Map) -> Result<bool> {
    let head = map.bound.stream(&map.arena.space).head;
    // Relaxed: only a hint.
    let frame = head.left_out.load(Ordering::Relaxed);
    if frame == 0 {
        return Ok(false);
    }
    let bytes = own::size_for(frame).ok_or_else(|| {
        let text = format!(
            "map '{}': a change of {frame} bytes is too large for any stream, which has room for \
             1 GiB",
            map.name()
        );
        Error::new(ErrorKind::TooLarge, text)
    })?;
    // Another process may have made it larger since.
    Maps::new(&map.arena).begin_stream_at(map.name(), (bytes, Resizing::Grow), None)
}
