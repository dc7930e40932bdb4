//! Splitting a full segment (protocol 3).
//!
//! COPYING: the moved slots are copied into a private child at the same positions; recovery, or an
//! error, rolls back by freeing the child. Then the directory's lock is taken, the last step that
//! can fail. PUBLISHING: every directory entry is stored, the moved slots are cleared, and the
//! local depth grows; recovery rolls forward by repeating that and never copies again. The splitter
//! keeps the child locked in its own name until the parent's split is finished, so no key of the
//! child can change before.

use crate::error::{Error, ErrorKind, Result};
use crate::map::engine::bound::Bound;
use crate::map::engine::cache;
use crate::map::engine::directory::{self, Entries};
use crate::map::engine::locked::Locked;
use crate::map::engine::passed_over::PassedOver;
use crate::map::layout::cells::Cells;
use crate::map::layout::hash::MAX_DEPTH;
use crate::map::layout::inline::Inline;
use crate::map::layout::segment::{OFFSET_BITS, Phase, Segment, Step};
use crate::map::layout::words::Words;
use crate::memory::lane::LaneGuard;
use crate::memory::writer::Writer;
use crate::steps::step;
use crate::sync::robust_lock::{self, Level};
use crate::sync::unwind::UnwindGuard;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

/// Splits a segment that the caller has locked and found full. Unlocks it on every way out.
///
/// # Errors
/// `Full` if there is no memory for the child, or the map has 2^24 segments already.
pub(crate) fn split<'a>(lane: &LaneGuard<'a>, bound: &Bound, locked: Locked<'_, 'a>) -> Result<()> {
    let parent = *locked;
    let phase = parent.phase();
    if phase.depth >= MAX_DEPTH {
        return Err(largest(bound));
    }
    let root = bound.root(lane.space());
    if directory::depth(root) <= phase.depth {
        directory::double(lane, root, phase.depth)?;
    }
    let mut draft = Draft::make(lane, bound, parent)?;
    let child = draft.child;
    write_header(bound, child, Phase::still(phase.depth + 1, phase.prefix | 1 << phase.depth));
    step!("split.child-written");

    parent.set_phase(Phase { step: Step::Copying, child: child.offset, ..phase });
    step!("split.copying");
    copy(bound, parent, child, phase.depth);
    // Release: the child is complete before it counts as live.
    child
        .header()
        .state_word
        .store(parent.header().state_word.load(Ordering::Relaxed), Ordering::Release);
    step!("split.copied");
    // Waiting for this lock may fail. Up to here an error rolls the split back; from here on
    // nothing can fail.
    let entries = Entries::lock(lane, root, parent.space, phase)?;
    let publishing = Phase { step: Step::Publishing, child: child.offset, ..phase };
    parent.set_phase(publishing);
    draft.is_public = true;
    finish(bound, parent, child, publishing, entries);
    Ok(())
}

/// The child of a split. Dropping this before the split is public frees the child, and nothing has
/// happened.
struct Draft<'a, 'l> {
    lane: &'l LaneGuard<'a>,
    parent: Segment<'a>,
    child: Segment<'a>,
    is_locked: bool,
    /// PUBLISHING is stored: the split can only roll forward.
    is_public: bool,
}

impl<'a, 'l> Draft<'a, 'l> {
    /// Allocates a child, listed and locked. A stale writer of a map that used this memory before
    /// may hold the child's lock for a moment, or may be stopped with it. Such memory is skipped,
    /// because any other will do.
    fn make(lane: &'l LaneGuard<'a>, bound: &Bound, parent: Segment<'a>) -> Result<Self> {
        let mut passed_over = PassedOver::new(lane);
        loop {
            let mut draft = Draft::allocate(lane, bound, parent)?;
            let is_last = passed_over.is_full();
            let locked = if is_last { draft.lock() } else { lane.impatiently(|| draft.lock()) };
            match locked {
                Ok(()) => return Ok(draft),
                Err(error) if is_last || error.kind() != ErrorKind::TimedOut => return Err(error),
                Err(_) => passed_over.add(|| draft.put_aside()),
            }
        }
    }

    /// Allocates and lists the child.
    fn allocate(lane: &'l LaneGuard<'a>, bound: &Bound, parent: Segment<'a>) -> Result<Self> {
        let offset = lane.allocate_segment(bound.is_cache())?;
        let child = Segment::at(lane.space(), offset)
            .ok_or_else(|| bound.damaged("a new segment does not exist"))?;
        let draft = Draft { lane, parent, child, is_locked: false, is_public: false };
        lane.list().child.store(offset, Ordering::Release);
        step!("split.child-listed");
        Ok(draft)
    }

