//! Iteration by cursor, in bit-reversed directory order and without locks.
//!
//! The cursor counts through the 24 directory bits with the highest order first, so a segment is a
//! contiguous range of it at every depth. An iteration first notes the positions of a segment's
//! keys and then reads each pair on its own, by uid, so that a concurrent split does not matter.
//! Keys present throughout are seen exactly once.

use crate::error::Result;
use crate::map::engine::bound::Bound;
use crate::map::engine::{cache, directory, inline_pairs, read};
use crate::map::layout::hash::{Hash, MAX_DEPTH};
use crate::map::layout::record::tag_of;
use crate::map::layout::segment::{Phase, Segment, Step, mask};
use crate::sync::space::Space;
use std::sync::atomic::{Ordering, fence};

/// A segment is noted again only if it was split meanwhile, 24 times at most. This many tries mean
/// damage.
const TRIES: u32 = 1 << 12;

/// A place between two segments, from which an iteration can resume. It stays valid while the map
/// grows, and in other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub u64);

impl Cursor {
    /// The beginning of the map.
    pub const START: Cursor = Cursor(0);
    /// The end of the map.
    pub const END: Cursor = Cursor(1 << MAX_DEPTH);

    /// True if no pairs follow.
    pub fn is_end(self) -> bool {
        self.0 >= Cursor::END.0
    }

    /// The directory bits of the hashes that come next.
    pub(crate) fn directory(self) -> u32 {
        reverse(self.0 as u32)
    }

    /// The cursor after a segment of this depth.
    pub(crate) fn behind(self, depth: u32) -> Cursor {
        let width = 1u64 << (MAX_DEPTH - depth.min(MAX_DEPTH));
        Cursor((self.0 / width + 1) * width)
    }
}

/// A position that held a pair when its segment was noted, and the 24 directory bits of the pair's
/// key.
pub(crate) struct Noted {
    pub(crate) directory: u32,
    pub(crate) position: u32,
}

impl Noted {
    /// True if an iteration that resumes at the cursor does not reach it.
    pub(crate) fn is_before(&self, cursor: Cursor) -> bool {
        u64::from(reverse(self.directory)) < cursor.0
    }
}

fn reverse(bits: u32) -> u32 {
    bits.reverse_bits() >> (32 - MAX_DEPTH)
}

/// Notes all keys of the segment at `cursor`. Returns the cursor after it.
pub(crate) fn note(
    space: &Space,
    bound: &Bound,
    cursor: Cursor,
    noted: &mut Vec<Noted>,
) -> Result<Cursor> {
    let bits = cursor.directory();
    for _ in 0..TRIES {
        noted.clear();
        let segment = directory::lookup_checked(space, bound, bits)?;
        let seen = segment.phase();
        let phase = half(seen, bits);
        if !phase.covers(bits) || phase.depth > MAX_DEPTH {
            bound.ensure_current(space)?;
            std::hint::spin_loop();
            continue;
        }
        if !note_slots(space, bound, segment, (seen, phase), noted) {
            break;
        }
        fence(Ordering::Acquire);
        let again = directory::lookup_checked(space, bound, bits)?;
        if again.offset == segment.offset && segment.phase() == seen {
            bound.ensure_current(space)?;
            return Ok(cursor.behind(phase.depth));
        }
    }
    bound.ensure_current(space)?;
    Err(bound.damaged("an iteration finds no consistent state"))
}

/// While a split is being published, only one half of the parent is read. The other half is being
/// cleared, or its entry already leads to the child.
fn half(phase: Phase, bits: u32) -> Phase {
    match phase.step {
        Step::Publishing => Phase::still(phase.depth + 1, bits & mask(phase.depth + 1)),
        _ => phase,
    }
}

/// Removes the keys before a cursor that came from a deeper map: they were returned before.
pub(crate) fn skip_before(cursor: Cursor, noted: &mut Vec<Noted>) {
    noted.retain(|noted| !noted.is_before(cursor));
}

/// False if a slot names no record.
fn note_slots(
    space: &Space,
    bound: &Bound,
    segment: Segment<'_>,
    (seen, phase): (Phase, Phase),
    noted: &mut Vec<Noted>,
) -> bool {
    for position in 0..bound.positions() {
        let directory = match directory_at(space, bound, segment, seen, position) {
            Some(Some(directory)) => directory,
            Some(None) => continue,
            None => return false,
        };
        // PUBLISHING shows keys in both segments: each counts where it belongs.
        if phase.covers(directory) {
            noted.push(Noted { directory, position });
        }
    }
    true
}

/// The directory bits of the pair at a position, if there is one; `None` if a slot names no record.
fn directory_at(
    space: &Space,
    bound: &Bound,
    segment: Segment<'_>,
    seen: Phase,
    position: u32,
) -> Option<Option<u32>> {
    if let Some(inline) = &bound.inline {
        return Some(inline.hash(&bound.hasher, segment, position).map(Hash::directory));
    }
    let slot = segment.slot(position);
    if seen.depth < 8 {
        // Slot by slot, not with the whole segment: writers may change it faster than it is read.
        return read::unchanging(space, bound, slot, |_, record| record.directory());
    }
    let word = slot.load(Ordering::Acquire);
    let directory = (tag_of(word) << 8) as u32 & 0xff_ff00 | seen.prefix & 0xff;
    Some((word != 0).then_some(directory))
}

/// A key and its value, as iteration and random reads return them.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// The part of a pair that is copied.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Key,
    Whole,
    /// The whole pair if its key begins with this; otherwise nothing.
    WholeIf(&'a [u8]),
}

/// Reads a noted pair, if it still exists and has not expired.
pub(crate) fn resolve(
    space: &Space,
    bound: &Bound,
    noted: &Noted,
    part: Part<'_>,
) -> Result<Option<Pair>> {
    let found = resolve_expiring(space, bound, noted, part)?;
    Ok(found.filter(|(_, expiry)| !cache::has_passed(space, *expiry)).map(|(pair, _)| pair))
}

/// Reads a noted pair, if it still exists and is wanted, and its expiry by the hold's clock, which
/// may have passed; 0 for never.
pub(crate) fn resolve_expiring(
    space: &Space,
    bound: &Bound,
    noted: &Noted,
    part: Part<'_>,
) -> Result<Option<(Pair, u64)>> {
    let &Noted { directory, position } = noted;
    let is_wanted = |key: &[u8]| match part {
        Part::WholeIf(prefix) => key.starts_with(prefix),
        Part::Key | Part::Whole => true,
    };
    if let Some(packing) = &bound.inline {
        let pair = inline_pairs::at_position(space, bound, packing, directory, position)?;
        return Ok(pair.filter(|(key, _)| is_wanted(key)).map(|pair| (pair, 0)));
    }
    let found = read::at_position(space, bound, directory, position, |hit| {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        hit.record.append_key(&mut key);
        // A key that is torn by a writer is read again.
        let wanted = is_wanted(&key);
        if wanted && !matches!(part, Part::Key) {
            hit.record.append_value(&mut value);
        }
        wanted.then(|| ((key, value), hit.record.expiry()))
    })?;
    Ok(found.flatten())
}
