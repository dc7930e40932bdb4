//! Blocks: the memory of a structure that is not a map, one run of contiguous extents; creating and
//! dropping it.
//!
//! A block begins with the table of attached participants ([`crate::memory::attach`]). The rest
//! belongs to its structure. Its creator owns it until the root names it, and its dropper owns it
//! from before the root stops naming it. At every instant either the root or an owner accounts for
//! it, and nobody frees it twice.
//!
//! Everything that others see of it happens under the names lock, which nobody holds while waiting
//! for something. The store of LIVE commits a creation; the store of DROPPING commits a drop (but
//! see [`drop_named`]). Nobody is attached to a block that is being freed, so nobody can store into
//! it afterwards. A block that a dead participant was creating or dropping belongs to its recoverer
//! alone.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::arena::Arena;
use crate::memory::attach::{self, ATTACHED_BYTES, Attachment, Attendance};
use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, Kind, State, committed, header};
use crate::memory::freeze_lock;
use crate::memory::lane::{self, LaneGuard};
use crate::memory::roots::{self, Existing, Root, Status, StructureKind, root};
use crate::memory::runs;
use crate::memory::writer::{Acting, Writer};
use crate::steps::step;
use crate::sync::patience::Patience;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of times a dropper checks whether a dead participant has been recovered, and the pause in
/// between.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);
const MOMENT: Duration = Duration::from_micros(200);

/// Writes a structure's own bytes into a new block.
pub(crate) type Fill<'a> = &'a dyn Fn(&Space, &Block);

/// The structure to open or create.
pub(crate) struct Wanted<'a> {
    pub(crate) kind: StructureKind,
    pub(crate) name: &'a str,
    /// Bytes that the structure needs for itself.
    pub(crate) bytes: u64,
    pub(crate) existing: Existing,
}

/// The identity of a structure among all structures of its hold, earlier and later ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Incarnation {
    /// The number of its root.
    pub root: u64,
    /// The number of its incarnation in that root.
    pub number: u64,
}

/// The location of a structure: a copy of its root's fields in private memory.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) id: u32,
    /// Offset of its root.
    pub(crate) root: u64,
    pub(crate) kind: StructureKind,
    pub(crate) name: String,
    pub(crate) incarnation: u64,
    /// Offset of the block.
    pub(crate) offset: u64,
    /// Its length, including the table of attached participants.
    pub(crate) bytes: u64,
}

impl Block {
    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation { root: self.id.into(), number: self.incarnation }
    }

    /// Reads a root of a kind that has a block.
    ///
    /// # Errors
    /// `Damaged` if the root does not name a valid block.
    pub(crate) fn bind(space: &Space, id: u32, root: &Root) -> Result<Block> {
        let incarnation = root.incarnation.load(Ordering::Acquire);
        let (offset, bytes) =
            (root.block.load(Ordering::Acquire), root.block_bytes.load(Ordering::Relaxed));
        let whole = offset % EXTENT == 0
            && offset / EXTENT < committed(space)
            && header(space, offset / EXTENT).state().is(Kind::Block)
            && header(space, offset / EXTENT).state().class() == 0
            && (ATTACHED_BYTES..=runs::length(space, offset / EXTENT) * EXTENT).contains(&bytes)
            && space.covers(offset, bytes);
        let name = root.name();
        match root.kind().filter(|kind| whole && *kind != StructureKind::Map) {
            Some(kind) => Ok(Block {
                id,
                root: roots::root_offset(space, id).unwrap_or(0),
                kind,
                name,
                incarnation,
                offset,
                bytes,
            }),
            None => Err(damaged(&name, "its root names no block")),
        }
    }

    /// Offset of the structure's own bytes.
    pub(crate) fn own(&self) -> u64 {
        self.offset + ATTACHED_BYTES
    }

    /// The number of the structure's own bytes.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.bytes - ATTACHED_BYTES
    }

    pub(crate) fn damaged(&self, what: &str) -> Error {
        damaged(&format!("{} '{}'", self.kind, self.name), what)
    }
}

fn damaged(thing: &str, what: &str) -> Error {
    let text = format!("{thing}: {what}; run 'hold check', then 'hold repair'");
    Error::new(ErrorKind::Damaged, text)
}

