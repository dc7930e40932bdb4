//! Verifies a hold: allocated = reachable, and everything reachable is sound.

use crate::error::Result;
use crate::hold::freeze;
use crate::hold::handle::Hold;
use crate::log::recover;
use crate::map::engine::bound::Bound;
use crate::map::engine::check::{self as map_check, Findings};
use crate::map::layout::record;
use crate::map::layout::root::{self, Status};
use crate::map::layout::segment::Segment;
use crate::memory::attach;
use crate::memory::block::{self, Block};
use crate::memory::classes::{EXTENT, geometry};
use crate::memory::extents::{self, Kind, header};
use crate::memory::roots::{Root, StructureKind};
use crate::memory::{runs, slab};
use crate::queue::check as queue;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::space::Space;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// The result of [`Hold::check`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckReport {
    /// True if no problem was found.
    pub ok: bool,
    /// The problems, at most 100 lines.
    pub problems: Vec<String>,
    /// The number of maps checked.
    pub maps: u32,
    /// The number of queues, channels and logs checked.
    pub others: u32,
    /// The number of pairs checked.
    pub records: u64,
    /// The number of records, segments and blocks that are allocated.
    pub allocated: u64,
    /// The number of records, segments and blocks that some structure reaches.
    pub reachable: u64,
    /// The number of records that a registered participant is currently writing or freeing, and of
    /// those that remain of dropped maps, whose memory is freed as soon as no process uses it.
    pub in_flight: u64,
    /// The number of segments checked.
    pub segments: u64,
}

impl Hold {
    /// Verifies the whole hold: every slot, record and extent, and that exactly the reachable
    /// memory is allocated. Writers wait during the check (about a second per ten million keys),
    /// readers do not.
    ///
    /// # Errors
    /// Those of [`freeze`](Self::freeze), which it calls first. Faults of the hold are not errors:
    /// they are in the report.
    pub fn check(&self) -> Result<CheckReport> {
        check(self)
    }
}

fn check(hold: &Hold) -> Result<CheckReport> {
    hold.sweep()?;
    let frozen = freeze::freeze(hold.arena())?;
    let space = hold.space();
    // A participant that died since the sweep is still registered: what it left is in flight until
    // the next sweep. A word that names an ended generation is one that a recovery missed.
    let alive = |owner: Owner| {
        participant::slot(space, owner.slot()).and_then(|s| s.user(owner.slot())) == Some(owner)
    };
    let mut findings = Findings::default();
    let mut passing = Passing::default();
    let mut maps = 0;
    for (id, root) in root::all(space) {
        match status(|| root.status(), &alive) {
            (Status::Creating(Some(_)) | Status::Dropping(_), false) => passing.add_map(id, root),
            (Status::Live, _) => {
                maps += 1;
                match Bound::new(space, id, root) {
                    Ok(bound) => map_check::check(space, &bound, &alive, &mut findings),
                    Err(error) => findings.problem(error.to_string()),
                }
            }
            (Status::Free, _) => {}
            (other, _) => findings.problem(format!("map {id}: is {other:?}")),
        }
    }
    let mut others = 0;
    for (id, kind, root) in block::all(space) {
        others += 1;
        match status(|| root.status(), &alive) {
            (Status::Creating(Some(_)) | Status::Dropping(Some(_)), false) => {
                passing.offsets.insert(root.block.load(Ordering::Acquire));
            }
            (Status::Live, _) => check_block(space, id, root, &alive, &mut findings),
            (other, _) => findings.problem(format!("{kind} '{}': is {other:?}", root.name())),
        }
    }
    let mut memory = Memory { space, alive: &alive, passing, allocated: 0, in_flight: 0 };
    for extent in 0..extents::committed(space) {
        memory.check(extent, &mut findings);
    }
    let (allocated, in_flight) = (memory.allocated, memory.in_flight);
    frozen.ensure_held()?;
    drop(frozen);
    let reachable = findings.reachable.len() as u64;
    if allocated != reachable {
        findings.problem(format!(
            "{allocated} records, segments and blocks are allocated, {reachable} reachable"
        ));
    }
    Ok(CheckReport {
        ok: findings.problems.is_empty(),
        problems: findings.problems,
        maps,
        others,
        records: findings.records,
        allocated,
        reachable,
        in_flight,
        segments: findings.segments,
    })
}

/// The status of a root, and whether it names an owner that is no longer registered.
fn status(read: impl Fn() -> Status, alive: &dyn Fn(Owner) -> bool) -> (Status, bool) {
    let owner = |status| match status {
        Status::Creating(owner) | Status::Dropping(owner) => owner,
        Status::Free | Status::Live | Status::Unknown => None,
    };
    let seen = read();
    match owner(seen) {
        Some(by) if !alive(by) => {
            // Its recoverer has changed the status before the generation ended.
            let now = read();
            (now, owner(now) == Some(by))
        }
        _ => (seen, false),
    }
}

