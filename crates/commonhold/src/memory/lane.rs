//! Lanes: a writing thread's place in its process.
//!
//! A lane owns a current extent per class, hands out sequence numbers, and lists in shared memory the
//! locks it is about to take. A thread enters a lane for one operation and leaves it on every way out,
//! so a thread's end strands nothing. All private state hangs on the registration: a forked child
//! starts with fresh lanes.
//!
//! A sequence is `counter << 14 | slot << 4 | lane`: unique in the hold, because a slot's counters
//! never go below what its table entry reserved, whoever used it before.
//!
//! # Safety
//! `LaneState` is only touched through a [`LaneGuard`], of which there is one per busy lane.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::memory::arena::{Arena, Participant, Writer};
use crate::memory::classes::{
    CACHE_SEGMENT_CLASS, CLASSES, EXTENT, SEGMENT_CLASS, class_for, geometry,
};
use crate::memory::extents::{self, Kind, State, header};
use crate::memory::slab::{self, Retired};
use crate::memory::{runs, trim};
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::participant::{self, LaneList, slot};
use crate::sync::robust_lock::{Level, Peers};
use crate::sync::space::Space;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Sequence numbers are reserved in blocks of so many counters.
const COUNTER_BLOCK: u64 = 1 << 20;
const SEQUENCE_SHIFT: u32 = 14;
/// Extents with room that a lane remembers.
const REMEMBERED: usize = 16;
/// Headers looked at for a partly full extent before a new one is claimed.
const LOOK: u64 = 64;
/// Bytes handed out for each page of the next extent that is prepared ahead: it is ready at half of the current.
const STEP: u64 = 2048;
const PAGE: u64 = 4096;
/// A lane prepares ahead after it has claimed so many extents: small holds stay small.
const CLAIMS_BEFORE_AHEAD: u32 = 2;
/// A lane looks for memory to give back after it has freed so many extents.
const TRIM_AFTER: u32 = 64;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static PREFERRED: Cell<usize> = const { Cell::new(usize::MAX) };
    static FREEZES: Cell<u32> = const { Cell::new(0) };
}

/// One lane; private memory.
pub(crate) struct Lane {
    busy: AtomicBool,
    /// Address of the lock that its thread sleeps on, or 0.
    asleep_on: AtomicUsize,
    /// Busy for ever: the handle was closed.
    retired: AtomicBool,
    state: UnsafeCell<LaneState>,
}

// SAFETY: the state is only reached by who set `busy`.
unsafe impl Sync for Lane {}

#[derive(Clone, Copy, Default)]
struct Current {
    /// 0 for none.
    extent: u64,
    /// Bitmap word where the last free record was.
    word: u32,
}

struct LaneState {
    counter: u64,
    current: [Current; CLASSES],
    /// Extents in which this lane freed something lately.
    room: [u64; REMEMBERED],
    room_next: usize,
    look_from: u64,
    freed: u32,
    claims: u32,
    ahead: Ahead,
}

/// An extent that the lane has claimed before it needs one, and gets memory behind page by page: so no single
/// operation waits for 64 KiB of it.
#[derive(Clone, Copy, Default)]
struct Ahead {
    /// 0 for none.
    extent: u64,
    /// Bytes of it that are prepared.
    ready: u64,
    /// Bytes handed out since the last page.
    debt: u64,
}

impl Lane {
    pub(crate) fn new(counter: u64) -> Lane {
        let state = LaneState {
            counter,
            current: [Current::default(); CLASSES],
            room: [0; REMEMBERED],
            room_next: 0,
            look_from: 0,
            freed: 0,
            claims: 0,
            ahead: Ahead::default(),
        };
        Lane {
            busy: AtomicBool::new(false),
            asleep_on: AtomicUsize::new(0),
            retired: AtomicBool::new(false),
            state: UnsafeCell::new(state),
        }
    }