/// Opens the structure, or creates it: `fill` writes its own bytes, which are zero, before anybody
/// can see it. Without `fill` it is only opened; `None` if it does not exist.
///
/// # Errors
/// `Mismatch` if the name belongs to another kind; `Invalid` for a bad name; `Full`; `Damaged`.
pub(crate) fn open(
    arena: &Arc<Arena>,
    wanted: &Wanted<'_>,
    fill: Option<Fill<'_>>,
) -> Result<Option<Attachment>> {
    roots::check_name(wanted.kind, wanted.name)?;
    let opened = arena.operate(|lane| {
        let block = match find_and_attach(lane, wanted)? {
            Some(block) => Some(block),
            None => fill.map(|fill| create(lane, wanted, fill)).transpose()?,
        };
        Ok(block.map(|block| (block, lane.me())))
    })?;
    Ok(opened.map(|(block, by)| Attachment::new(Arc::clone(arena), block, by)))
}

fn find_and_attach(lane: &LaneGuard<'_>, wanted: &Wanted<'_>) -> Result<Option<Block>> {
    let _names = freeze_lock::lock_names(lane)?;
    attach_found(lane, wanted)
}

/// Attaches to an existing structure. Under the names lock.
fn attach_found(lane: &LaneGuard<'_>, wanted: &Wanted<'_>) -> Result<Option<Block>> {
    let space = lane.space();
    roots::check_kind(space, wanted.name, wanted.kind)?;
    let Some((id, root)) = roots::find(space, wanted.name) else { return Ok(None) };
    if wanted.existing == Existing::Refuse {
        return Err(roots::exists(wanted.kind, wanted.name));
    }
    let block = Block::bind(space, id, root)?;
    attach::attach(space, &block, lane.me());
    Ok(Some(block))
}

/// Creates the structure, unless somebody else was faster. All of the memory, which may fail or
/// need waiting, is allocated before the names lock is taken.
fn create(lane: &LaneGuard<'_>, wanted: &Wanted<'_>, fill: Fill<'_>) -> Result<Block> {
    let space = lane.space();
    let draft = Draft::new(lane, wanted.bytes.saturating_add(ATTACHED_BYTES))?;
    loop {
        let names = freeze_lock::lock_names(lane)?;
        if let Some(block) = attach_found(lane, wanted)? {
            return Ok(block);
        }
        if let Some((id, root)) = roots::free(space).and_then(|id| Some((id, root(space, id)?))) {
            let block = draft.link(id, root, wanted, fill);
            attach::attach(space, &block, lane.me());
            return Ok(block);
        }
        drop(names);
        roots::add_extent(lane)?;
    }
}

/// The memory of a block that is being created, which nobody else can reach yet. Dropping it frees
/// the memory. After a kill, its owner's recovery does that.
struct Draft<'l, 'a> {
    lane: &'l LaneGuard<'a>,
    /// The first extent. It stays CLAIMED until it is linked, so a concurrent check does not look
    /// for a structure that uses it.
    first: Option<u64>,
    bytes: u64,
}

impl<'l, 'a> Draft<'l, 'a> {
    fn new(lane: &'l LaneGuard<'a>, bytes: u64) -> Result<Draft<'l, 'a>> {
        let space = lane.space();
        let limit = extents::growth(space).max_bytes.load(Ordering::Relaxed);
        if bytes > limit {
            return Err(extents::full(space, "a structure that is larger than the size limit"));
        }
        let count = bytes.div_ceil(EXTENT);
        let first = runs::claim(space, lane, lane.lane(), count)?;
        let draft = Draft { lane, first: Some(first), bytes };
        for extent in first..first + count {
            extents::zero(space, extent, 0, EXTENT);
        }
        step!("block.zeroed");
        Ok(draft)
    }

