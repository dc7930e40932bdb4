//! The table of structures: one 512-byte root for each map, queue, channel and log, found by name.
//!
//! A root's state is FREE, CREATING, LIVE or DROPPING, with an owner while it changes. LIVE is the
//! commit point of a creation. The incarnation is incremented before anything of a structure is
//! freed. All kinds share one name space. The other fields of a root depend on its kind: maps see
//! the same bytes as `map::layout::root::Root`; the other kinds have a block of memory
//! ([`crate::memory::block`]).

use crate::error::{Error, ErrorKind, Result};
use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, Kind as Serves, State, header};
use crate::memory::lane::LaneGuard;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::space::{Shared, Space};
use crate::sync::unwind::UnwindGuard;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Offset of [`Roots`] in the superblock page.
pub(crate) const ROOTS_OFFSET: u64 = 1024;
/// The first roots lie in extent 0, after the superblock page.
const FIRST_ROOTS: u64 = 4096;
const FIRST_COUNT: u32 = 56;
const PER_EXTENT: u32 = 128;
const EXTENTS: usize = 31;
/// The most structures in a hold (map ids have 12 bits).
pub(crate) const MAX_ROOTS: u32 = FIRST_COUNT + PER_EXTENT * EXTENTS as u32;
/// The most bytes of a name.
pub(crate) const NAME_BYTES: usize = 200;

/// The locks over all structures, and the locations of their roots.
#[repr(C)]
pub(crate) struct Roots {
    /// Robust lock over creating and dropping.
    pub(crate) names_lock: AtomicU32,
    /// Robust lock that keeps all writers out while it is held.
    pub(crate) freeze_lock: AtomicU32,
    /// Further extents of roots; 0 where there is none yet.
    pub(crate) extents: [AtomicU64; EXTENTS],
}

/// The part of the 512 bytes that all kinds share.
#[repr(C)]
pub(crate) struct Root {
    /// status (8 bits) | owner << 16.
    pub(crate) state: AtomicU64,
    /// Incremented whenever a structure in this root begins or ends.
    pub(crate) incarnation: AtomicU64,
    own: AtomicU64,
    /// Offset of the structure's block. (A map's: of its directory's first chunk.)
    pub(crate) block: AtomicU64,
    /// Bytes of the block that are used.
    pub(crate) block_bytes: AtomicU64,
    own2: [AtomicU64; 10],
    /// [`StructureKind`]; 0, 1 and 2 are the modes of maps.
    code: AtomicU32,
    own3: [AtomicU32; 2],
    name_len: AtomicU32,
    own4: [AtomicU64; 14],
    /// 0, or 1 + the number of a map. This map takes over the name of that map as soon as that one
    /// is gone.
    claims: AtomicU64,
    name: Name,
    own5: [AtomicU64; 7],
}

/// The words of a name.
pub(crate) type Name = [AtomicU64; NAME_BYTES / 8];

const _: () = assert!(size_of::<Root>() == 512 && std::mem::offset_of!(Root, code) == 120);
const _: () = assert!(std::mem::offset_of!(Root, name) == 256);
const _: () = assert!(std::mem::offset_of!(Root, claims) == 248);
const _: () = assert!(size_of::<Roots>() == 256);

/// The code of a map has this bit if only its replica writes it.
pub(crate) const REPLICA: u32 = 1 << 8;
/// The code of a replica's map has this bit, too, until its first contents are complete: then a
/// shadow map without the bit takes its place.
pub(crate) const UNREADY: u32 = 1 << 9;

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Roots {}
// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Root {}

/// The kind of a structure in a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum StructureKind {
    /// A shared hash table.
    Map,
    /// Fixed-size elements that move by reference.
    Queue,
    /// One producer, many consumers, nothing lost.
    Channel,
    /// Many writers, one merged log.
    Log,
}

/// How a call that creates a structure treats one that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It opens it.
    Open,
    /// It fails with `Exists`.
    Refuse,
}

impl StructureKind {
    /// The kind with this code; `None` for damage.
    fn from_code(code: u32) -> Option<StructureKind> {
        match code {
            0..=2 | REPLICA..=0x102 | 0x300..=0x302 => Some(StructureKind::Map),
            16 => Some(StructureKind::Queue),
            17 => Some(StructureKind::Channel),
            18 => Some(StructureKind::Log),
            _ => None,
        }
    }

    fn code(self) -> u32 {
        match self {
            // Its mode is stored later.
            StructureKind::Map => 0,
            StructureKind::Queue => 16,
            StructureKind::Channel => 17,
            StructureKind::Log => 18,
        }
    }
}

impl fmt::Display for StructureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StructureKind::Map => "map",
            StructureKind::Queue => "queue",
            StructureKind::Channel => "channel",
            StructureKind::Log => "log",
        })
    }
}

