//! Making and dropping maps, under the names lock; and what a recoverer does with half of either.
//!
//! A map being made is CREATING until the one store to LIVE; a recoverer undoes it. A map being dropped is
//! DROPPING, its incarnation bumped; a recoverer goes on where the dead one stopped. Segments are
//! emptied under their locks before anything is freed, and their memory only ever becomes segments again.

use crate::error::{Error, ErrorKind, Result};
use crate::map::bound::{self, Bound, bind_any};
use crate::map::directory::{self, FIRST_DEPTH, is_segment};
use crate::map::inline;
use crate::map::locked;
use crate::map::options::{MapMode, MapOptions};
use crate::map::root::{self, Root, Status};
use crate::map::segment::{Phase, Segment};
use crate::map::write;
use crate::memory::arena::{Acting, Arena, Writer};
use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, Kind, State, header};
use crate::memory::gate;
use crate::memory::lane::LaneGuard;
use crate::memory::roots::{self, StructureKind, roots};
use crate::memory::slab;
use crate::os::place;
use crate::steps::step;
use crate::stream::frame::ChangeKind;
use crate::stream::own;
use crate::sync::robust_lock::{self, Level, Peers};
use crate::sync::space::Space;
use std::sync::atomic::Ordering;

/// Opens the map of this name, or makes it with these options.
///
/// # Errors
/// `Mismatch` if it exists with other options; `Invalid` for a bad name or options; `Full`.
pub(crate) fn open_or_create(arena: &Arena, name: &str, options: &MapOptions) -> Result<Bound> {
    check_name(name)?;
    options.validate()?;
    if let Some(bound) = bound::open(&arena.space, name)? {
        return same_options(bound, options);
    }
    let bound = arena.operate(|lane| {
        gate::lock_names(lane)?;
        let result = match root::find(&arena.space, name) {
            Some((id, root)) => Bound::new(&arena.space, id, root),
            None => roots::check_kind(&arena.space, name, StructureKind::Map)
                .and_then(|()| create(lane, name, options)),
        };
        robust_lock::unlock(&roots(&arena.space).names_lock);
        result
    })?;
    same_options(bound, options)
}

fn same_options(bound: Bound, options: &MapOptions) -> Result<Bound> {
    if bound.mode == options.mode {
        return Ok(bound);
    }
    let text = format!(
        "map '{}' exists as {}, not as {}; open it with its own options or drop it",
        bound.name, bound.mode, options.mode
    );
    Err(Error::new(ErrorKind::Mismatch, text))
}

/// # Errors
/// `Invalid` for a name that no map can have.
pub(crate) fn check_name(name: &str) -> Result<()> {
    roots::check_name(StructureKind::Map, name)
}

/// Under the names lock.
fn create(lane: &LaneGuard<'_>, name: &str, options: &MapOptions) -> Result<Bound> {
    let id = roots::claim_free(lane)?;
    let Some(root) = root::root(lane.space(), id) else {
        return Err(bound::damaged(lane.space(), id));
    };
    if let Some(common) = roots::root(lane.space(), id) {
        common.begin(StructureKind::Map, name, lane.me());
    }
    let built = build(lane, id, root, options);
    match built {
        Ok(()) => {
            // The commit point.
            root.set_status(Status::Live);
            keep_memory_if_bounded(lane.space());
            step!("create.live");
            Bound::new(lane.space(), id, root)
        }
        Err(error) => {
            undo(lane, id, root);
            Err(error)
        }
    }
}

fn build(lane: &LaneGuard<'_>, id: u32, root: &Root, options: &MapOptions) -> Result<()> {
    let space = lane.space();
    let seed = match options.seed {
        Some(seed) => seed,
        None => u64::from_le_bytes(
            place::random_bytes::<8>().map_err(|e| Error::os("random seed", &e))?,
        ),
    };
    root.seed.store(seed, Ordering::Relaxed);
    root.set_mode(options.mode, options.replica);
    root.depth.store(FIRST_DEPTH, Ordering::Relaxed);
    for chunk in &root.chunks {
        chunk.store(0, Ordering::Relaxed);
    }
    let extent = directory::claim_chunk(lane, 1)?;
    extents::zero(space, extent, 0, EXTENT);
    root.first_chunk.store(extent * EXTENT, Ordering::Release);
    header(space, extent).set(State::unowned(Kind::Directory, 0));
    step!("create.directory");
    for prefix in 0..1 << FIRST_DEPTH {
        let segment = Segment {
            space,
            offset: lane.allocate_segment(matches!(options.mode, MapMode::Cache { .. }))?,
        };
        for position in 0..crate::map::segment::BUCKETS * 8 {
            segment.slot(position).store(0, Ordering::Relaxed);
        }
        segment.set_pairs(0, id);
        segment.header().armed.store(0, Ordering::Relaxed);
        segment.header().stream_position.store(0, Ordering::Relaxed);
        segment.set_phase(Phase::still(FIRST_DEPTH, prefix));
        directory::raw_entry(space, root, prefix)
            .store((segment.offset / 64) as u32, Ordering::Release);
        step!("create.segment");
        segment.header().mark.store(lane.next_sequence(0), Ordering::Release);
    }
    step!("create.filled");
    Ok(())
}