    /// Links the block to a free root, which makes it the structure's. Under the names lock.
    /// Nothing here can fail.
    fn link(mut self, id: u32, root: &Root, wanted: &Wanted<'_>, fill: Fill<'_>) -> Block {
        let (lane, space) = (self.lane, self.lane.space());
        let first = self.first.take().unwrap_or(0);
        let rolled_back = UnwindGuard::new(|| {
            if root.block.load(Ordering::Relaxed) != first * EXTENT {
                runs::free_claimed(space, first);
            }
            roll_back(lane, root);
        });
        root.begin(wanted.kind, wanted.name, lane.me());
        header(space, first).set(State::owned(Kind::Block, 0, lane.lane(), lane.me()));
        step!("block.claimed");
        root.block_bytes.store(self.bytes, Ordering::Relaxed);
        // Release: the block is zero when the root names it.
        root.block.store(first * EXTENT, Ordering::Release);
        step!("block.linked");
        header(space, first).set(State::unowned(Kind::Block, 0));
        let block = Block {
            id,
            root: roots::root_offset(space, id).unwrap_or(0),
            kind: wanted.kind,
            name: wanted.name.to_owned(),
            incarnation: root.incarnation.load(Ordering::Acquire),
            offset: first * EXTENT,
            bytes: self.bytes,
        };
        fill(space, &block);
        step!("block.filled");
        // The commit point.
        Status::Live.store(&root.state);
        rolled_back.done();
        step!("create.live");
        block
    }
}

impl Drop for Draft<'_, '_> {
    fn drop(&mut self) {
        if let Some(first) = self.first.take() {
            runs::free_claimed(self.lane.space(), first);
        }
    }
}