/// The state of a root.
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
    pub(crate) fn from_bits(bits: u64) -> Status {
        let owner = Owner::from_bits((bits >> 16) as u32);
        match bits & 0xff {
            0 => Status::Free,
            1 => Status::Creating(owner),
            2 => Status::Live,
            3 => Status::Dropping(owner),
            _ => Status::Unknown,
        }
    }

    pub(crate) fn bits(self) -> u64 {
        let signed = |o: Option<Owner>| o.map_or(0, |o| u64::from(o.bits()) << 16);
        match self {
            Status::Free => 0,
            Status::Creating(owner) => 1 | signed(owner),
            Status::Live => 2,
            Status::Dropping(owner) => 3 | signed(owner),
            Status::Unknown => 0xff,
        }
    }

    pub(crate) fn load(state: &AtomicU64) -> Status {
        Status::from_bits(state.load(Ordering::Acquire))
    }

    pub(crate) fn store(self, state: &AtomicU64) {
        // Release: the root is whole before its status changes. SeqCst: a thread that drops a block
        // looks next for operations that look at the state (memory/block.rs).
        state.store(self.bits(), Ordering::SeqCst);
    }

    /// True if `owner` was creating or dropping the structure.
    pub(crate) fn is_unfinished_by(self, owner: Owner) -> bool {
        matches!(self, Status::Creating(Some(by)) | Status::Dropping(Some(by)) if by == owner)
    }
}

/// Reads a name that may be changing or damaged.
pub(crate) fn read_name(words: &Name, len: &AtomicU32) -> String {
    // Acquire pairs with the release in `write_name`.
    let len = (len.load(Ordering::Acquire) as usize).min(NAME_BYTES);
    let bytes: Vec<u8> =
        words.iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).collect();
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// Writes a name, which is valid, or was read from a damaged root: then it may be too long, and is
/// cut. A writer that stops in the middle leaves the empty name, which no structure has.
pub(crate) fn write_name(words: &Name, len: &AtomicU32, name: &str) {
    let mut bytes = [0u8; NAME_BYTES];
    let name = &name.as_bytes()[..name.len().min(NAME_BYTES)];
    bytes[..name.len()].copy_from_slice(name);
    len.store(0, Ordering::Relaxed);
    fence(Ordering::Release);
    for (word, part) in words.iter().zip(bytes.chunks_exact(8)) {
        word.store(u64::from_le_bytes(part.try_into().unwrap_or_default()), Ordering::Relaxed);
    }
    len.store(name.len() as u32, Ordering::Release);
}

impl Root {
    pub(crate) fn status(&self) -> Status {
        Status::load(&self.state)
    }

    /// The current or last kind; `None` for damage.
    pub(crate) fn kind(&self) -> Option<StructureKind> {
        StructureKind::from_code(self.code.load(Ordering::Relaxed))
    }

    pub(crate) fn name(&self) -> String {
        read_name(&self.name, &self.name_len)
    }

    /// Makes a free root CREATING. Under the names lock. The kind is stored first, because a
    /// recoverer depends on it.
    pub(crate) fn begin(&self, kind: StructureKind, name: &str, me: Owner) {
        self.code.store(kind.code(), Ordering::Relaxed);
        // A map's depth and directory lock: its former owner is gone with the map.
        self.own.store(0, Ordering::Relaxed);
        // The block of the previous structure; in a map it is the link of a directory's chunk.
        self.block_bytes.store(0, Ordering::Relaxed);
        self.claims.store(0, Ordering::Relaxed);
        write_name(&self.name, &self.name_len, name);
        Status::Creating(Some(me)).store(&self.state);
        // A handle bound to the previous structure in this root must not be taken for one of this
        // structure.
        self.incarnation.fetch_add(1, Ordering::AcqRel);
        step!("create.claimed");
    }
}

pub(crate) fn roots(space: &Space) -> &Roots {
    space.fixed::<Roots, ROOTS_OFFSET>()
}

/// Offset of the root with this number, if the table is that long.
pub(crate) fn root_offset(space: &Space, id: u32) -> Option<u64> {
    if id < FIRST_COUNT {
        return Some(FIRST_ROOTS + u64::from(id) * 512);
    }
    let (extent, within) = ((id - FIRST_COUNT) / PER_EXTENT, (id - FIRST_COUNT) % PER_EXTENT);
    let offset = roots(space).extents.get(extent as usize)?.load(Ordering::Acquire);
    let sound = offset != 0 && offset % EXTENT == 0 && space.covers(offset, EXTENT);
    sound.then_some(offset + u64::from(within) * 512)
}

/// The root with this number.
pub(crate) fn root(space: &Space, id: u32) -> Option<&Root> {
    root_offset(space, id).map(|offset| space.view(offset))
}

/// Every root that exists, used or not.
pub(crate) fn all(space: &Space) -> impl Iterator<Item = (u32, &Root)> {
    (0..MAX_ROOTS).map_while(move |id| Some((id, root(space, id)?)))
}

/// The live structure with this name, of any kind.
pub(crate) fn find<'a>(space: &'a Space, name: &str) -> Option<(u32, &'a Root)> {
    let live = || all(space).filter(|(_, root)| root.status() == Status::Live);
    // A participant that takes a name over stores its claim before the other map is gone, and
    // stores the name before it withdraws the claim. A concurrent search may miss the first and the
    // second, but not the third.
    live()
        .find(|(_, root)| root.name() == name)
        .or_else(|| live().find(|(_, root)| has_taken_over(space, root, name)))
        .or_else(|| live().find(|(_, root)| root.name() == name))
}