    fn try_enter(&self) -> bool {
        !self.busy.load(Ordering::Relaxed)
            && self.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

/// Marks the thread as inside an operation; false if it was already.
pub(crate) fn begin_operation() -> bool {
    INSIDE.with(|inside| !inside.replace(true))
}

/// The end of [`begin_operation`].
pub(crate) fn end_operation() {
    INSIDE.with(|inside| inside.set(false));
}

/// Counts the holds that this thread keeps frozen.
pub(crate) fn count_freeze(by: i32) {
    FREEZES.with(|count| count.set(count.get().saturating_add_signed(by)));
}

/// True if this thread keeps a hold frozen: it must not wait for a gate, which may be its own.
pub(crate) fn is_freezing() -> bool {
    FREEZES.with(Cell::get) != 0
}

/// One operation in a lane. Dropping it leaves the lane.
pub(crate) struct LaneGuard<'a> {
    pub(crate) arena: &'a Arena,
    participant: &'a Participant,
    number: usize,
    list: &'a LaneList,
}

impl Drop for LaneGuard<'_> {
    fn drop(&mut self) {
        self.participant.lanes[self.number].busy.store(false, Ordering::Release);
        end_operation();
    }
}

impl Peers for LaneGuard<'_> {
    #[inline]
    fn me(&self) -> Owner {
        self.participant.registration.owner
    }
    fn is_dead(&self, owner: Owner) -> bool {
        participant::is_dead(&self.arena.space, owner)
    }
    fn has_ended(&self, owner: Owner) -> Option<bool> {
        participant::has_ended(&self.arena.space, owner)
    }
    fn recover(&self, owner: Owner, level: Level) -> Result<()> {
        self.arena.recover(owner, level)
    }
    fn may_hold(&self, owner: Owner, word: &AtomicU32) -> bool {
        let asleep = |lane: usize| self.participant.lanes[lane].asleep_on.load(Ordering::Acquire);
        lists(self.arena, owner, word, |lane| {
            owner != self.me() || asleep(lane) != word.as_ptr() as usize
        })
    }
    fn sleeps_on(&self, word: Option<&AtomicU32>) {
        let address = word.map_or(0, |word| word.as_ptr() as usize);
        self.participant.lanes[self.number].asleep_on.store(address, Ordering::Release);
    }
}

/// Whether a lane of `owner`, one of those that count, lists the lock in `word`. True for locks that are not
/// listed: those of segments are.
pub(crate) fn lists(
    arena: &Arena,
    owner: Owner,
    word: &AtomicU32,
    counts: impl Fn(usize) -> bool,
) -> bool {
    let space = &arena.space;
    let offset = space.offset_of(word);
    if header(space, offset / EXTENT).state().kind() != Kind::Segments {
        return true;
    }
    participant::listing(space, owner, offset & !63).any(counts)
}

/// Enters a free lane of the participant, waiting for one if all are busy. The thread has begun its
/// operation.
///
/// # Errors
/// `Closed` if the handle is closed meanwhile.
#[inline]
pub(crate) fn enter<'a>(arena: &'a Arena, participant: &'a Participant) -> Result<LaneGuard<'a>> {
    let lanes = &participant.lanes;
    let mut number = PREFERRED.with(Cell::get);
    if number >= lanes.len() {
        number = participant.next_lane();
        PREFERRED.with(|p| p.set(number));
    }
    let mut tries = 0;
    while !lanes[number].try_enter() {
        number = (number + 1) % lanes.len();
        tries += 1;
        if tries % lanes.len() == 0 {
            if arena.is_closed() {
                end_operation();
                return Err(arena.closed_error());
            }
            std::thread::yield_now();
        }
    }
    if tries > 0 {
        PREFERRED.with(|p| p.set(number));
    }
    Ok(LaneGuard { arena, participant, number, list: &participant.list(&arena.space)[number] })
}

impl Writer for LaneGuard<'_> {
    #[inline]
    fn arena(&self) -> &Arena {
        self.arena
    }

    #[inline]
    fn list(&self) -> &LaneList {
        self.list
    }

    fn retire(&self, offset: u64) {
        match slab::retire(self.space(), offset, self.me()) {
            Retired::Room(extent) => self.remember(extent),
            Retired::PerhapsEmpty(extent) => {
                if slab::free_if_unused(self.space(), extent, self.me(), self.lane()) {
                    self.count_freed();
                } else {
                    self.remember(extent);
                }
            }
            Retired::Run => self.count_freed(),
            Retired::Nothing => {}
        }
    }

    #[inline]
    fn next_sequence(&self, floor: u64) -> u64 {
        let state = self.state();
        state.counter = state.counter.max(floor >> SEQUENCE_SHIFT) + 1;
        if state.counter >= self.participant.reserved.load(Ordering::Relaxed) {
            self.reserve(state.counter);
        }
        state.counter << SEQUENCE_SHIFT | u64::from(self.me().slot()) << 4 | self.number as u64
    }
}

