//! A lane's supply of memory: the extents that it allocates from, and their origin.
//!
//! A lane owns one extent per class. When that extent is full, the lane takes, in this order: one
//! in which it freed something recently, one that a hint names, a partly full one among the next
//! few headers, or a new one. A lane that uses many extents prepares memory of the new one ahead,
//! page by page.

use crate::error::Result;
use crate::memory::classes::{
    CACHE_SEGMENT_CLASS, CLASSES, EXTENT, SEGMENT_CLASS, class_for, geometry,
};
use crate::memory::extents::{self, Kind, State, header};
use crate::memory::lane::LaneGuard;
use crate::memory::slab;
use crate::memory::writer::Writer;
use crate::memory::{runs, trim};
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::Peers;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::sync::atomic::Ordering;

/// Number of extents with free records that a lane remembers.
const REMEMBERED: usize = 16;
/// Headers checked for a partly full extent before a new one is claimed.
const LOOK: u64 = 64;
/// Bytes allocated for each page of the next extent that is prepared ahead: it is ready when half
/// of the current one is used.
const STEP: u64 = 2048;
const PAGE: u64 = 4096;
/// A lane prepares ahead after it has claimed this many extents: small holds stay small.
const CLAIMS_BEFORE_AHEAD: u32 = 2;

#[derive(Clone, Copy, Default)]
struct Current {
    /// 0 for none.
    extent: u64,
    /// Number of the bitmap word of the last free record.
    word: u32,
}

/// The memory that one lane allocates from; private memory.
pub(super) struct Supply {
    current: [Current; CLASSES],
    /// Extents in which this lane freed something recently.
    room: [u64; REMEMBERED],
    room_next: usize,
    look_from: u64,
    claims: u32,
    ahead: Ahead,
    /// Where its recent searches found no runs.
    runs: runs::Below,
    /// Work left for when the operation has released its locks: an extent that may have become
    /// empty, or [`TRIM`], or 0.
    untidy: u64,
}

/// Only check whether a trim is due.
const TRIM: u64 = u64::MAX;

/// An extent that the lane has claimed before it needs one and prepares page by page, so that no
/// single operation waits for 64 KiB of memory.
#[derive(Clone, Copy, Default)]
struct Ahead {
    /// 0 for none.
    extent: u64,
    /// Bytes that are prepared.
    ready: u64,
    /// Bytes allocated since the last page.
    debt: u64,
}

impl Supply {
    pub(super) fn new() -> Supply {
        Supply {
            current: [Current::default(); CLASSES],
            room: [0; REMEMBERED],
            room_next: 0,
            look_from: 0,
            claims: 0,
            ahead: Ahead::default(),
            runs: runs::Below::default(),
            untidy: 0,
        }
    }

    /// Releases everything, at the end of the registration.
    pub(super) fn release_all(&mut self, space: &Space, owner: Owner, lane: u32) {
        let ahead = std::mem::take(&mut self.ahead);
        if ahead.extent != 0 {
            extents::release_unused(space, ahead.extent);
        }
        let emptied = std::mem::take(&mut self.untidy);
        if !matches!(emptied, 0 | TRIM) {
            slab::free_if_unused(space, emptied, owner, lane);
        }
        for class in 0..CLASSES as u8 {
            let extent = std::mem::take(&mut self.current[class as usize]).extent;
            if extent != 0 {
                release(space, extent, class);
                slab::free_if_unused(space, extent, owner, lane);
            }
        }
    }
}

