//! A map as one handle sees it: a copy of its root's fields in private memory.

use crate::error::{Error, ErrorKind, Result};
use crate::map::engine::chunk_cache::ChunkCache;
use crate::map::engine::lookups::Lookups;
use crate::map::layout::hash::{Hash, Hasher};
use crate::map::layout::inline::Inline;
use crate::map::layout::record::{self, Record, Shape};
use crate::map::layout::root::{self, Root, Status};
use crate::map::layout::segment::{BUCKETS, CACHE_BUCKETS, Segment};
use crate::map::options::MapMode;
use crate::memory::roots;
use crate::steps::step;
use crate::stream::follow::Followed;
use crate::stream::words::{KnownRing, Stream};
use crate::sync::space::{Checked, Space};
use std::sync::atomic::{Ordering, fence};

/// The private view of one map.
pub(crate) struct Bound {
    pub(crate) id: u32,
    root: Checked<Root>,
    /// The chunks of its directory that this handle has looked at.
    pub(crate) chunks: ChunkCache,
    pub(crate) incarnation: u64,
    pub(crate) hasher: Hasher,
    pub(crate) mode: MapMode,
    /// In general mode: the short way of a lookup in records that do not expire applies.
    pub(crate) has_short_reads: bool,
    /// Everybody may write it: the short way of a change applies.
    pub(crate) has_short_changes: bool,
    /// In general mode, and in a hold in memory: its records have neither expiry nor checksum.
    pub(crate) is_plain: bool,
    /// Both: the shortest way of a change applies.
    pub(crate) has_plain_changes: bool,
    /// True if only its replica writes it.
    pub(crate) replica: bool,
    /// The minimum number of bytes allocated for a value; a setting of the handle.
    pub(crate) value_room: u32,
    pub(crate) shape: Shape,
    /// The bits of a record's header that name the map.
    map_bits: u64,
    /// How pairs are packed in the index itself, if they are.
    pub(crate) inline: Option<Inline>,
    /// Buckets of a segment.
    pub(crate) buckets: u32,
    pub(crate) name: String,
    /// Cache mode: lookups of this handle that are not yet added to the map's counters.
    pub(crate) lookups: Lookups,
    /// The ring of its stream, for the short way of a change.
    pub(crate) ring: KnownRing,
}

impl Bound {
    /// Reads the root of map `id`.
    ///
    /// # Errors
    /// `Damaged` if the root's fields are inconsistent.
    pub(crate) fn new(space: &Space, id: u32, root: &Root) -> Result<Bound> {
        let offset = root::root_offset(space, id);
        let checked = offset.and_then(|offset| Checked::new(space, offset));
        let incarnation = root.incarnation.load(Ordering::Acquire);
        let (Some(checked), Some(mode)) = (checked, root.mode()) else {
            return Err(damaged(space, id));
        };
        let hasher = Hasher::new(root.seed.load(Ordering::Relaxed));
        let cache = matches!(mode, MapMode::Cache { .. });
        let inline = match mode {
            MapMode::Fixed { key_bytes, value_bytes } => {
                Inline::new(&hasher, space.has_checksums(), key_bytes, value_bytes)
            }
            _ => None,
        };
        let slots = if cache { CACHE_BUCKETS } else { BUCKETS };
        let is_plain = mode == MapMode::General && !space.has_checksums();
        Ok(Bound {
            id,
            root: checked,
            chunks: ChunkCache::new(),
            incarnation,
            hasher,
            mode,
            has_short_reads: mode == MapMode::General,
            has_short_changes: !root.is_replica(),
            is_plain,
            has_plain_changes: is_plain && !root.is_replica(),
            replica: root.is_replica(),
            value_room: 0,
            shape: Shape::new(cache, space.has_checksums()),
            map_bits: record::map_bits(id),
            buckets: inline.as_ref().map_or(slots, Inline::buckets),
            inline,
            name: root.name(),
            lookups: Lookups::default(),
            ring: KnownRing::default(),
        })
    }