/// True if this live structure has the name.
pub(crate) fn is_called(space: &Space, root: &Root, name: &str) -> bool {
    root.name() == name || has_taken_over(space, root, name) || root.name() == name
}

/// True if a live map claims the name of a map that has lost it.
fn has_taken_over(space: &Space, root: &Root, name: &str) -> bool {
    claimed(space, root).is_some_and(|old| old.status() != Status::Live && old.name() == name)
}

/// The root whose name a map claims.
fn claimed<'a>(space: &'a Space, of: &Root) -> Option<&'a Root> {
    // Acquire: everything stored before the claim is visible.
    let claim = of.claims.load(Ordering::Acquire);
    root(space, u32::try_from(claim.checked_sub(1)?).ok()?)
}

/// Assigns the names that were taken over, and withdraws claims on maps that live. Under the names
/// lock, before anything else. May be repeated.
pub(crate) fn recover_claims(space: &Space) {
    for (_, root) in all(space).filter(|(_, root)| root.claims.load(Ordering::Relaxed) != 0) {
        let live = root.status() == Status::Live && root.kind() == Some(StructureKind::Map);
        let gone = claimed(space, root).filter(|old| live && old.status() != Status::Live);
        if let Some(old) = gone {
            write_name(&root.name, &root.name_len, &old.name());
            step!("shadow.renamed");
        }
        // Release: the name is visible before the claim is gone.
        root.claims.store(0, Ordering::Release);
    }
}

/// A free root. Under the names lock.
pub(crate) fn free(space: &Space) -> Option<u32> {
    all(space).find(|(_, root)| root.status() == Status::Free).map(|(id, _)| id)
}

/// Adds an extent to the table of roots. Without the names lock, because allocating memory may have
/// to wait.
///
/// # Errors
/// `Full` if the hold has the maximum number of structures, or no room for more roots.
pub(crate) fn add_extent(lane: &LaneGuard<'_>) -> Result<()> {
    let space = lane.space();
    let Some(link) = roots(space).extents.iter().find(|e| e.load(Ordering::Acquire) == 0) else {
        let text =
            format!("the hold has {MAX_ROOTS} maps and other structures, the maximum; drop some");
        return Err(Error::new(ErrorKind::Full, text));
    };
    let extent = extents::claim(space, lane, lane.lane())?;
    // Changed to a table before it is linked: a kill in between leaves 64 KiB unused. In the other
    // order they would be freed.
    header(space, extent).set(State::idle(Serves::Table));
    let unused = UnwindGuard::new(|| extents::free(space, extent));
    step!("table.made");
    unused.done();
    // Release: a reader finds the roots as zero, which is FREE.
    let linked = link.compare_exchange(0, extent * EXTENT, Ordering::AcqRel, Ordering::Relaxed);
    if linked.is_err() {
        extents::free(space, extent);
    }
    step!("table.linked");
    Ok(())
}

/// Whether this is one of Commonhold's own names, for example `.reports` or `.applied/prices`.
pub(crate) fn is_own(name: &str) -> bool {
    name.starts_with('.')
}

/// # Errors
/// `Invalid` for a name that no structure can have.
pub(crate) fn check_name(kind: StructureKind, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES || name.contains('\0') {
        let text = format!(
            "expected a {kind} name of 1 to {NAME_BYTES} bytes without NUL, got '{}'",
            name.escape_default()
        );
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    Ok(())
}

/// The error of opening a structure that is not there.
pub(crate) fn not_found(space: &Space, kind: StructureKind, name: &str) -> Error {
    let (path, name) = (space.file().path().display(), name.escape_default());
    let text = format!("{path}: has no {kind} '{name}'; 'hold list' shows its contents");
    Error::new(ErrorKind::NotFound, text).about(name)
}

/// The error of creating a structure whose name is taken.
pub(crate) fn exists(kind: StructureKind, name: &str) -> Error {
    let name = name.escape_default();
    let text = format!("{kind} '{name}' exists; open it, drop it first, or choose another name");
    Error::new(ErrorKind::Exists, text).about(name)
}

/// # Errors
/// `Mismatch` if the live structure with this name is not a `wanted`.
pub(crate) fn check_kind(space: &Space, name: &str, wanted: StructureKind) -> Result<()> {
    match find(space, name).map(|(_, root)| root.kind()) {
        Some(Some(kind)) if kind != wanted => {
            let text = format!(
                "expected a {wanted}, but '{name}' is a {kind}; open it as a {kind}, or choose \
                 another name"
            );
            Err(Error::new(ErrorKind::Mismatch, text))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A damaged name may become longer when it is read: each wrong byte is shown as three.
    #[test]
    fn a_name_that_was_damaged_is_cut() {
        let (words, len) = (Name::default(), AtomicU32::new(NAME_BYTES as u32));
        words.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        let name = read_name(&words, &len);
        assert!(name.len() > NAME_BYTES);
        write_name(&words, &len, &name);
        assert_eq!(len.load(Ordering::Relaxed), NAME_BYTES as u32);
    }
}