impl<'a> LaneGuard<'a> {
    /// The mapped file.
    #[inline]
    pub(crate) fn space(&self) -> &'a Space {
        &self.arena.space
    }

    #[inline]
    pub(crate) fn lane(&self) -> u32 {
        self.number as u32
    }

    #[allow(clippy::mut_from_ref)]
    fn state(&self) -> &mut LaneState {
        // SAFETY: this guard is the only one of its busy lane, and no method keeps the reference
        // across a call that takes it again.
        unsafe { &mut *self.participant.lanes[self.number].state.get() }
    }

    #[cold]
    fn reserve(&self, counter: u64) {
        if let Some(slot) = slot(self.space(), self.me().slot()) {
            let end = counter + COUNTER_BLOCK;
            let before = slot.reserved_counter.fetch_max(end, Ordering::AcqRel);
            self.participant.reserved.store(before.max(end), Ordering::Relaxed);
        }
    }

    /// Allocates a record of `len` bytes, marked as being written by this participant.
    ///
    /// # Errors
    /// `Full` if there is no room and the hold cannot grow.
    pub(crate) fn allocate(&self, len: u64) -> Result<u64> {
        match class_for(len) {
            Some(class) => self.allocate_class(class),
            None => self.allocate_run(len),
        }
    }

    /// Allocates a map segment, likewise.
    pub(crate) fn allocate_segment(&self, of_cache: bool) -> Result<u64> {
        self.allocate_class(if of_cache { CACHE_SEGMENT_CLASS } else { SEGMENT_CLASS })
    }

    fn allocate_class(&self, class: u8) -> Result<u64> {
        loop {
            let current = self.state().current[class as usize];
            if current.extent != 0 {
                let (extent, word) = (current.extent, current.word);
                if let Some((offset, word)) =
                    slab::allocate(self.space(), extent, class, word, self.me())
                {
                    self.state().current[class as usize].word = word;
                    self.get_ahead(geometry(class).size.into());
                    return Ok(offset);
                }
                self.give_up(class);
            }
            let extent = self.find_extent(class)?;
            self.state().current[class as usize] = Current { extent, word: 0 };
        }
    }

    fn allocate_run(&self, len: u64) -> Result<u64> {
        let count = runs::extents_for(len);
        let first = runs::claim(self.space(), self, self.lane(), count)?;
        let offset = first * EXTENT;
        self.space().word(offset).store(slab::writing(self.me()), Ordering::Release);
        std::sync::atomic::fence(Ordering::Release);
        header(self.space(), first).set(State::owned(Kind::Run, 0, self.lane(), self.me()));
        Ok(offset)
    }

    /// After publishing: a run no longer needs its owner.
    pub(crate) fn published(&self, offset: u64, len: u64) {
        if class_for(len).is_none() {
            let first = offset / EXTENT;
            // Another writer may have replaced the record already, and the run serve somebody else.
            let owned = State::owned(Kind::Run, 0, self.lane(), self.me());
            header(self.space(), first).change(owned, State::unowned(Kind::Run, 0));
        }
    }

    fn count_freed(&self) {
        let state = self.state();
        state.freed += 1;
        if state.freed >= TRIM_AFTER {
            state.freed = 0;
            trim::trim(self.space(), self.me(), self.lane(), trim::GRACE_MS);
        }
    }

    #[inline]
    fn remember(&self, extent: u64) {
        let state = self.state();
        if state.room[state.room_next] != extent {
            state.room_next = (state.room_next + 1) % REMEMBERED;
            state.room[state.room_next] = extent;
        }
    }

    /// Gives up the current extent of a class.
    fn give_up(&self, class: u8) {
        let state = self.state();
        let extent = std::mem::take(&mut state.current[class as usize]).extent;
        if extent != 0 {
            release(self.space(), extent, class);
        }
    }

    /// An extent of the class with room, now owned by this lane.
    fn find_extent(&self, class: u8) -> Result<u64> {
        if let Some(extent) = self.adopt_remembered(class) {
            return Ok(extent);
        }
        let end = extents::committed(self.space());
        let from = self.state().look_from % end;
        self.state().look_from = from + LOOK;
        if let Some(extent) = self.adopt_among(from..end.min(from + LOOK), class, 8) {
            return Ok(extent);
        }
        match self.claim_extent() {
            Ok(extent) => {
                let state = State::owned(kind_of(class), class, self.lane(), self.me());
                header(self.space(), extent).set(state);
                step!("extent.owned");
                Ok(extent)
            }
            // Nothing new to be had: any free record will do.
            Err(full) => self.adopt_among(0..end, class, u32::MAX).ok_or(full),
        }
    }

    /// The extent prepared ahead, or another one; it reads as zeros.
    fn claim_extent(&self) -> Result<u64> {
        let state = self.state();
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

    /// Prepares a page of the next extent for every so many bytes handed out.
    #[inline]
    fn get_ahead(&self, bytes: u64) {
        let state = self.state();
        state.ahead.debt += bytes;
        if state.ahead.debt >= STEP && state.claims >= CLAIMS_BEFORE_AHEAD {
            state.ahead.debt = 0;
            self.prepare_a_page();
        }
    }

    /// Without success nothing is lost: whoever needs the extent then waits for all of it.
    #[cold]
    fn prepare_a_page(&self) {
        let ahead = self.state().ahead;
        if ahead.extent == 0 {
            if let Ok(extent) = extents::claim_bare(self.space(), self, self.lane()) {
                self.state().ahead.extent = extent;
            }
        } else if ahead.ready < EXTENT {
            match extents::prepare(self.space(), ahead.extent, ahead.ready, PAGE) {
                Ok(()) => self.state().ahead.ready += PAGE,
                Err(_) => self.state().ahead = Ahead::default(),
            }
        }
    }

    fn adopt_remembered(&self, class: u8) -> Option<u64> {
        let hint = extents::growth(self.space()).partial[class as usize].swap(0, Ordering::Relaxed);
        let room = self.state().room;
        room.into_iter().chain([u64::from(hint)]).find(|&e| e != 0 && self.adopt(e, class, 8))
    }

    fn adopt_among(&self, mut range: std::ops::Range<u64>, class: u8, share: u32) -> Option<u64> {
        range.find(|&extent| self.adopt(extent, class, share))
    }

    /// Takes an unowned extent of the class if at least one in `share` of its records is free.
    fn adopt(&self, extent: u64, class: u8, share: u32) -> bool {
        if extent >= extents::committed(self.space()) {
            return false;
        }
        let header = header(self.space(), extent);
        let state = header.state();
        if state != State::unowned(kind_of(class), class) {
            return false;
        }
        let count = geometry(class).count;
        let free = count - slab::used(self.space(), extent, class);
        let enough = free >= (count / share).max(1);
        enough && header.change(state, State::owned(kind_of(class), class, self.lane(), self.me()))
    }
}