    fn lock(&mut self) -> Result<()> {
        robust_lock::lock(&self.child.header().lock, self.lane, Level::Segments)?;
        self.is_locked = true;
        Ok(())
    }

    /// This is not used as the child; its memory still belongs to this writer.
    fn put_aside(self) -> u64 {
        self.lane.list().child.store(0, Ordering::Release);
        ManuallyDrop::new(self).child.offset
    }
}

impl Drop for Draft<'_, '_> {
    fn drop(&mut self) {
        if !self.is_public {
            // In the same order as the recovery of COPYING: after a kill in between, recovery
            // repeats it.
            roll_back(self.lane, self.child, self.is_locked);
            let phase = self.parent.phase();
            self.parent.set_phase(Phase::still(phase.depth, phase.prefix));
        }
        // Only here: recovery finishes the splits of many lanes, and keeps their lists until it is
        // done.
        self.lane.list().child.store(0, Ordering::Release);
    }
}

/// Frees a child that was being filled. Unlocks it first if the writer has locked it.
pub(crate) fn roll_back(writer: &impl Writer, child: Segment<'_>, is_locked: bool) {
    if is_locked {
        robust_lock::unlock(&child.header().lock);
    }
    if child.header().state_word.load(Ordering::Acquire) != 0 {
        writer.retire(child.offset);
    }
}

fn write_header(bound: &Bound, child: Segment<'_>, phase: Phase) {
    let header = child.header();
    child.set_pairs(0, bound.id);
    header.armed.store(0, Ordering::Relaxed);
    header.stream_position.store(0, Ordering::Relaxed);
    child.set_phase(phase);
}

/// Copies the moving slots; everything else in the child becomes empty.
fn copy(bound: &Bound, parent: Segment<'_>, child: Segment<'_>, depth: u32) {
    let pairs = match &bound.inline {
        None if bound.moves_by_tag(depth) => copy_by_tag(bound, parent, child, depth),
        Some(Inline::Words(words)) => copy_words(bound, words, parent, child, depth),
        _ => copy_one_by_one(bound, parent, child, depth),
    };
    if bound.is_cache() {
        for word in 0..8 {
            let visited = parent.visited(word).load(Ordering::Relaxed);
            child.visited(word).store(visited, Ordering::Relaxed);
        }
        cache::spare_passed(bound, parent, child);
    }
    let position = parent.header().stream_position.load(Ordering::Relaxed);
    child.header().stream_position.store(position, Ordering::Relaxed);
    child.set_pairs(pairs, bound.id);
}

/// All ones if the record in a slot moves, by the bit of its tag; 0 if it stays, and if there is
/// none. Which slots move cannot be predicted, so there is no branch on it.
#[inline(always)]
fn mask_of_moving(word: u64, depth: u32) -> u64 {
    // The tag is hash bits 8..32.
    0u64.wrapping_sub(word >> (OFFSET_BITS + depth - 8) & 1)
}

/// Copies the moving slots by their tags, empties the others. Returns the number of pairs.
fn copy_by_tag(bound: &Bound, parent: Segment<'_>, child: Segment<'_>, depth: u32) -> u32 {
    let mut pairs = 0;
    for number in 0..bound.buckets {
        for (from, to) in parent.bucket(number).slots.iter().zip(&child.bucket(number).slots) {
            let word = from.load(Ordering::Relaxed);
            let moving = mask_of_moving(word, depth);
            // Relaxed: the directory entry publishes all of it.
            to.store(word & moving, Ordering::Relaxed);
            pairs += moving as u32 & 1;
        }
    }
    pairs
}

/// The same for pairs that are words.
fn copy_words(
    bound: &Bound,
    words: &Words,
    parent: Segment<'_>,
    child: Segment<'_>,
    depth: u32,
) -> u32 {
    let mut pairs = 0;
    for number in 0..bound.buckets {
        let moving = words.slots_with_bit(&bound.hasher, parent, number, depth);
        let slots = parent.bucket(number).slots.iter().zip(&child.bucket(number).slots);
        for (at, (from, to)) in slots.enumerate() {
            let moves = 0u64.wrapping_sub(u64::from(moving >> at & 1));
            // Relaxed: the directory entry publishes all of it.
            to.store(from.load(Ordering::Relaxed) & moves, Ordering::Relaxed);
        }
        pairs += moving.count_ones();
    }
    pairs
}