/// Drops the structure of this kind and name; false if it does not exist. `in_use` may object, once
/// no operation of this process runs on it any more. Everything then stays as it was.
///
/// # Errors
/// `Busy`, naming slot and process, while another living participant is attached; `Mismatch`.
pub(crate) fn drop_named(
    arena: &Arena,
    kind: StructureKind,
    name: &str,
    in_use: &dyn Fn(&Space, &Block, &LaneGuard<'_>) -> Result<()>,
) -> Result<bool> {
    roots::check_name(kind, name)?;
    let patience = Patience::new(arena.lock_timeout());
    for _ in 0..TRIES {
        // First recovers what the dead hold of it: no recoverer may look for it later.
        drop(arena.enter()?);
        arena.sweep_for(patience.but_a_moment())?;
        match arena.operate(|lane| drop_locked(lane, kind, name, in_use))? {
            Dropped::Was(there) => return Ok(there),
            Dropped::InUse(id) => await_others(&arena.enter()?, id)?,
            Dropped::Dead => match patience.shorten(PAUSE) {
                Some(pause) => std::thread::sleep(pause),
                None => break,
            },
        }
    }
    let text =
        format!("{kind} '{name}': the work of a dead process on it is being recovered; try again");
    Err(Error::new(ErrorKind::Busy, text))
}

enum Dropped {
    /// The structure is gone; true if it existed.
    Was(bool),
    /// An attached participant has died and is not yet recovered.
    Dead,
    /// Another thread of this process is in an operation on the block of this root.
    InUse(u32),
}

/// Takes the names lock for a moment. Anything that takes longer is waited for without the lock.
fn drop_locked(
    lane: &LaneGuard<'_>,
    kind: StructureKind,
    name: &str,
    in_use: &dyn Fn(&Space, &Block, &LaneGuard<'_>) -> Result<()>,
) -> Result<Dropped> {
    let _names = freeze_lock::lock_names(lane)?;
    let space = lane.space();
    roots::check_kind(space, name, kind)?;
    let Some((id, root)) = roots::find(space, name) else { return Ok(Dropped::Was(false)) };
    if let Ok(block) = Block::bind(space, id, root) {
        match attach::others(space, &block, lane.me()) {
            Attendance::Nobody => {}
            Attendance::Dead => return Ok(Dropped::Dead),
            Attendance::Living(owner) => return Err(attach::busy(space, &block, owner)),
        }
        Status::Dropping(Some(lane.me())).store(&root.state);
        let stays = UnwindGuard::new(|| Status::Live.store(&root.state));
        step!("drop.marked");
        // No further operation of this process begins on it. The running ones end, or the drop is
        // tried again.
        let objection = match leave_soon(lane, id) {
            true => in_use(space, &block, lane).map_err(Err),
            false => Err(Ok(Dropped::InUse(id))),
        };
        if let Err(objection) = objection {
            return objection;
        }
        stays.done();
    } else {
        // Nobody can use anything of a damaged root.
        Status::Dropping(Some(lane.me())).store(&root.state);
    }
    demolish(lane, root);
    Ok(Dropped::Was(true))
}

/// Whether another thread of this process is in an operation on the block, in a lane or as a guest.
fn others_are_inside(lane: &LaneGuard<'_>, id: u32) -> bool {
    lane::others_are_inside(lane, id) || lane.arena().guests.are_inside(lane.me(), id)
}

/// Waits a moment until no other thread of this process is in an operation on the block; false if
/// one stays.
fn leave_soon(lane: &LaneGuard<'_>, id: u32) -> bool {
    let begun = Instant::now();
    while others_are_inside(lane, id) {
        if begun.elapsed() > PAUSE {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Waits until the other threads have left it, however they entered. Holds nothing.
///
/// # Errors
/// `TimedOut`.
fn await_others(lane: &LaneGuard<'_>, id: u32) -> Result<()> {
    let patience = lane.patience();
    while others_are_inside(lane, id) {
        let Some(pause) = patience.shorten(MOMENT) else {
            let text = "other threads of this process are using the structure; drop it when they \
                        have finished";
            return Err(Error::new(ErrorKind::TimedOut, text));
        };
        std::thread::sleep(pause);
    }
    Ok(())
}

/// Frees a structure that is DROPPING. May be repeated from the start.
fn demolish(writer: &impl Writer, root: &Root) {
    // Before anything is freed, also in a repetition: a predecessor may have died before it
    // incremented the incarnation.
    root.incarnation.fetch_add(1, Ordering::AcqRel);
    let rest = UnwindGuard::new(|| roll_back(writer, root));
    step!("drop.begun");
    roll_back(writer, root);
    rest.done();
    step!("drop.done");
}

/// Frees the block, then the root. May be repeated.
fn roll_back(writer: &impl Writer, root: &Root) {
    free_linked(writer, &root.block, 0);
    Status::Free.store(&root.state);
}

/// Frees the block of this class at the offset in `link`, which nobody uses any more. May be
/// repeated.
pub(crate) fn free_linked(writer: &impl Writer, link: &AtomicU64, class: u8) {
    let (space, me) = (&writer.arena().space, writer.me());
    let offset = link.load(Ordering::Acquire);
    let extent = offset / EXTENT;
    let mut mine = false;
    if offset != 0 && offset.is_multiple_of(EXTENT) && extent < committed(space) {
        let header = header(space, extent);
        let state = header.state();
        let free = state == State::unowned(Kind::Block, class);
        let own = state.is(Kind::Block) && state.class() == class && state.owner() == Some(me);
        mine = own || (free && header.change(state, State::owned(Kind::Block, class, 0, me)));
    }
    let freed = UnwindGuard::new(|| {
        link.store(0, Ordering::Release);
        if mine {
            runs::free_claimed(space, extent);
        }
    });
    step!("block.taken");
    // Release: from here on only its owner accounts for the block.
    link.store(0, Ordering::Release);
    step!("block.unlinked");
    drop(freed);
}

/// All structures that have a block, with their roots.
pub(crate) fn all(space: &Space) -> impl Iterator<Item = (u32, StructureKind, &Root)> {
    roots::all(space).filter_map(|(id, root)| {
        let kind = root.kind().filter(|kind| *kind != StructureKind::Map)?;
        (root.status() != Status::Free).then_some((id, kind, root))
    })
}

/// True if the root of some structure names the block at `offset`.
pub(crate) fn is_linked(space: &Space, offset: u64) -> bool {
    all(space).any(|(_, _, root)| root.block.load(Ordering::Acquire) == offset)
}

/// Rolls back or completes what the dead participant was creating or dropping. Nobody else touches
/// that.
pub(crate) fn recover(acting: &Acting<'_>) {
    let space = &acting.arena.space;
    for (_, _, root) in all(space).filter(|(_, _, r)| r.status().is_unfinished_by(acting.owner)) {
        match root.status() {
            Status::Creating(_) => roll_back(acting, root),
            _ => demolish(acting, root),
        }
    }
}
