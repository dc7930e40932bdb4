//! Creating maps, and freeing the memory of a map that was not completed or has ended.
//!
//! A map that one participant is creating is CREATING until the one store to LIVE; recovery rolls
//! it back. The creator holds the names lock to begin and to commit, but not in between, because
//! allocating memory may have to wait. map/engine/dropping.rs describes how a map ends.

use crate::error::{Error, ErrorKind, Result};
use crate::map::engine::bound::{self, Bound};
use crate::map::engine::directory::{self, FIRST_DEPTH, segment_at};
use crate::map::engine::inline_pairs;
use crate::map::engine::passed_over::PassedOver;
use crate::map::engine::write;
use crate::map::layout::root::{self, Root, Status};
use crate::map::layout::segment::{Phase, Segment};
use crate::map::options::{MapMode, MapOptions};
use crate::memory::arena::Arena;
use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, Kind, State, header};
use crate::memory::freeze_lock;
use crate::memory::lane::LaneGuard;
use crate::memory::roots::{self, Existing, StructureKind, is_own};
use crate::memory::slab;
use crate::memory::writer::Sequences;
use crate::memory::writer::{Acting, Writer};
use crate::os::location;
use crate::steps::step;
use crate::stream::frame::ChangeKind;
use crate::stream::own;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::sync::atomic::Ordering;

/// Creates the map of this name with these options; one that exists is opened or refused.
///
/// # Errors
/// `Exists` if it is refused; `Mismatch` if it exists with other options; `Invalid` for a bad name
/// or options; `Full`; `TimedOut`.
pub(crate) fn create(
    arena: &Arena,
    name: &str,
    options: &MapOptions,
    existing: Existing,
) -> Result<Bound> {
    check_name(name)?;
    options.validate()?;
    let found = |bound: Bound| match existing {
        Existing::Open => same_options(bound, options),
        Existing::Refuse => Err(roots::exists(StructureKind::Map, name)),
    };
    if let Some(bound) = bound::open(&arena.space, name)? {
        return found(bound);
    }
    let created = arena.operate(|lane| match begin(lane, name)? {
        Begun::Found(bound) => Ok(Created::Found(bound)),
        Begun::Made(making) => {
            build(lane, &making, options)?;
            making.commit(name)
        }
    })?;
    match created {
        Created::Found(bound) => found(*bound),
        Created::Made(bound) => Ok(*bound),
    }
}

/// A map that somebody else had created by then, or that this call has created.
enum Created {
    Found(Box<Bound>),
    Made(Box<Bound>),
}

enum Begun<'l, 'a> {
    Found(Box<Bound>),
    Made(Making<'l, 'a>),
}

/// The map with this name, or a root for creating it.
fn begin<'l, 'a>(lane: &'l LaneGuard<'a>, name: &str) -> Result<Begun<'l, 'a>> {
    let space = lane.space();
    loop {
        let names = freeze_lock::lock_names(lane)?;
        if let Some((id, root)) = root::find(space, name) {
            return Bound::new(space, id, root).map(|bound| Begun::Found(Box::new(bound)));
        }
        roots::check_kind(space, name, StructureKind::Map)?;
        let free = roots::free(space);
        let both = |id| Some((id, roots::root(space, id)?, root::root(space, id)?));
        if let Some((id, common, root)) = free.and_then(both) {
            // Before it is CREATING there is nothing to roll back.
            let rolled_back = UnwindGuard::new(|| {
                if root.status() == Status::Creating(Some(lane.me())) {
                    roll_back(lane, id, root, Some(lane.me()));
                }
            });
            common.begin(StructureKind::Map, name, lane.me());
            rolled_back.done();
            return Ok(Begun::Made(Making { lane, id, root }));
        }
        drop(names);
        roots::add_extent(lane)?;
    }
}

/// A root that this participant has set to CREATING, so nobody else touches it. Dropping this rolls
/// the creation back; after a kill, recovery does that.
struct Making<'l, 'a> {
    lane: &'l LaneGuard<'a>,
    id: u32,
    root: &'a Root,
}

impl Making<'_, '_> {
    /// Makes it the map of this name, unless somebody else was faster: then that one is it.
    fn commit(self, name: &str) -> Result<Created> {
        let space = self.lane.space();
        let names = freeze_lock::lock_names(self.lane)?;
        let found = root::find(space, name);
        if let Some((id, root)) = found {
            let bound = Bound::new(space, id, root);
            // Rolling back needs no name.
            drop(names);
            return bound.map(|bound| Created::Found(Box::new(bound)));
        }
        roots::check_kind(space, name, StructureKind::Map)?;
        let chunk = self.root.first_chunk.load(Ordering::Relaxed) / EXTENT;
        header(space, chunk).set(State::unowned(Kind::Directory, 0));
        step!("create.filled");
        // The commit point.
        self.root.set_status(Status::Live);
        let (id, root) = (self.id, self.root);
        std::mem::forget(self);
        keep_memory_if_bounded(space);
        step!("create.live");
        Bound::new(space, id, root).map(|bound| Created::Made(Box::new(bound)))
    }
}

impl Drop for Making<'_, '_> {
    fn drop(&mut self) {
        roll_back(self.lane, self.id, self.root, Some(self.lane.me()));
    }
}