/// The same for pairs in cells, and for a depth whose bit is not in the tag.
fn copy_one_by_one(bound: &Bound, parent: Segment<'_>, child: Segment<'_>, depth: u32) -> u32 {
    if bound.has_cells() {
        Cells::copy_all(parent, child);
    }
    let mut pairs = 0;
    for position in 0..bound.positions() {
        let half = half(bound, parent, position, depth);
        pairs += u32::from(half == Some(true));
        match &bound.inline {
            Some(inline) if bound.has_cells() => {
                if half == Some(false) {
                    inline.clear(child, position);
                }
            }
            _ => {
                let word = parent.slot(position).load(Ordering::Relaxed);
                // Relaxed: the directory entry publishes all of it.
                let word = if half == Some(true) { word } else { 0 };
                child.slot(position).store(word, Ordering::Relaxed);
            }
        }
    }
    pairs
}

/// Hash bit `depth` of the pair at a position: whether it moves. `None` if the position is empty.
fn half(bound: &Bound, segment: Segment<'_>, position: u32, depth: u32) -> Option<bool> {
    let directory = match &bound.inline {
        Some(inline) => inline.hash(&bound.hasher, segment, position)?.directory(),
        None => match segment.slot(position).load(Ordering::Relaxed) {
            0 => return None,
            word => bound.shape.open(segment.space, word).map_or(0, |record| record.directory()),
        },
    };
    Some(directory >> depth & 1 == 1)
}

/// From PUBLISHING to the end, with the directory locked. For the splitter and for recovery.
pub(crate) fn finish(
    bound: &Bound,
    parent: Segment<'_>,
    child: Segment<'_>,
    phase: Phase,
    entries: Entries<'_>,
) {
    // The entries are stored even after a panic.
    let rest = UnwindGuard::new(|| {
        clear_moved(bound, parent, phase);
        robust_lock::unlock(&child.header().lock);
    });
    entries.publish(phase, parent);
    clear_moved(bound, parent, phase);
    rest.done();
    robust_lock::unlock(&child.header().lock);
    step!("split.child-unlocked");
}

/// Clears the slots that have moved to the child, where every reader finds them; then the parent is
/// split. May be repeated while both are locked.
fn clear_moved(bound: &Bound, parent: Segment<'_>, phase: Phase) {
    step!("split.clearing");
    let pairs = match &bound.inline {
        None if bound.moves_by_tag(phase.depth) => clear_by_tag(bound, parent, phase.depth),
        Some(Inline::Words(words)) => clear_words(bound, words, parent, phase.depth),
        _ => clear_one_by_one(bound, parent, phase),
    };
    step!("split.cleared");
    parent.set_pairs(pairs, bound.id);
    parent.set_phase(Phase::still(phase.depth + 1, phase.prefix));
    step!("split.finished");
}

/// Returns the number of pairs that are left.
fn clear_by_tag(bound: &Bound, parent: Segment<'_>, depth: u32) -> u32 {
    let mut pairs = 0;
    for slot in (0..bound.buckets).flat_map(|number| &parent.bucket(number).slots) {
        let word = slot.load(Ordering::Relaxed);
        let left = word & !mask_of_moving(word, depth);
        // Release: a reader that misses here because of this store sees the directory entries.
        slot.store(left, Ordering::Release);
        pairs += u32::from(left != 0);
    }
    pairs
}

/// The same for pairs that are words.
fn clear_words(bound: &Bound, words: &Words, parent: Segment<'_>, depth: u32) -> u32 {
    let mut pairs = 0;
    for number in 0..bound.buckets {
        let moving = words.slots_with_bit(&bound.hasher, parent, number, depth);
        for (at, slot) in parent.bucket(number).slots.iter().enumerate() {
            let stays = u64::from(moving >> at & 1).wrapping_sub(1);
            let left = slot.load(Ordering::Relaxed) & stays;
            // Release: a reader that misses here because of this store sees the directory entries.
            slot.store(left, Ordering::Release);
            pairs += u32::from(left != 0);
        }
    }
    pairs
}

fn clear_one_by_one(bound: &Bound, parent: Segment<'_>, phase: Phase) -> u32 {
    let mut pairs = 0;
    for position in 0..bound.positions() {
        match (half(bound, parent, position, phase.depth), &bound.inline) {
            (Some(true), Some(inline)) => inline.clear(parent, position),
            // Release, as above.
            (Some(true), None) => parent.slot(position).store(0, Ordering::Release),
            (Some(false), _) => pairs += 1,
            (None, _) => {}
        }
    }
    pairs
}

#[cold]
fn largest(bound: &Bound) -> Error {
    let text = format!(
        "map '{}' has 2^24 segments, the maximum; spread the keys over several maps",
        bound.name
    );
    Error::new(ErrorKind::Full, text)
}