impl LaneGuard<'_> {
    /// Allocates a record of `len` bytes. Its state word is WRITING with this participant as owner.
    ///
    /// # Errors
    /// `Full` if there is no room and the hold cannot grow.
    #[inline(always)]
    pub(crate) fn allocate(&self, len: u64) -> Result<u64> {
        match self.allocate_again(len) {
            Some(offset) => Ok(offset),
            None => self.allocate_anywhere(len),
        }
    }

    /// Allocates from the extent that the lane allocated from last, if it has room.
    #[inline(always)]
    pub(crate) fn allocate_again(&self, len: u64) -> Option<u64> {
        let class = class_for(len)?;
        let Current { extent, word } = self.supply().current[usize::from(class)];
        if extent == 0 {
            return None;
        }
        let geometry = geometry(class);
        let offset = match slab::allocate_in(self.space(), extent, geometry, word, self.me()) {
            Some(offset) => offset,
            None => self.allocate_in_extent(class)?,
        };
        self.count_ahead(geometry.size.into(), offset);
        Some(offset)
    }

    /// The same from any word of the extent's bitmap.
    #[inline(never)]
    fn allocate_in_extent(&self, class: u8) -> Option<u64> {
        let Current { extent, word } = self.supply().current[usize::from(class)];
        let (offset, word) = slab::allocate(self.space(), extent, class, word, self.me())?;
        self.supply().current[usize::from(class)].word = word;
        Some(offset)
    }

    #[inline(never)]
    fn allocate_anywhere(&self, len: u64) -> Result<u64> {
        match class_for(len) {
            Some(class) => self.allocate_class(class),
            None => self.allocate_run(len),
        }
    }

    /// Allocates a map segment in the same way.
    pub(crate) fn allocate_segment(&self, of_cache: bool) -> Result<u64> {
        self.allocate_class(if of_cache { CACHE_SEGMENT_CLASS } else { SEGMENT_CLASS })
    }

    fn allocate_class(&self, class: u8) -> Result<u64> {
        loop {
            if self.supply().current[class as usize].extent != 0 {
                if let Some(offset) = self.allocate_in_extent(class) {
                    self.count_ahead(geometry(class).size.into(), offset);
                    return Ok(offset);
                }
                self.release_current(class);
            }
            let extent = self.find_extent(class)?;
            self.supply().current[class as usize] = Current { extent, word: 0 };
        }
    }

    fn allocate_run(&self, len: u64) -> Result<u64> {
        let count = runs::extents_for(len);
        // A copy: the search may recover a participant, and come back to this lane.
        let mut below = self.supply().runs;
        let first = runs::claim_above(self.space(), self, self.lane(), count, &mut below);
        self.supply().runs = below;
        let first = first?;
        let offset = first * EXTENT;
        self.space().word(offset).store(slab::writing(self.me()), Ordering::Release);
        std::sync::atomic::fence(Ordering::Release);
        header(self.space(), first).set(State::owned(Kind::Run, 0, self.lane(), self.me()));
        Ok(offset)
    }

    /// Called after publishing: a run no longer needs its owner.
    #[inline(always)]
    pub(crate) fn published(&self, offset: u64, len: u64) {
        if len > EXTENT / 2 && class_for(len).is_none() {
            let first = offset / EXTENT;
            // Another writer may have replaced the record already, and the run may serve another
            // purpose.
            let owned = State::owned(Kind::Run, 0, self.lane(), self.me());
            header(self.space(), first).change(owned, State::unowned(Kind::Run, 0));
        }
    }

    /// Frees to the system all memory that has been unused for a while, if much has been freed. No
    /// lock is held.
    pub(crate) fn trim_if_due(&self) {
        trim::trim_if_due(self.space(), self.me(), self.lane());
    }

    /// Does the work that an operation left for its end, without any lock: frees an extent that it
    /// emptied, frees some memory to the system.
    #[inline(always)]
    pub(crate) fn tidy(&self) {
        if self.supply().untidy != 0 {
            self.tidy_now();
        }
    }

    #[cold]
    fn tidy_now(&self) {
        let extent = std::mem::take(&mut self.supply().untidy);
        if extent == TRIM || self.free_or_remember(extent) {
            trim::trim_some(self.space(), self.me(), self.lane());
        }
    }

    /// True if the extent was freed.
    fn free_or_remember(&self, extent: u64) -> bool {
        let freed = slab::free_if_unused(self.space(), extent, self.me(), self.lane());
        if !freed {
            self.remember(extent);
        }
        freed
    }

    /// A run was freed.
    pub(super) fn note_freed(&self, first: u64) {
        let supply = self.supply();
        supply.runs.freed(first);
        if supply.untidy == 0 {
            supply.untidy = TRIM;
        }
    }

    /// An extent may have become empty. It is freed at the end of the operation.
    pub(super) fn note_emptied(&self, extent: u64) {
        let before = std::mem::replace(&mut self.supply().untidy, extent);
        if !matches!(before, 0 | TRIM) && before != extent {
            self.free_or_remember(before);
        }
    }

    #[inline(always)]
    pub(super) fn remember(&self, extent: u64) {
        let state = self.supply();
        if state.room[state.room_next] != extent {
            state.room_next = (state.room_next + 1) % REMEMBERED;
            state.room[state.room_next] = extent;
        }
    }

    /// Releases the current extent of a class.
    fn release_current(&self, class: u8) {
        let state = self.supply();
        let extent = std::mem::take(&mut state.current[class as usize]).extent;
        if extent != 0 {
            release(self.space(), extent, class);
        }
    }

    /// An extent of the class with room, now owned by this lane.
    fn find_extent(&self, class: u8) -> Result<u64> {
        if !matches!(self.supply().untidy, 0 | TRIM) {
            // It may be a suitable extent.
            let emptied = std::mem::replace(&mut self.supply().untidy, TRIM);
            self.free_or_remember(emptied);
        }
        if let Some(extent) = self.adopt_remembered(class) {
            return Ok(extent);
        }
        let end = extents::committed(self.space());
        let from = self.supply().look_from % end;
        self.supply().look_from = from + LOOK;
        if let Some(extent) = self.adopt_among(from..end.min(from + LOOK), class, 8) {
            return Ok(extent);
        }
        match self.claim_extent() {
            Ok(extent) => {
                let state = State::owned(kind_of(class), class, self.lane(), self.me());
                header(self.space(), extent).set(state);
                let released = UnwindGuard::new(|| release(self.space(), extent, class));
                step!("extent.owned");
                released.done();
                Ok(extent)
            }
            // No new extent is available: any free record will do.
            Err(full) => self.adopt_among(0..end, class, u32::MAX).ok_or(full),
        }
    }

    /// The extent prepared ahead, or another one. It reads as zeros.
    fn claim_extent(&self) -> Result<u64> {
        let state = self.supply();
        state.claims += 1;
        let Ahead { extent, ready, .. } = std::mem::take(&mut state.ahead);
        if extent == 0 {
            return extents::claim(self.space(), self, self.lane());
        }
        if ready < EXTENT {
            extents::prepare(self.space(), extent, ready, EXTENT - ready)?;
        }
        Ok(extent)
    }

    /// Prepares a page of the next extent each time [`STEP`] bytes have been allocated. The record
    /// at `offset` was allocated just now.
    #[inline(always)]
    fn count_ahead(&self, bytes: u64, offset: u64) {
        let state = self.supply();
        state.ahead.debt += bytes;
        if state.ahead.debt >= STEP && state.claims >= CLAIMS_BEFORE_AHEAD {
            self.get_ahead(offset);
        }
    }

    #[cold]
    #[inline(never)]
    fn get_ahead(&self, offset: u64) {
        self.supply().ahead.debt = 0;
        let kept = UnwindGuard::new(|| self.retire(offset));
        self.prepare_a_page();
        kept.done();
    }

    /// A failure loses nothing: the operation that needs the extent then waits for all of it.
    fn prepare_a_page(&self) {
        let mut ahead = self.supply().ahead;
        if ahead.extent == 0 {
            // The hold need not grow for this, so this does not wait for a process that grows it.
            let claim = || extents::claim_bare(self.space(), self, self.lane());
            if let Ok(extent) = self.impatiently(claim) {
                self.supply().ahead.extent = extent;
            }
        } else if ahead.ready < EXTENT {
            // A failed preparation releases the extent.
            self.supply().ahead = Ahead::default();
            if extents::prepare(self.space(), ahead.extent, ahead.ready, PAGE).is_ok() {
                ahead.ready += PAGE;
                self.supply().ahead = ahead;
            }
        }
    }

    fn adopt_remembered(&self, class: u8) -> Option<u64> {
        let hint = extents::growth(self.space()).partial[class as usize].swap(0, Ordering::Relaxed);
        let room = self.supply().room;
        room.into_iter().chain([u64::from(hint)]).find(|&e| e != 0 && self.adopt(e, class, 8))
    }

    fn adopt_among(&self, mut range: std::ops::Range<u64>, class: u8, share: u32) -> Option<u64> {
        range.find(|&extent| self.adopt(extent, class, share))
    }

    /// Takes an unowned extent of the class if at least one in `share` of its records is free, and
    /// can be allocated. Nobody allocates from it before.
    fn adopt(&self, extent: u64, class: u8, share: u32) -> bool {
        if extent >= extents::committed(self.space()) {
            return false;
        }
        let header = header(self.space(), extent);
        let state = header.state();
        // The second question, because the number of extents may be damaged. It follows the load of
        // the state: memory that another process has given to the extent is then in our mapping.
        if state != State::unowned(kind_of(class), class)
            || !self.space().covers_extent_of(extent * EXTENT)
        {
            return false;
        }
        let count = geometry(class).count;
        let free = count - slab::used(self.space(), extent, class);
        let enough = free >= (count / share).max(1) && slab::has_free(self.space(), extent, class);
        enough && header.change(state, State::owned(kind_of(class), class, self.lane(), self.me()))
    }
}

fn kind_of(class: u8) -> Kind {
    if class >= SEGMENT_CLASS { Kind::Segments } else { Kind::Records }
}

/// Releases an owned extent of records.
pub(crate) fn release(space: &Space, extent: u64, class: u8) {
    header(space, extent).set(State::unowned(kind_of(class), class));
    step!("extent.released");
    extents::growth(space).partial[class as usize].store(extent as u32, Ordering::Relaxed);
}