/// Fills the root. Without the names lock, because allocating memory may have to wait.
fn build(lane: &LaneGuard<'_>, making: &Making<'_, '_>, options: &MapOptions) -> Result<()> {
    let (space, id, root) = (lane.space(), making.id, making.root);
    let random = || location::random_bytes::<8>().map(u64::from_le_bytes);
    let seed = options.seed.map_or_else(random, Ok);
    let seed = seed.map_err(|e| Error::os("random seed", &e))?;
    root.seed.store(seed, Ordering::Relaxed);
    root.set_mode(options);
    root.depth.store(FIRST_DEPTH, Ordering::Relaxed);
    for chunk in &root.chunks {
        chunk.store(0, Ordering::Relaxed);
    }
    let extent = directory::claim_chunk(lane, 1)?;
    extents::zero(space, extent, 0, EXTENT);
    // Once it is linked it stays this participant's until the map exists: a concurrent check
    // recognises it as a map in creation.
    root.first_chunk.store(extent * EXTENT, Ordering::Release);
    step!("create.directory");
    let of_cache = matches!(options.mode, MapMode::Cache { .. });
    let mut passed_over = PassedOver::new(lane);
    for prefix in 0..1 << FIRST_DEPTH {
        let segment = passed_over.allocate(of_cache)?;
        let segment = segment.ok_or_else(|| bound::damaged(space, id))?;
        for position in 0..crate::map::layout::segment::BUCKETS * 8 {
            segment.slot(position).store(0, Ordering::Relaxed);
        }
        segment.set_pairs(0, id);
        segment.header().armed.store(0, Ordering::Relaxed);
        segment.header().stream_position.store(0, Ordering::Relaxed);
        segment.set_phase(Phase::still(FIRST_DEPTH, prefix));
        if let Some(entry) = directory::raw_entry(space, root, prefix) {
            entry.store((segment.offset / 64) as u32, Ordering::Release);
        }
        step!("create.segment");
        segment.header().state_word.store(lane.next_sequence(0), Ordering::Release);
    }
    Ok(())
}

fn same_options(bound: Bound, options: &MapOptions) -> Result<Bound> {
    if bound.mode == options.mode {
        return Ok(bound);
    }
    let text = format!(
        "map '{}' exists as {}, not as {}; open it with its existing options, or drop it",
        bound.name, bound.mode, options.mode
    );
    Err(Error::new(ErrorKind::Mismatch, text))
}

/// # Errors
/// `Invalid` for a name that no map can have.
pub(crate) fn check_name(name: &str) -> Result<()> {
    roots::check_name(StructureKind::Map, name)
}

/// Deletes every pair of a segment, under its lock. `kind` is the kind of change in the stream.
/// With `None` the map ends, and damaged pairs are skipped. Returns the number of pairs deleted.
pub(crate) fn empty(
    writer: &impl Writer,
    bound: &Bound,
    segment: Segment<'_>,
    kind: Option<ChangeKind>,
) -> Result<u64> {
    let mut count = 0;
    if segment.map() != bound.id {
        return Ok(0);
    }
    for position in 0..bound.positions() {
        let removed = match &bound.inline {
            Some(packing) => {
                inline_pairs::remove_at(writer, bound, packing, segment, position, kind)?
            }
            None => write::remove_at(writer, bound, segment, position, kind)?,
        };
        count += u64::from(removed);
    }
    Ok(count)
}

/// Frees the (empty) segments and the directory of a root, then the root. The root's state gives
/// the caller the exclusive right to do so. May be repeated. `state_owner` is the dead participant
/// that the state words of some segments may still name, because they were never published or it
/// was about to free them.
pub(crate) fn roll_back(writer: &impl Writer, id: u32, root: &Root, state_owner: Option<Owner>) {
    let space = &writer.arena().space;
    for index in 0..1u32 << directory::depth(root) {
        let Some(entry) = directory::raw_entry(space, root, index) else { continue };
        let offset = u64::from(entry.load(Ordering::Acquire)) * 64;
        let segment = segment_at(space, offset).filter(|found| found.phase().prefix == index);
        if let Some(segment) = segment {
            free_segment(writer, id, segment, state_owner);
            entry.store(0, Ordering::Release);
        }
        step!("drop.segment-freed");
    }
    for link in root.chunks.iter().chain([&root.first_chunk]) {
        directory::free_chunk(writer, link);
        step!("drop.directory-freed");
    }
    own::end_of_map(writer, &root.stream);
    root.set_status(Status::Free);
}

/// A predecessor may have freed the segment already, and another map may use it since. The state
/// word and the map id show that, because this root's id is not reused before the root is FREE.
fn free_segment(writer: &impl Writer, id: u32, segment: Segment<'_>, state_owner: Option<Owner>) {
    let state_word = segment.header().state_word.load(Ordering::Acquire);
    let by_it = state_owner.is_some() && slab::state_owner(state_word) == state_owner;
    if (slab::is_sequence(state_word) || by_it) && segment.map() == id {
        writer.retire(segment.offset);
    }
}

/// A cache would immediately need again the memory that it frees; but not Commonhold's own, which
/// are small, and not a replica's, which evicts nothing. Called after a map is created, promoted or
/// ended.
pub(crate) fn keep_memory_if_bounded(space: &Space) {
    let is_cache = |root: &Root| {
        root.status() == Status::Live
            && matches!(root.mode(), Some(MapMode::Cache { .. }))
            && !root.is_replica()
            && !is_own(&root.name())
    };
    let any = root::all(space).any(|(_, root)| is_cache(root));
    extents::growth(space).keep_memory.store(u32::from(any), Ordering::Relaxed);
}

/// Rolls back the maps that the dead participant was creating. Nobody else touches them.
pub(crate) fn recover(acting: &Acting<'_>) {
    for (id, root) in root::all(&acting.arena.space) {
        if root.status() == Status::Creating(Some(acting.owner)) {
            roll_back(acting, id, root, Some(acting.owner));
        }
    }
}