/// Checks a structure that has a block.
fn check_block(
    space: &Space,
    id: u32,
    root: &Root,
    alive: &dyn Fn(Owner) -> bool,
    findings: &mut Findings,
) {
    let block = match Block::bind(space, id, root) {
        Ok(block) => block,
        Err(error) => return findings.problem(error.to_string()),
    };
    if !findings.reachable.insert(block.offset) {
        findings.problem(format!(
            "{} '{}': shares its block with another structure",
            block.kind, block.name
        ));
    }
    let problems = match block.kind {
        StructureKind::Queue => queue::check(space, &block, alive),
        _ => Vec::new(),
    };
    problems.into_iter().for_each(|text| findings.problem(text));
    let is_left = |owner: &Owner| {
        let again = || attach::is_attached(space, &block, *owner).then_some(*owner);
        participant::is_left_behind(*owner, alive, again)
    };
    for owner in attach::attached(space, &block).filter(is_left) {
        findings.problem(format!(
            "{} '{}': slot {} is attached, whose generation has ended",
            block.kind,
            block.name,
            owner.slot()
        ));
    }
    if block.kind == StructureKind::Log {
        recover::check(space, &block, alive, &mut |text| findings.problem(text));
    }
}

/// Memory that is being made or freed although the hold is frozen: the memory of structures without
/// a name, for which no process has the names lock.
#[derive(Default)]
struct Passing {
    maps: HashSet<u32>,
    /// The offsets of their directories, streams and blocks.
    offsets: HashSet<u64>,
}

impl Passing {
    fn add_map(&mut self, id: u32, root: &root::Root) {
        self.maps.insert(id);
        let links = root.chunks.iter().chain([&root.first_chunk, &root.stream.ring]);
        self.offsets.extend(links.map(|link| link.load(Ordering::Acquire)));
    }
}

struct Memory<'a> {
    space: &'a Space,
    alive: &'a dyn Fn(Owner) -> bool,
    passing: Passing,
    allocated: u64,
    in_flight: u64,
}

