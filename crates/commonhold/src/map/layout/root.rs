//! The fields of a map's root: the 512 bytes of `memory::roots::Root`, as maps see them.
//!
//! A root's state is FREE, CREATING, LIVE or DROPPING, with an owner while it changes. LIVE is the
//! commit point of a creation. The incarnation is incremented before anything of a map is freed,
//! and every operation checks it last.

use crate::map::options::{MapMode, MapOptions};
use crate::memory::roots::{self, NAME_BYTES, Name, REPLICA, StructureKind, UNREADY};
use crate::stream::words::{self, Head, Link};
use crate::sync::space::{Shared, Space};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) use crate::memory::roots::{Status, root_offset};

/// Indices of the directory below `2^FIRST_BITS` share the first chunk.
pub(crate) const FIRST_BITS: u32 = 14;

/// One map, 512 bytes.
#[repr(C)]
pub(crate) struct Root {
    /// status (8 bits) | owner << 16.
    pub(crate) state: AtomicU64,
    /// Incremented whenever a map in this root ends.
    pub(crate) incarnation: AtomicU64,
    /// Directory bits in use: the commit point of doubling.
    pub(crate) depth: AtomicU32,
    /// Robust lock over the directory.
    pub(crate) directory_lock: AtomicU32,
    /// Offset of the directory's entries below 2^14.
    pub(crate) first_chunk: AtomicU64,
    /// Offsets of the entries `2^m .. 2^(m+1)`, m from 14.
    pub(crate) chunks: [AtomicU64; 10],
    /// The secret seed of the hash function.
    pub(crate) seed: AtomicU64,
    mode: AtomicU32,
    key_bytes: AtomicU32,
    value_bytes: AtomicU32,
    name_len: AtomicU32,
    max_bytes: AtomicU64,
    max_entries: AtomicU64,
    ttl_ms: AtomicU64,
    /// The map's stream, if it has one.
    pub(crate) stream: Link,
    /// Cache mode: bytes and pairs charged, and the last change of that total
    /// ([`charge`](crate::map::engine::charge)).
    pub(crate) used_bytes: AtomicU64,
    pub(crate) used_entries: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) evicted: AtomicU64,
    /// Cache mode: the position of the clock's hand.
    pub(crate) hand: AtomicU64,
    /// See `memory::roots::Root`.
    pub(crate) claims: AtomicU64,
    name: Name,
    pub(crate) stream_head: Head,
}

const _: () = assert!(size_of::<Root>() == 512 && std::mem::offset_of!(Root, used_bytes) == 192);
const _: () = assert!(std::mem::offset_of!(Root, mode) == 120 && NAME_BYTES == 200);
const _: () = assert!(std::mem::offset_of!(Root, name) == 256);
const _: () = assert!(std::mem::offset_of!(Root, incarnation) == words::INCARNATION_AT);
const _: () = assert!(std::mem::offset_of!(Root, stream) == words::LINK_AT);
const _: () = assert!(std::mem::offset_of!(Root, stream_head) == words::HEAD_AT);

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Root {}

impl Root {
    pub(crate) fn status(&self) -> Status {
        Status::load(&self.state)
    }

    pub(crate) fn set_status(&self, status: Status) {
        status.store(&self.state);
    }

    pub(crate) fn name(&self) -> String {
        roots::read_name(&self.name, &self.name_len)
    }

    pub(crate) fn mode(&self) -> Option<MapMode> {
        match self.mode.load(Ordering::Relaxed) & !(REPLICA | UNREADY) {
            0 => Some(MapMode::General),
            1 => Some(MapMode::Fixed {
                key_bytes: self.key_bytes.load(Ordering::Relaxed),
                value_bytes: self.value_bytes.load(Ordering::Relaxed),
            }),
            2 => {
                let limits = [&self.max_bytes, &self.max_entries, &self.ttl_ms];
                Some(MapMode::cache(limits.map(|limit| limit.load(Ordering::Relaxed))))
            }
            _ => None,
        }
    }

    /// True if only its replica writes it.
    pub(crate) fn is_replica(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & REPLICA != 0
    }

    /// True for a replica's map without contents, which nobody may read yet.
    pub(crate) fn is_unready(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & UNREADY != 0
    }

    /// From now on every participant may write the map.
    pub(crate) fn promote(&self) {
        // Release: everything that its replica wrote is visible.
        self.mode.fetch_and(!REPLICA, Ordering::Release);
    }

    pub(crate) fn set_mode(&self, options: &MapOptions) {
        let MapOptions { mode, replica, unready, .. } = *options;
        let (number, lengths, limits) = match mode {
            MapMode::General => (0, [0; 2], [0; 3]),
            MapMode::Fixed { key_bytes, value_bytes } => (1, [key_bytes, value_bytes], [0; 3]),
            MapMode::Cache { max_bytes, max_entries, ttl_ms } => {
                (2, [0; 2], [max_bytes, max_entries, ttl_ms].map(Option::unwrap_or_default))
            }
        };
        let bits = if replica { REPLICA } else { 0 } | if unready { UNREADY } else { 0 };
        self.mode.store(number | bits, Ordering::Relaxed);
        self.key_bytes.store(lengths[0], Ordering::Relaxed);
        self.value_bytes.store(lengths[1], Ordering::Relaxed);
        for (word, limit) in [&self.max_bytes, &self.max_entries, &self.ttl_ms].iter().zip(limits) {
            word.store(limit, Ordering::Relaxed);
        }
        for word in [&self.used_bytes, &self.used_entries, &self.hits, &self.misses] {
            word.store(0, Ordering::Relaxed);
        }
        for word in [&self.expired, &self.evicted, &self.hand] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// The root of map `id`.
pub(crate) fn root(space: &Space, id: u32) -> Option<&Root> {
    root_offset(space, id).map(|offset| space.view(offset))
}

/// Every root, used or not, except those of other kinds of structures.
pub(crate) fn all(space: &Space) -> impl Iterator<Item = (u32, &Root)> {
    // An unknown kind is that of a damaged map.
    let of_map = |root: &roots::Root| root.kind().is_none_or(|kind| kind == StructureKind::Map);
    let ids = roots::all(space).filter(move |(_, root)| of_map(root)).map(|(id, _)| id);
    ids.filter_map(move |id| Some((id, root(space, id)?)))
}

/// The live map with this name.
pub(crate) fn find<'a>(space: &'a Space, name: &str) -> Option<(u32, &'a Root)> {
    let (id, found) = roots::find(space, name)?;
    let is_map = found.kind().is_none_or(|kind| kind == StructureKind::Map);
    Some((id, root(space, id).filter(|_| is_map)?))
}
