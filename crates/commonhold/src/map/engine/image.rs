//! Images of segments: all pairs of a hash range as they were at one moment, without a lock.
//!
//! An image is whole if the segment's counter did not change and its lock was free. The counter is
//! read first (acquire). A writer that incremented it held the lock until its slot was stored.

use crate::error::Result;
use crate::map::engine::bound::Bound;
use crate::map::engine::directory;
use crate::map::engine::iterate::Cursor;
use crate::map::layout::hash::MAX_DEPTH;
use crate::map::layout::segment::{Phase, Segment, Step};
use crate::sync::robust_lock;
use crate::sync::space::Space;
use std::sync::atomic::{Ordering, fence};

/// Identifies the state of a segment: if it is the same later, nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) prefix: u32,
    pub(crate) depth: u32,
    counter: u64,
}

/// One pair of an image.
pub(crate) struct ImagePair {
    pub(crate) directory: u32,
    /// On the hold clock; 0 for never.
    pub(crate) expiry: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

fn stamp(segment: Segment<'_>, frozen: bool) -> Option<(Stamp, Phase)> {
    let counter = segment.header().state_word.load(Ordering::Acquire);
    let phase = segment.phase();
    // While the hold is frozen, locks are taken only to find the freeze lock taken.
    let free = frozen || robust_lock::holder(&segment.header().lock).is_none();
    let still = free && phase.step == Step::None;
    still.then_some((Stamp { prefix: phase.prefix, depth: phase.depth, counter }, phase))
}

/// The stamp of the segment at `cursor`, and the cursor after it. While the hold is frozen.
pub(crate) fn stamp_at(space: &Space, bound: &Bound, cursor: Cursor) -> Result<(Stamp, Cursor)> {
    let bits = (cursor.0 as u32).reverse_bits() >> (32 - MAX_DEPTH);
    let segment = directory::lookup_checked(space, bound, bits)?;
    let phase = segment.phase();
    let counter = segment.header().state_word.load(Ordering::Acquire);
    Ok((Stamp { prefix: phase.prefix, depth: phase.depth, counter }, behind(cursor, phase.depth)))
}

fn behind(cursor: Cursor, depth: u32) -> Cursor {
    let width = 1u64 << (MAX_DEPTH - depth.min(MAX_DEPTH));
    Cursor((cursor.0 / width + 1) * width)
}

/// Reads the segment at `cursor`. The stamp is `None` if the segment changed meanwhile; the pairs
/// are then useless.
pub(crate) fn read(
    space: &Space,
    bound: &Bound,
    cursor: Cursor,
    frozen: bool,
    pairs: &mut Vec<ImagePair>,
) -> Result<(Option<Stamp>, Cursor)> {
    pairs.clear();
    let bits = (cursor.0 as u32).reverse_bits() >> (32 - MAX_DEPTH);
    let segment = directory::lookup_checked(space, bound, bits)?;
    let before = stamp(segment, frozen);
    let next = behind(cursor, segment.phase().depth);
    let Some((first, phase)) = before.filter(|(_, phase)| phase.covers(bits)) else {
        return Ok((None, next));
    };
    let whole = copy(space, bound, segment, phase, pairs);
    fence(Ordering::Acquire);
    let unchanged = stamp(segment, frozen).is_some_and(|(second, _)| second == first);
    Ok(((whole && unchanged).then_some(first), behind(cursor, phase.depth)))
}

fn copy(
    space: &Space,
    bound: &Bound,
    segment: Segment<'_>,
    phase: Phase,
    pairs: &mut Vec<ImagePair>,
) -> bool {
    for position in 0..bound.positions() {
        if let Some(inline) = &bound.inline {
            if let Some((key, value)) = inline.pair(segment, position) {
                let directory = bound.hasher.hash(&key).directory();
                pairs.push(ImagePair { directory, expiry: 0, key, value });
            }
            continue;
        }
        let word = segment.slot(position).load(Ordering::Acquire);
        if word == 0 {
            continue;
        }
        let Some(record) = bound.shape.open(space, word) else { return false };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.append_key(&mut key);
        record.append_value(&mut value);
        if record.map() != bound.id || !phase.covers(record.directory()) {
            return false;
        }
        let (directory, expiry) = (record.directory(), record.expiry());
        pairs.push(ImagePair { directory, expiry, key, value });
    }
    true
}