impl Memory<'_> {
    fn check(&mut self, extent: u64, findings: &mut Findings) {
        let state = header(self.space, extent).state();
        let again = || header(self.space, extent).state().owner();
        let is_left = |owner: &Owner| participant::is_left_behind(*owner, self.alive, again);
        if let Some(owner) = state.owner().filter(is_left) {
            findings.problem(format!(
                "extent {extent}: owned by slot {}, whose generation has ended",
                owner.slot()
            ));
        }
        let is_as_it_was = || header(self.space, extent).state() == state;
        let is_passing = self.passing.offsets.contains(&(extent * EXTENT));
        match state.kind() {
            Kind::Records | Kind::Segments => self.check_records(extent, state.class(), findings),
            Kind::Run => self.check_state_word(extent * EXTENT, &|| true, findings),
            Kind::Body => {
                let first = state.first();
                let inside = first < extent && extent < first + runs::length(self.space, first);
                let kind = header(self.space, first.min(extent)).state().kind();
                let heads =
                    [Kind::Run, Kind::Directory, Kind::SpareDirectory, Kind::Block, Kind::Claimed];
                if (!inside || !heads.contains(&kind)) && is_as_it_was() {
                    findings.problem(format!("extent {extent}: belongs to no run"));
                }
            }
            Kind::Directory | Kind::Block if is_passing || state.owner().is_some() => {
                self.in_flight += 1;
            }
            Kind::Directory if !findings.chunks.contains(&(extent * EXTENT)) => {
                findings.problem(format!("extent {extent}: a directory chunk that no map uses"));
            }
            Kind::Block => {
                self.allocated += 1;
                if !findings.reachable.contains(&(extent * EXTENT)) {
                    findings.problem(format!("extent {extent}: a block that no structure uses"));
                }
            }
            Kind::Unknown => findings.problem(format!("extent {extent}: unknown kind")),
            _ => {}
        }
    }

    fn check_records(&mut self, extent: u64, class: u8, findings: &mut Findings) {
        let header = header(self.space, extent);
        let geometry = geometry(class);
        for (index, offset) in slab::offsets(extent, class).enumerate() {
            let index = index as u32;
            let bits = slab::bitmap(self.space, header, extent, geometry, index / 64);
            let bit = || bits.load(Ordering::Acquire) >> (index % 64) & 1 == 1;
            self.check_state_word(offset, &bit, findings);
        }
    }

    /// True if a record or segment belongs to a map that is being made or was dropped.
    fn is_passing(&self, offset: u64) -> bool {
        if self.passing.maps.is_empty() {
            return false;
        }
        let state = header(self.space, offset / EXTENT).state();
        let map = match state.kind() {
            Kind::Segments => Segment::at(self.space, offset).map_or(u32::MAX, Segment::map),
            _ => record::map_at(self.space, offset),
        };
        self.passing.maps.contains(&map)
    }

    /// FREE implies a clear bit; a sequence implies a set bit and a way to it; any other state word
    /// implies a registered owner.
    fn check_state_word(&mut self, offset: u64, bit: &dyn Fn() -> bool, findings: &mut Findings) {
        let state_word = self.space.word(offset).load(Ordering::Acquire);
        let (bit, is_passing) = (bit(), state_word != 0 && self.is_passing(offset));
        let again = self.space.word(offset).load(Ordering::Acquire);
        if again != state_word || is_passing {
            self.in_flight += u64::from(again != 0);
            return;
        }
        if let Some(owner) = slab::state_owner(state_word) {
            self.in_flight += 1;
            let again = || slab::state_owner(self.space.word(offset).load(Ordering::Acquire));
            if participant::is_left_behind(owner, self.alive, again) {
                findings.problem(format!(
                    "record at {offset}: left by slot {}, whose generation has ended",
                    owner.slot()
                ));
            }
            return;
        }
        if bit != (state_word != 0) {
            findings.problem(format!("record at {offset}: its bit and its state word disagree"));
        }
        if state_word != 0 {
            self.allocated += 1;
            if !findings.reachable.contains(&offset) {
                findings.problem(format!("record at {offset}: allocated, but nothing leads to it"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::MapOptions;
    use crate::map::engine::directory;
    use std::cell::Cell;

    /// A participant that closes between a look at an extent and the look at its slot has left
    /// nothing behind.
    #[test]
    fn a_handle_that_closes_during_a_check_leaves_nothing_behind() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("it.hold");
        let hold = Hold::create(&path).unwrap();
        hold.maps().open_or_create("it", MapOptions::general()).unwrap();
        let other = Hold::open(&path).unwrap();
        other.maps().open("it").unwrap().set("key", "value").unwrap();
        let owner = other.arena().participant().unwrap().registration.owner;
        let space = hold.space();
        let is_owned = |extent: &u64| header(space, *extent).state().owner() == Some(owner);
        let owned: Vec<u64> = (0..extents::committed(space)).filter(is_owned).collect();
        assert!(!owned.is_empty());
        let other = Cell::new(Some(other));
        let alive = |owner: Owner| {
            drop(other.take());
            participant::slot(space, owner.slot()).unwrap().user(owner.slot()) == Some(owner)
        };
        let passing = Passing::default();
        let mut memory = Memory { space, alive: &alive, passing, allocated: 0, in_flight: 0 };
        let mut findings = Findings::default();
        for (id, root) in root::all(space).filter(|(_, root)| root.status() == Status::Live) {
            let bound = Bound::new(space, id, root).unwrap();
            map_check::check(space, &bound, &|_| true, &mut findings);
        }
        owned.iter().for_each(|extent| memory.check(*extent, &mut findings));
        assert_eq!(findings.problems, [""; 0]);
        assert!(!alive(owner));
    }

    #[test]
    fn damaged_cells_are_found() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let hold = Hold::create(folder.path().join("it.hold")).unwrap();
        let map = hold.maps().open_or_create("it", MapOptions::fixed(8, 8)).unwrap();
        for key in 0u64..500 {
            map.set(key.to_le_bytes(), key.to_le_bytes()).unwrap();
        }
        assert!(hold.check().unwrap().ok);
        let (space, root) = (hold.space(), map.bound.root(hold.space()));
        // A bucket with something at its positions 0 and 1: 20 words, its head and its tags first.
        let buckets = |segment| (0..11).map(move |bucket| (segment, bucket * 20));
        let two = |(segment, at): &(Segment<'_>, u32)| {
            let head = segment.slot(*at).load(Ordering::Relaxed);
            head & 15 != 0 && head & 0xf0 != 0
        };
        let (segment, at) = directory::segments(space, root).flat_map(buckets).find(two).unwrap();
        let (head, tags) = (segment.slot(at), segment.slot(at + 1));
        let before = (head.load(Ordering::Relaxed), tags.load(Ordering::Relaxed));
        for (damage, what) in [
            ((before.0 | 0xf, before.1), "out of range"),
            ((before.0 & !0xf0 | (before.0 & 0xf) << 4, before.1), "two positions"),
            ((before.0, !before.1), "its tag is not"),
            ((before.0 & !0xf, before.1), "counts"),
        ] {
            head.store(damage.0, Ordering::Relaxed);
            tags.store(damage.1, Ordering::Relaxed);
            let report = hold.check().unwrap();
            assert!(report.problems.iter().any(|p| p.contains(what)), "{what}: {report:?}");
            head.store(before.0, Ordering::Relaxed);
            tags.store(before.1, Ordering::Relaxed);
        }
        assert!(hold.check().unwrap().ok);
    }
}