/// Takes a lane for ever and gives up its extents: at the end of the registration. Waits for the
/// operation that runs in it. False if the lane was retired before.
pub(crate) fn retire_lane(arena: &Arena, participant: &Participant, number: usize) -> bool {
    let owner = participant.registration.owner;
    let lane = &participant.lanes[number];
    while !lane.try_enter() {
        if lane.retired.load(Ordering::Acquire) {
            return false;
        }
        std::thread::yield_now();
    }
    lane.retired.store(true, Ordering::Release);
    // SAFETY: the lane is ours and stays ours.
    let state = unsafe { &mut *lane.state.get() };
    let ahead = std::mem::take(&mut state.ahead);
    if ahead.extent != 0 {
        extents::let_go(&arena.space, ahead.extent);
    }
    for class in 0..CLASSES as u8 {
        let extent = std::mem::take(&mut state.current[class as usize]).extent;
        if extent != 0 {
            release(&arena.space, extent, class);
            slab::free_if_unused(&arena.space, extent, owner, number as u32);
        }
    }
    true
}

fn kind_of(class: u8) -> Kind {
    if class >= SEGMENT_CLASS { Kind::Segments } else { Kind::Records }
}

/// Lets an owned extent of records go.
pub(crate) fn release(space: &Space, extent: u64, class: u8) {
    header(space, extent).set(State::unowned(kind_of(class), class));
    step!("extent.released");
    extents::growth(space).partial[class as usize].store(extent as u32, Ordering::Relaxed);
}