    #[inline(always)]
    pub(crate) fn root<'a>(&self, space: &'a Space) -> &'a Root {
        self.root.of(space)
    }

    /// Its stream, if it has one.
    #[inline]
    pub(crate) fn stream<'a>(&self, space: &'a Space) -> Stream<'a> {
        Stream::of(space, self.root.offset(space), self.incarnation)
    }

    /// The last check of every operation.
    ///
    /// # Errors
    /// `NotFound` if the map was dropped since it was opened.
    #[inline]
    pub(crate) fn ensure_current(&self, space: &Space) -> Result<()> {
        if self.is_current(space) { Ok(()) } else { Err(self.dropped()) }
    }

    /// True unless the map was dropped since it was opened.
    #[inline]
    pub(crate) fn is_current(&self, space: &Space) -> bool {
        self.root(space).incarnation.load(Ordering::Acquire) == self.incarnation
    }

    #[cold]
    fn dropped(&self) -> Error {
        let text = format!("map '{}' was dropped; open it again by name", self.name);
        Error::new(ErrorKind::NotFound, text)
    }

    #[cold]
    pub(crate) fn damaged(&self, what: &str) -> Error {
        let text = format!("map '{}': {what}; run 'hold check', then 'hold repair'", self.name);
        Error::new(ErrorKind::Damaged, text)
    }

    /// The short record of a key in `word`, as it is at this moment; `None` if it is not there.
    #[inline(always)]
    pub(crate) fn open_short<'a>(
        &self,
        space: &'a Space,
        word: u64,
        (hash, key): (Hash, &[u8]),
    ) -> Option<Record<'a>> {
        self.shape.open_short_of(space, word, self.map_bits | record::hash_bits(hash), key)
    }

    /// True in cache mode.
    #[inline]
    pub(crate) fn is_cache(&self) -> bool {
        self.shape.expiry
    }

    /// True if pairs are packed in cells.
    #[inline]
    pub(crate) fn has_cells(&self) -> bool {
        matches!(self.inline, Some(Inline::Cells(_)))
    }

    /// True if a split at this depth goes by the tags in the slots: no record needs to be read.
    #[inline]
    pub(crate) fn moves_by_tag(&self, depth: u32) -> bool {
        self.inline.is_none() && depth >= 8
    }

    /// The description of the map for a follower.
    pub(crate) fn followed(&self, space: &Space) -> Followed {
        Followed {
            name: self.name.clone(),
            root: self.root.offset(space),
            incarnation: self.incarnation,
        }
    }

    /// The same, with at least this many bytes allocated for a value.
    pub(crate) fn with_value_room(self, value_room: u32) -> Bound {
        Bound { value_room, ..self }
    }

    /// Bytes that a record allocates for a value of `len` bytes.
    #[inline]
    pub(crate) fn room_for(&self, len: usize) -> u64 {
        (len as u64).max(self.value_room.into())
    }

    /// Slot positions of a segment.
    pub(crate) fn positions(&self) -> u32 {
        self.buckets * 8
    }

    /// True if a position of a segment holds something.
    #[inline]
    pub(crate) fn is_used(&self, segment: Segment<'_>, position: u32) -> bool {
        match &self.inline {
            Some(inline) => inline.is_used(segment, position),
            // Acquire pairs with the release of the commit.
            None => segment.slot(position).load(Ordering::Acquire) != 0,
        }
    }

    /// Counts the pairs of a segment that is locked. The lock of a stale writer does not keep the
    /// segment's memory from becoming another map's meanwhile, so its map stays as it is found.
    pub(crate) fn recount(&self, segment: Segment<'_>) {
        let before = segment.pairs_and_map();
        let used = |position: &u32| self.is_used(segment, *position);
        let pairs = (0..self.positions()).filter(used).count() as u32;
        segment.correct_pairs(before, pairs);
    }

    /// Fetches both buckets of a hash, for a change.
    #[inline]
    pub(crate) fn prefetch_to_change(&self, segment: Segment<'_>, hash: Hash) {
        match &self.inline {
            Some(inline) => inline.prefetch_to_change(segment, hash),
            None => segment.row(hash.buckets(self.buckets)).prefetch(),
        }
    }

    /// # Errors
    /// `TooLarge` beyond the limit of 2^32 - 1 bytes; `Invalid` for a length that is not the map's.
    #[inline]
    pub(crate) fn check_lengths(&self, key: &[u8], value: Option<usize>) -> Result<()> {
        match self.mode {
            MapMode::Fixed { key_bytes, value_bytes } => {
                let wrong_value = value.is_some_and(|len| len != value_bytes as usize);
                if key.len() != key_bytes as usize || wrong_value {
                    return Err(self.wrong_length(key.len(), value));
                }
            }
            _ if key.len().saturating_add(value.unwrap_or(0)) > u32::MAX as usize => {
                return Err(self.too_large(key.len(), value));
            }
            _ => {}
        }
        Ok(())
    }

    /// # Errors
    /// As [`check_lengths`](Self::check_lengths), of the first key that has a wrong length.
    #[inline]
    pub(crate) fn check_keys<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        let is_right = |key: &K| match self.mode {
            MapMode::Fixed { key_bytes, .. } => key.as_ref().len() == key_bytes as usize,
            _ => key.as_ref().len() <= u32::MAX as usize,
        };
        match keys.iter().find(|key| !is_right(key)) {
            None => Ok(()),
            Some(wrong) => self.check_lengths(wrong.as_ref(), None),
        }
    }

    #[cold]
    fn wrong_length(&self, key: usize, value: Option<usize>) -> Error {
        let MapMode::Fixed { key_bytes, value_bytes } = self.mode else { unreachable!() };
        let got = value.map_or_else(|| key.to_string(), |value| format!("{key} + {value}"));
        let text = format!(
            "map '{}' has fixed lengths: expected {key_bytes} bytes of key + {value_bytes} of \
             value, got {got}",
            self.name
        );
        Error::new(ErrorKind::Invalid, text)
    }

    #[cold]
    fn too_large(&self, key: usize, value: Option<usize>) -> Error {
        let text = format!(
            "map '{}': {key} bytes of key + {} of value exceed the limit of 2^32 - 1 together; \
             split the value",
            self.name,
            value.unwrap_or(0)
        );
        Error::new(ErrorKind::TooLarge, text)
    }
}

