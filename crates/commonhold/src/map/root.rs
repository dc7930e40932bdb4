//! The table of maps: one 512-byte root per map, found by name.
//!
//! A root's state is FREE, CREATING, LIVE or DROPPING with an owner while it changes; LIVE is the commit
//! point of a creation. The incarnation is bumped before anything of a map is freed, and every operation
//! checks it last.

use crate::map::options::MapMode;
use crate::memory::classes::EXTENT;
use crate::sync::owner::Owner;
use crate::sync::space::{Shared, Space};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Where [`Roots`] lies, in the superblock page.
pub(crate) const ROOTS_OFFSET: u64 = 1024;
/// The first roots lie in extent 0, behind the superblock page.
const FIRST_ROOTS: u64 = 4096;
const FIRST_COUNT: u32 = 56;
const PER_EXTENT: u32 = 128;
const EXTENTS: usize = 31;
/// The most maps in a hold (map ids have 12 bits).
pub(crate) const MAX_MAPS: u32 = FIRST_COUNT + PER_EXTENT * EXTENTS as u32;
/// Bytes of a map's name at most.
pub(crate) const NAME_BYTES: usize = 200;

/// The locks over all maps, and where their roots are.
#[repr(C)]
pub(crate) struct Roots {
    /// Robust lock over creating and dropping maps.
    pub(crate) names_lock: AtomicU32,
    /// Robust lock that keeps all writers out while it is held.
    pub(crate) gate: AtomicU32,
    /// Further extents of roots; 0 where there is none yet.
    pub(crate) extents: [AtomicU64; EXTENTS],
}

/// One map, 512 bytes.
#[repr(C)]
pub(crate) struct Root {
    /// status (8 bits) | owner << 16.
    pub(crate) state: AtomicU64,
    /// Counts up whenever a map in this root ends.
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
    spare: [AtomicU64; 4],
    /// Cache mode: bytes and pairs charged.
    pub(crate) used_bytes: AtomicU64,
    pub(crate) used_entries: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) evicted: AtomicU64,
    /// Cache mode: where the clock's hand stands.
    pub(crate) hand: AtomicU64,
    spare2: AtomicU64,
    name: [AtomicU64; NAME_BYTES / 8],
    spare3: [AtomicU64; 7],
}

const _: () = assert!(size_of::<Root>() == 512 && std::mem::offset_of!(Root, used_bytes) == 192);
const _: () = assert!(size_of::<Roots>() == 256);

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Roots {}
// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Root {}

/// What a root is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Free,
    Creating(Option<Owner>),
    Live,
    Dropping(Option<Owner>),
    /// Damage.
    Unknown,
}

impl Status {
    fn from_bits(bits: u64) -> Status {
        let owner = Owner::from_bits((bits >> 16) as u32);
        match bits & 0xff {
            0 => Status::Free,
            1 => Status::Creating(owner),
            2 => Status::Live,
            3 => Status::Dropping(owner),
            _ => Status::Unknown,
        }
    }

    fn bits(self) -> u64 {
        let signed = |o: Option<Owner>| o.map_or(0, |o| u64::from(o.bits()) << 16);
        match self {
            Status::Free => 0,
            Status::Creating(owner) => 1 | signed(owner),
            Status::Live => 2,
            Status::Dropping(owner) => 3 | signed(owner),
            Status::Unknown => 0xff,
        }
    }
}

impl Root {
    pub(crate) fn status(&self) -> Status {
        Status::from_bits(self.state.load(Ordering::Acquire))
    }

    pub(crate) fn set_status(&self, status: Status) {
        // Release: the root is whole before it changes what it is.
        self.state.store(status.bits(), Ordering::Release);
    }

    pub(crate) fn name(&self) -> String {
        let len = (self.name_len.load(Ordering::Relaxed) as usize).min(NAME_BYTES);
        let bytes: Vec<u8> =
            self.name.iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).collect();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    pub(crate) fn set_name(&self, name: &str) {
        let mut bytes = [0u8; NAME_BYTES];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        for (word, part) in self.name.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_le_bytes(part.try_into().unwrap_or_default()), Ordering::Relaxed);
        }
        self.name_len.store(name.len() as u32, Ordering::Relaxed);
    }

    pub(crate) fn mode(&self) -> Option<MapMode> {
        match self.mode.load(Ordering::Relaxed) {
            0 => Some(MapMode::General),
            1 => Some(MapMode::Fixed {
                key_bytes: self.key_bytes.load(Ordering::Relaxed),
                value_bytes: self.value_bytes.load(Ordering::Relaxed),
            }),
            2 => Some(MapMode::Cache {
                max_bytes: self.max_bytes.load(Ordering::Relaxed),
                max_entries: self.max_entries.load(Ordering::Relaxed),
                ttl_ms: self.ttl_ms.load(Ordering::Relaxed),
            }),
            _ => None,
        }
    }

    pub(crate) fn set_mode(&self, mode: MapMode) {
        let (number, lengths, limits) = match mode {
            MapMode::General => (0, [0; 2], [0; 3]),
            MapMode::Fixed { key_bytes, value_bytes } => (1, [key_bytes, value_bytes], [0; 3]),
            MapMode::Cache { max_bytes, max_entries, ttl_ms } => {
                (2, [0; 2], [max_bytes, max_entries, ttl_ms])
            }
        };
        self.mode.store(number, Ordering::Relaxed);
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

pub(crate) fn roots(space: &Space) -> &Roots {
    space.view(ROOTS_OFFSET)
}

/// Offset of the root of map `id`, if the table reaches so far.
pub(crate) fn root_offset(space: &Space, id: u32) -> Option<u64> {
    if id < FIRST_COUNT {
        return Some(FIRST_ROOTS + u64::from(id) * 512);
    }
    let (extent, within) = ((id - FIRST_COUNT) / PER_EXTENT, (id - FIRST_COUNT) % PER_EXTENT);
    let offset = roots(space).extents.get(extent as usize)?.load(Ordering::Acquire);
    let sound = offset != 0 && offset % EXTENT == 0 && space.covers(offset, EXTENT);
    sound.then_some(offset + u64::from(within) * 512)
}

/// The root of map `id`.
pub(crate) fn root(space: &Space, id: u32) -> Option<&Root> {
    root_offset(space, id).map(|offset| space.view(offset))
}

/// Every root that exists, used or not.
pub(crate) fn all(space: &Space) -> impl Iterator<Item = (u32, &Root)> {
    (0..MAX_MAPS).map_while(move |id| Some((id, root(space, id)?)))
}

/// The live map of this name.
pub(crate) fn find<'a>(space: &'a Space, name: &str) -> Option<(u32, &'a Root)> {
    all(space).find(|(_, root)| root.status() == Status::Live && root.name() == name)
}
