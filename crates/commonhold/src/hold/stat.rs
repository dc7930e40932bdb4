//! Sizes, counts and names, for people and programs.

use crate::error::{Error, Result};
use crate::hold::superblock::{FORMAT, superblock};
use crate::map::api::walk::MapInfo;
use crate::map::engine::bound;
use crate::map::engine::directory;
use crate::map::layout::root::{self, Status};
use crate::memory::attach;
use crate::memory::block::{self, Block};
use crate::memory::classes::{EXTENT, geometry};
use crate::memory::extents::{self, Kind, growth, header};
use crate::memory::roots::{Root, StructureKind};
use crate::memory::slab;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::space::Space;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Where a hold is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum HoldKind {
    /// In memory: it is lost when the system stops.
    Memory,
    /// In a file on a disk.
    File,
}

/// A structure of a hold other than a map.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StructureInfo {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: StructureKind,
    /// Bytes of memory that it takes.
    pub bytes: u64,
    /// Living participants (writable handles) that have it open.
    pub attached: u32,
}

/// A hold's sizes and counts.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct HoldStat {
    /// The path of the file.
    pub path: PathBuf,
    /// The hold's identity, as hexadecimal digits.
    pub uuid: String,
    /// Whether it is in memory or on a disk.
    pub kind: HoldKind,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Bytes of memory or disk space that the file actually uses.
    pub memory_bytes: u64,
    /// Bytes that are in use.
    pub used_bytes: u64,
    /// Bytes in the file that are free for reuse.
    pub free_bytes: u64,
    /// The size limit in bytes.
    pub max_bytes: u64,
    /// The number of living participants (writable handles).
    pub participants: u32,
    /// The number of maps.
    pub maps: u32,
    /// The number of queues, channels and logs.
    pub others: u32,
    /// The version of the file's format.
    pub format: u32,
}

/// A participant: a writable handle of some process.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ParticipantInfo {
    /// Its slot.
    pub slot: u32,
    /// How often the slot was claimed.
    pub generation: u32,
    /// Process id, as the process itself saw it (another container counts differently).
    pub pid: u32,
    /// The first bytes of the program's name.
    pub program: String,
    /// The time when it registered, in milliseconds since 1970 by its own clock.
    pub since_ms: u64,
    /// Whether the process is alive. The next sweep recovers the unfinished work of a dead process.
    pub alive: bool,
}

pub(crate) fn all_maps(space: &Space) -> Result<Vec<MapInfo>> {
    let mut maps = Vec::new();
    for (id, root) in root::all(space) {
        if let Some(bound) = bound::read_live(space, id, root).transpose()? {
            let len = directory::segments(space, root).map(|s| u64::from(s.pairs())).sum();
            maps.push(MapInfo { name: bound.name, id, mode: bound.mode, len });
        }
    }
    maps.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(maps)
}

/// The names of all maps.
pub(crate) fn map_names(space: &Space) -> Result<Vec<String>> {
    let live = |(id, root)| bound::read_live(space, id, root).transpose();
    let names = root::all(space).filter_map(|each| live(each).transpose());
    names.map(|bound| Ok(bound?.name)).collect()
}

/// The structures of these kinds, which are not maps, sorted by name.
pub(crate) fn structures(space: &Space, wanted: &[StructureKind]) -> Vec<StructureInfo> {
    let mut found = Vec::new();
    let live = |(_, kind, root): &(u32, StructureKind, &Root)| {
        wanted.contains(kind) && root.status() == Status::Live
    };
    for (id, _, root) in block::all(space).filter(live) {
        // A structure that is being dropped this very moment is left out; `check` reports damage.
        let Ok(block) = Block::bind(space, id, root) else { continue };
        let alive = |owner: &Owner| !participant::is_dead(space, *owner);
        let attached = attach::attached(space, &block).filter(alive).count() as u32;
        let Block { name, kind, bytes, .. } = block;
        found.push(StructureInfo { name, kind, bytes, attached });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

pub(crate) fn participants(space: &Space) -> Vec<ParticipantInfo> {
    let used = participant::slots(space).filter_map(|(n, slot)| Some((n, slot, slot.user(n)?)));
    used.map(|(number, slot, owner)| ParticipantInfo {
        slot: number,
        generation: owner.generation(),
        pid: slot.pid.load(Ordering::Relaxed),
        program: slot.program_name(),
        since_ms: slot.since_ms.load(Ordering::Relaxed),
        alive: !participant::is_dead(space, owner),
    })
    .collect()
}

pub(crate) fn stat(space: &Space) -> Result<HoldStat> {
    let file = space.file();
    let failed = |e: std::io::Error| Error::os(file.path().display(), &e);
    let committed = extents::committed(space);
    let used_bytes: u64 = (0..committed).map(|extent| used(space, extent)).sum();
    let uuid = superblock(space).uuid();
    Ok(HoldStat {
        path: file.path().to_owned(),
        uuid: uuid.iter().map(|byte| format!("{byte:02x}")).collect(),
        kind: if space.in_memory() { HoldKind::Memory } else { HoldKind::File },
        file_bytes: file.len().map_err(failed)?,
        memory_bytes: file.allocated_bytes().map_err(failed)?,
        used_bytes,
        free_bytes: (committed * EXTENT).saturating_sub(used_bytes),
        max_bytes: growth(space).max_bytes.load(Ordering::Relaxed),
        participants: participants(space).iter().filter(|p| p.alive).count() as u32,
        maps: root::all(space).filter(|(_, root)| root.status() == Status::Live).count() as u32,
        others: block::all(space).filter(|(_, _, root)| root.status() == Status::Live).count()
            as u32,
        format: FORMAT,
    })
}

fn used(space: &Space, extent: u64) -> u64 {
    let state = header(space, extent).state();
    match state.kind() {
        Kind::Empty | Kind::Free | Kind::SpareDirectory => 0,
        Kind::Records | Kind::Segments => {
            let used = slab::used(space, extent, state.class());
            u64::from(used) * u64::from(geometry(state.class()).size)
        }
        _ => EXTENT,
    }
}