/// Drops the live map of this name; false if there is none.
pub(crate) fn drop_map(arena: &Arena, name: &str) -> Result<bool> {
    check_name(name)?;
    let lane = arena.enter()?;
    let names = &roots(&arena.space).names_lock;
    gate::lock_names(&lane)?;
    let found = root::find(&arena.space, name);
    if found.is_none() {
        let kind = roots::check_kind(&arena.space, name, StructureKind::Map);
        robust_lock::unlock(names);
        return kind.map(|()| false);
    }
    if let Some((_, root)) = found {
        root.set_status(Status::Dropping(Some(lane.me())));
        step!("drop.marked");
    }
    let result = found.map_or(Ok(()), |(id, root)| demolish(&lane, id, root));
    robust_lock::unlock(names);
    result.map(|()| found.is_some())
}

/// Empties and frees a map that is DROPPING; may be repeated from the start.
pub(crate) fn demolish(writer: &impl Writer, id: u32, root: &Root) -> Result<()> {
    let space = &writer.arena().space;
    // Before anything is freed, whoever does it: a predecessor may have died before its own bump.
    root.incarnation.fetch_add(1, Ordering::AcqRel);
    step!("drop.begun");
    if let Some(bound) = bind_any(space, id) {
        for segment in directory::segments(space, root) {
            locked::lock_this(writer, segment, Level::Segments)?;
            let emptied = empty(writer, &bound, segment, None);
            locked::unlock(writer, segment);
            emptied?;
            step!("drop.segment-emptied");
        }
    }
    step!("drop.emptied");
    undo(writer, id, root);
    step!("drop.done");
    Ok(())
}

/// Deletes every pair of a segment; under its lock. `kind` is what the stream tells of it; none if the map ends, and then
/// what is damaged is passed over. Returns how many.
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
            Some(packing) => inline::remove_at(writer, bound, packing, segment, position, kind)?,
            None => write::remove_at(writer, bound, segment, position, kind)?,
        };
        count += u64::from(removed);
    }
    Ok(count)
}

/// Frees the (empty) segments and the directory of a root, then the root. May be repeated.
fn undo(writer: &impl Writer, id: u32, root: &Root) {
    let space = &writer.arena().space;
    if root.first_chunk.load(Ordering::Acquire) != 0 {
        for index in 0..1u32 << directory::depth(root) {
            let entry = directory::raw_entry(space, root, index);
            let offset = u64::from(entry.load(Ordering::Acquire)) * 64;
            let segment = Segment { space, offset };
            if offset != 0 && is_segment(space, offset) && segment.phase().prefix == index {
                free_segment(writer, id, segment);
                entry.store(0, Ordering::Release);
            }
            step!("drop.segment-freed");
        }
    }
    for link in root.chunks.iter().chain([&root.first_chunk]) {
        directory::free_chunk(writer, link);
        step!("drop.directory-freed");
    }
    own::end(writer, &root.stream);
    root.set_status(Status::Free);
    keep_memory_if_bounded(space);
}

/// A cache would only get back at once what it gives away.
fn keep_memory_if_bounded(space: &Space) {
    let is_cache = |root: &Root| {
        root.status() == Status::Live && matches!(root.mode(), Some(MapMode::Cache { .. }))
    };
    let any = root::all(space).any(|(_, root)| is_cache(root));
    extents::growth(space).keep_memory.store(u32::from(any), Ordering::Relaxed);
}

/// A predecessor may have freed it already, and another map may use it since: the mark and the map id
/// tell, because this root's id is not given out again before the root is FREE.
fn free_segment(writer: &impl Writer, id: u32, segment: Segment<'_>) {
    let mark = segment.header().mark.load(Ordering::Acquire);
    let own = slab::is_sequence(mark) || slab::marked_by(mark) == Some(writer.me());
    if own && segment.map() == id {
        writer.retire(segment.offset);
    }
}

/// Undoes or completes what the dead participant was doing to maps.
pub(crate) fn recover(acting: &Acting<'_>) -> Result<()> {
    let space: &Space = &acting.arena.space;
    if !root::all(space).any(|(_, root)| root.status().is_unfinished_by(acting.owner)) {
        return Ok(());
    }
    let names = &roots(space).names_lock;
    robust_lock::lock(names, acting, Level::Whole)?;
    roots::settle_claims(space);
    let result = finish_all(acting, space);
    robust_lock::unlock(names);
    result
}

fn finish_all(acting: &Acting<'_>, space: &Space) -> Result<()> {
    for (id, root) in root::all(space) {
        match root.status() {
            Status::Creating(Some(owner)) if owner == acting.owner => undo(acting, id, root),
            Status::Dropping(Some(owner)) if owner == acting.owner => demolish(acting, id, root)?,
            _ => {}
        }
    }
    Ok(())
}