/// Binds the live map with this name. `None` if there is none.
pub(crate) fn open(space: &Space, name: &str) -> Result<Option<Bound>> {
    loop {
        let Some((id, root)) = root::find(space, name) else { return Ok(None) };
        // The incarnation first: if it is the same after the rest was read, the rest belongs to it.
        let incarnation = root.incarnation.load(Ordering::Acquire);
        if root.status() != Status::Live {
            continue; // Being created again: its fields may be the old map's.
        }
        let bound = Bound::new(space, id, root);
        fence(Ordering::Acquire);
        let called_so = roots::root(space, id).is_some_and(|r| roots::is_called(space, r, name));
        let same = root.status() == Status::Live
            && called_so
            && root.incarnation.load(Ordering::Acquire) == incarnation;
        if same {
            // Its name may be changing at this moment.
            let name = name.to_owned();
            return bound.map(|bound| Some(Bound { incarnation, name, ..bound }));
        }
    }
}

/// Binds the live map of a root. `None` if there is none, or if it was dropped meanwhile, because
/// the fields may then belong to two maps.
pub(crate) fn read_live(space: &Space, id: u32, root: &Root) -> Option<Result<Bound>> {
    // The incarnation first, as in `open`.
    let incarnation = root.incarnation.load(Ordering::Acquire);
    if root.status() != Status::Live {
        return None;
    }
    step!("bind.live");
    let bound = Bound::new(space, id, root);
    fence(Ordering::Acquire);
    let same =
        root.status() == Status::Live && root.incarnation.load(Ordering::Acquire) == incarnation;
    same.then(|| bound.map(|bound| Bound { incarnation, ..bound }))
}

/// The live map `id`, bound. `None` if there is none.
pub(crate) fn bind_live(space: &Space, id: u32) -> Option<Bound> {
    read_live(space, id, root::root(space, id)?)?.ok()
}

/// Binds the map `id`, live, partly created or partly dropped; for recovery. `None` if there is
/// none.
pub(crate) fn bind_any(space: &Space, id: u32) -> Option<Bound> {
    let root = root::root(space, id)?;
    if root.status() == Status::Free {
        return None;
    }
    Bound::new(space, id, root).ok()
}

pub(crate) fn damaged(space: &Space, id: u32) -> Error {
    let text = format!("{}: the root of map {id} is damaged", space.file().path().display());
    Error::new(ErrorKind::Damaged, text)
}
