//! Memory for segments that a stale writer has locked.
//!
//! A writer of a map that used this memory before may hold its lock for a moment, or may be stopped
//! with it. Such memory is passed over, because any other will do.

use crate::error::Result;
use crate::map::layout::segment::Segment;
use crate::memory::lane::LaneGuard;
use crate::memory::writer::Writer;
use crate::sync::robust_lock;
use std::sync::atomic::Ordering;

/// The most segments that are passed over for one map or one split.
const MOST: usize = 4;

/// Memory whose state word names this writer. The lane may release its extent before this is
/// dropped, so recovery also searches such extents if the lane's list asks for that. Dropping this
/// frees the memory.
pub(crate) struct PassedOver<'a, 'l> {
    lane: &'l LaneGuard<'a>,
    offsets: Vec<u64>,
}

impl<'a, 'l> PassedOver<'a, 'l> {
    pub(crate) fn new(lane: &'l LaneGuard<'a>) -> PassedOver<'a, 'l> {
        PassedOver { lane, offsets: Vec::new() }
    }

    /// True if no further memory is to be passed over.
    pub(crate) fn is_full(&self) -> bool {
        self.offsets.len() == MOST
    }

    /// Passes over the memory that `aside` returns.
    pub(crate) fn add(&mut self, aside: impl FnOnce() -> u64) {
        // Release: before the memory is not listed any more.
        self.lane.list().passed_over.store(1, Ordering::Release);
        self.offsets.push(aside());
    }

    /// Allocates a segment that nobody has locked, if there is one. `None` if it does not exist.
    ///
    /// # Errors
    /// Those of allocating.
    pub(crate) fn allocate(&mut self, of_cache: bool) -> Result<Option<Segment<'a>>> {
        loop {
            let offset = self.lane.allocate_segment(of_cache)?;
            let segment = Segment::at(self.lane.space(), offset);
            let is_locked =
                |segment: &Segment<'_>| robust_lock::holder(&segment.header().lock).is_some();
            if self.is_full() || !segment.as_ref().is_some_and(is_locked) {
                return Ok(segment);
            }
            self.add(|| offset);
        }
    }
}

impl Drop for PassedOver<'_, '_> {
    fn drop(&mut self) {
        if self.offsets.is_empty() {
            return;
        }
        self.offsets.iter().for_each(|offset| self.lane.retire(*offset));
        // Release: after the memory is free.
        self.lane.list().passed_over.store(0, Ordering::Release);
    }
}
