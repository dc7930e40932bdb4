//! Proving a map sound: every slot, every record, every directory entry. Writers must be kept out.

use crate::map::engine::bound::Bound;
use crate::map::engine::charge;
use crate::map::engine::directory::{self, is_segment};
use crate::map::layout::hash::Hash;
use crate::map::layout::record::extent_kind;
use crate::map::layout::segment::{Segment, Step};
use crate::sync::owner::Owner;
use crate::sync::participant::is_left_behind;
use crate::sync::robust_lock;
use crate::sync::space::Space;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// The findings of a check of the maps so far.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<String>,
    /// Offsets of everything reachable: segments and records.
    pub(crate) reachable: HashSet<u64>,
    /// Offsets of directory chunks in use.
    pub(crate) chunks: HashSet<u64>,
    pub(crate) records: u64,
    pub(crate) segments: u64,
}

impl Findings {
    /// Notes a problem; the list is bounded.
    pub(crate) fn problem(&mut self, text: String) {
        if self.problems.len() < 100 {
            self.problems.push(text);
        }
    }
}

/// Checks one map. `alive` returns whether an owner is still registered.
pub(crate) fn check(
    space: &Space,
    bound: &Bound,
    alive: &dyn Fn(Owner) -> bool,
    findings: &mut Findings,
) {
    let root = bound.root(space);
    for chunk in root.chunks.iter().chain([&root.first_chunk]) {
        findings.chunks.insert(chunk.load(Ordering::Acquire));
    }
    let ring = root.stream.ring.load(Ordering::Acquire);
    if ring != 0 && !findings.reachable.insert(ring) {
        findings.problem(format!(
            "map '{}': its stream shares its memory with another structure",
            bound.name
        ));
    }
    if let Err(error) = bound.stream(space).ensure_sound().and_then(|()| bound.stream(space).ring())
    {
        findings.problem(format!("map '{}': {error}", bound.name));
    }
    if robust_lock::holder(&root.stream_head.lock).is_some_and(|owner| !alive(owner)) {
        findings.problem(format!("map '{}': its stream has a lock without an owner", bound.name));
    }
    // Nobody writes: a holder of the lock only reads, and no change is in progress.
    if root.stream_head.armed.load(Ordering::Acquire) != 0 {
        findings.problem(format!("map '{}': a change of its stream is not recovered", bound.name));
    }
    let mut covered = 0u64;
    for segment in directory::segments(space, root) {
        if !is_segment(space, segment.offset) {
            findings.problem(format!("map '{}': no segment at {}", bound.name, segment.offset));
            continue;
        }
        covered += 1 << (24 - segment.phase().depth.min(24));
        check_segment(bound, segment, alive, findings);
    }
    if covered != 1 << 24 {
        let text =
            format!("map '{}': its segments cover {covered} of {} prefixes", bound.name, 1 << 24);
        findings.problem(text);
    }
    check_entries(space, bound, findings);
    if let Some(what) = bound.is_cache().then(|| charge::problem(space, bound)).flatten() {
        findings.problem(format!("map '{}': {what}", bound.name));
    }
}

/// Every entry leads to the segment that covers its index.
fn check_entries(space: &Space, bound: &Bound, findings: &mut Findings) {
    for index in 0..1u32 << directory::depth(bound.root(space)) {
        let right = directory::lookup(space, bound, index)
            .is_some_and(|s| is_segment(space, s.offset) && s.phase().covers(index));
        if !right {
            findings.problem(format!("map '{}': directory entry {index} is wrong", bound.name));
        }
    }
}

fn check_segment(
    bound: &Bound,
    segment: Segment<'_>,
    alive: &dyn Fn(Owner) -> bool,
    findings: &mut Findings,
) {
    let name = format!("map '{}', segment at {}", bound.name, segment.offset);
    findings.segments += 1;
    if !findings.reachable.insert(segment.offset) {
        findings.problem(format!("{name}: reached twice"));
    }
    let holder = || robust_lock::holder(&segment.header().lock);
    if let Some(owner) = holder().filter(|owner| is_left_behind(*owner, alive, holder)) {
        findings.problem(format!(
            "{name}: locked by slot {}, whose generation has ended",
            owner.slot()
        ));
    }
    if segment.phase().step != Step::None || segment.header().armed.load(Ordering::Acquire) != 0 {
        findings.problem(format!("{name}: a change was left unfinished"));
    }
    if segment.map() != bound.id {
        findings.problem(format!("{name}: belongs to map {}", segment.map()));
    }
    for bucket in 0..bound.buckets {
        if let Some(what) = bound.inline.as_ref().and_then(|i| i.problem(segment, bucket)) {
            findings.problem(format!("{name}, bucket {bucket}: {what}"));
        }
    }
    let mut pairs = 0;
    for position in 0..bound.positions() {
        if bound.is_used(segment, position) {
            pairs += 1;
            if let Err(what) = check_position(bound, segment, position, findings) {
                findings.problem(format!("{name}, position {position}: {what}"));
            }
        }
    }
    if pairs != segment.pairs() {
        findings.problem(format!("{name}: counts {} pairs, has {pairs}", segment.pairs()));
    }
}

fn check_position(
    bound: &Bound,
    segment: Segment<'_>,
    position: u32,
    findings: &mut Findings,
) -> Result<(), String> {
    findings.records += 1;
    let hash = match &bound.inline {
        Some(inline) => {
            let hash = inline.hash(&bound.hasher, segment, position).ok_or("became empty")?;
            if !inline.is_found(segment, position, hash) {
                return Err("its tag is not that of its key".into());
            }
            hash
        }
        None => {
            let word = segment.slot(position).load(Ordering::Acquire);
            check_record(bound, segment, word, findings)?
        }
    };
    if !segment.phase().covers(hash.directory()) {
        return Err("its key belongs to another segment".into());
    }
    if !hash.buckets(bound.buckets).contains(&(position / 8)) {
        return Err("its key belongs to another bucket".into());
    }
    Ok(())
}

fn check_record(
    bound: &Bound,
    segment: Segment<'_>,
    word: u64,
    findings: &mut Findings,
) -> Result<Hash, String> {
    let space = segment.space;
    let Some(record) = bound.shape.open(space, word) else {
        let offset = crate::map::layout::record::offset_of(word);
        return Err(format!("names no record ({:?} at {offset})", extent_kind(space, offset)));
    };
    if !findings.reachable.insert(record.offset) {
        return Err(format!("the record at {} is reached twice", record.offset));
    }
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.append_key(&mut key);
    record.append_value(&mut value);
    let hash = bound.hasher.hash(&key);
    if !record.is_of(bound.id, hash) || crate::map::layout::record::tag_of(word) != hash.tag() {
        return Err(format!("the record at {} belongs elsewhere", record.offset));
    }
    if record.sequence > segment.header().state_word.load(Ordering::Acquire) {
        return Err(format!("the record at {} is newer than its segment", record.offset));
    }
    if !record.is_intact(&key, &value) {
        return Err(format!("the record at {} fails its checksum", record.offset));
    }
    Ok(hash)
}
