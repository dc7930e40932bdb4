//! Lanes: the place of a writing thread within its process.
//!
//! A lane has a [`supply`](crate::memory::supply) of memory, hands out sequence numbers, and lists
//! in shared memory the locks that it is about to take. A thread enters a lane for one operation
//! and leaves it on every way out, so a thread that ends strands nothing. All private state belongs
//! to the registration: a forked child starts with fresh lanes.
//!
//! A sequence is `counter << 14 | slot << 4 | lane`. It is unique in the hold, because the counters
//! of a slot never go below the number reserved in its table entry, whichever participant used the
//! slot before.
//!
//! # Safety
//! `LaneState` is only accessed through an [`Entered`], of which there is one per busy lane.
#![allow(unsafe_code)]

use crate::error::{Error, ErrorKind, Result};
use crate::memory::arena::Arena;
use crate::memory::classes::EXTENT;
use crate::memory::extents::{self, Kind, header};
use crate::memory::own_participant::Participant;
use crate::memory::roots::roots;
use crate::memory::slab::{self, Retired};
use crate::memory::supply::Supply;
use crate::memory::trim;
use crate::memory::writer::{Sequences, Writer};
use crate::sync::owner::Owner;
use crate::sync::participant::{self, LaneList, slot};
use crate::sync::patience::Patience;
use crate::sync::robust_lock::{Level, Peers};
use crate::sync::space::Space;
use std::cell::{Cell, UnsafeCell};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Sequence numbers are reserved in blocks of this many counters.
const COUNTER_BLOCK: u64 = 1 << 20;
/// Rounds over busy lanes in which a thread only yields, and how long it sleeps between later ones.
const ROUNDS: u32 = 64;
const CROWDED: Duration = Duration::from_micros(200);
/// The bits of a sequence below the counter contain slot and lane.
pub(crate) const SEQUENCE_SHIFT: u32 = 14;

/// Values of `busy`: the use of a lane.
pub(super) const IDLE: u32 = 0;
/// An operation that is not on a block.
pub(crate) const ANYTHING: u32 = 1;

/// An operation on the block of the root with this number.
pub(crate) fn on_block(id: u32) -> u32 {
    id + 2
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static PREFERRED: Cell<usize> = const { Cell::new(usize::MAX) };
    static FREEZES: Cell<u32> = const { Cell::new(0) };
}

/// One lane; private memory.
pub(crate) struct Lane {
    /// The operation of its thread: 0 for none, [`ANYTHING`], or the block ([`on_block`]).
    pub(super) busy: AtomicU32,
    /// Address of the lock that its thread waits for and does not hold, or 0.
    waits_for: AtomicUsize,
    state: UnsafeCell<LaneState>,
}

// SAFETY: the state is only accessed by the thread that set `busy`.
unsafe impl Sync for Lane {}

struct LaneState {
    counter: u64,
    supply: Supply,
}

impl Lane {
    pub(crate) fn new(counter: u64) -> Lane {
        let state = LaneState { counter, supply: Supply::new() };
        Lane {
            busy: AtomicU32::new(IDLE),
            waits_for: AtomicUsize::new(0),
            state: UnsafeCell::new(state),
        }
    }

    #[inline(always)]
    fn try_enter(&self, at: u32) -> bool {
        // SeqCst: an operation on a block looks next whether that is being dropped
        // (memory/attach.rs).
        self.busy.load(Ordering::Relaxed) == IDLE
            && self.busy.compare_exchange(IDLE, at, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }
}

/// Marks the thread as inside an operation; false if it was already.
#[inline(always)]
pub(crate) fn begin_operation() -> bool {
    INSIDE.with(|inside| !inside.replace(true))
}

/// The end of [`begin_operation`].
#[inline(always)]
pub(crate) fn end_operation() {
    INSIDE.with(|inside| inside.set(false));
}

/// Changes the number of holds that this thread keeps frozen.
pub(crate) fn count_freeze(by: i32) {
    FREEZES.with(|count| count.set(count.get().saturating_add_signed(by)));
}

/// True if this thread keeps a hold frozen. It must not wait for a freeze lock, which may be its
/// own.
#[inline]
pub(crate) fn is_freezing() -> bool {
    FREEZES.with(Cell::get) != 0
}

/// A lane that was entered for one operation. Dropping it leaves the lane.
///
/// An operation that waits for nobody needs no more. Its fields stay in registers, because no
/// function that the compiler does not inline gets a reference to it.
pub(crate) struct Entered<'a> {
    pub(crate) arena: &'a Arena,
    pub(super) participant: &'a Participant,
    pub(super) number: usize,
    pub(super) own: &'a Lane,
    list: &'a LaneList,
}

/// One operation in a lane, which may wait for others.
pub(crate) struct LaneGuard<'a> {
    entered: Entered<'a>,
    manner: Cell<Manner>,
    /// The end of its waiting, set when it has to wait for the first time.
    patience: Cell<Option<Patience>>,
}

/// How an operation treats a lock that a living participant holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// It waits in its lane.
    Waits,
    /// It ends after a moment, waits without a lane and begins again (memory/lock_retry.rs).
    StepsAside,
    /// It does not wait.
    Impatient,
}

impl Drop for Entered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.own.busy.store(IDLE, Ordering::Release);
        end_operation();
    }
}

impl<'a> Deref for LaneGuard<'a> {
    type Target = Entered<'a>;
    #[inline(always)]
    fn deref(&self) -> &Entered<'a> {
        &self.entered
    }
}

impl Peers for LaneGuard<'_> {
    #[inline]
    fn me(&self) -> Owner {
        self.entered.me()
    }
    fn ask_dead(&self, owner: Owner) -> Result<bool> {
        participant::ask_dead(&self.arena.space, owner)
    }
    fn has_ended(&self, owner: Owner) -> Option<bool> {
        participant::has_ended(&self.arena.space, owner)
    }
    fn recover(&self, owner: Owner, level: Level) -> Result<()> {
        self.arena.recover(owner, level, self.patience().but_a_moment())
    }
    fn may_hold(&self, owner: Owner, word: &AtomicU32) -> bool {
        may_hold(self.arena, self.participant, owner, word)
    }
    fn patience(&self) -> Patience {
        if self.manner.get() == Manner::Impatient {
            return Patience::none();
        }
        let begun = self.patience.get();
        let patience = begun.unwrap_or_else(|| Patience::new(self.arena.lock_timeout()));
        self.patience.set(Some(patience));
        patience
    }
    fn steps_aside(&self) -> bool {
        self.manner.get() == Manner::StepsAside
    }
    fn describe(&self, word: &AtomicU32) -> (&'static str, u64) {
        describe(&self.arena.space, word)
    }
    fn pid(&self, owner: Owner) -> u32 {
        participant::pid(&self.arena.space, owner.slot())
    }
    fn waits_for(&self, word: Option<&AtomicU32>) {
        let address = word.map_or(0, |word| word.as_ptr() as usize);
        self.own.waits_for.store(address, Ordering::Release);
    }
}

/// Whether a lane of `owner` lists the lock in `word` and does not itself wait for it.
pub(super) fn may_hold(
    arena: &Arena,
    participant: &Participant,
    owner: Owner,
    word: &AtomicU32,
) -> bool {
    let waits = |lane: usize| participant.lanes[lane].waits_for.load(Ordering::Acquire);
    let own = owner == participant.registration.owner;
    lists(arena, owner, word, |lane| !own || waits(lane) != word.as_ptr() as usize)
}

/// A description of the data that the lock in `word` protects, and the offset of the word.
pub(super) fn describe(space: &Space, word: &AtomicU32) -> (&'static str, u64) {
    let (roots, growth) = (roots(space), extents::growth(space));
    let is = |other: &AtomicU32| std::ptr::eq(word, other);
    let offset = space.offset_of(word);
    let what = match header(space, offset / EXTENT).state().kind() {
        _ if is(&roots.names_lock) => "the names of the hold",
        _ if is(&roots.freeze_lock) => "the end of a freeze of the hold",
        _ if is(&growth.lock) => "more memory for the hold",
        Kind::Segments => "a segment of a map",
        Kind::Block | Kind::Body => "an end of a queue",
        _ => "the directory or the stream of a map",
    };
    (what, offset)
}

/// True for a lock in a block, whose memory may be used for something else after the structure is
/// dropped. Other lock words always stay locks.
pub(super) fn is_in_block(space: &Space, offset: u64) -> bool {
    matches!(header(space, offset / EXTENT).state().kind(), Kind::Block | Kind::Body)
}

/// Whether a lane of `owner`, among those that `counts` accepts, lists the lock in `word`. True for
/// locks that are not listed: only those of segments and those in blocks are.
pub(crate) fn lists(
    arena: &Arena,
    owner: Owner,
    word: &AtomicU32,
    counts: impl Fn(usize) -> bool,
) -> bool {
    let space = &arena.space;
    let offset = space.offset_of(word);
    let kind = header(space, offset / EXTENT).state().kind();
    if !matches!(kind, Kind::Segments | Kind::Block | Kind::Body) {
        return true;
    }
    participant::listing(space, owner, offset & !63).any(counts)
}

/// Enters a free lane of the participant, and waits for one if all are busy. The thread has begun
/// its operation; an error ends it.
///
/// # Errors
/// `Closed` if the handle is closed meanwhile; `TimedOut`.
#[inline(always)]
pub(crate) fn enter<'a>(
    arena: &'a Arena,
    participant: &'a Participant,
    at: u32,
) -> Result<LaneGuard<'a>> {
    let number = PREFERRED.with(Cell::get);
    match participant.lanes.get(number) {
        Some(lane) if lane.try_enter(at) => Ok(LaneGuard::new(arena, participant, number, None)),
        _ => enter_any(arena, participant, at, None),
    }
}

impl<'a> Entered<'a> {
    /// The lane with this number, which the thread has entered.
    #[inline(always)]
    fn new(arena: &'a Arena, participant: &'a Participant, number: usize) -> Entered<'a> {
        let (list, own) = (&participant.list(&arena.space)[number], &participant.lanes[number]);
        Entered { arena, participant, number, own, list }
    }

    /// The operation in it, which steps aside from locks.
    #[inline(always)]
    pub(crate) fn stepping_aside(self) -> LaneGuard<'a> {
        LaneGuard::with_manner(self, Manner::StepsAside, None)
    }

    /// The participant that is in the lane.
    #[inline(always)]
    pub(crate) fn me(&self) -> Owner {
        self.participant.registration.owner
    }

    /// Where the lane lists the locks that it is about to take.
    #[inline(always)]
    pub(crate) fn list(&self) -> &'a LaneList {
        self.list
    }

    /// The mapped file.
    #[inline(always)]
    pub(crate) fn space(&self) -> &'a Space {
        &self.arena.space
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn state(&self) -> &mut LaneState {
        // SAFETY: this is the only one of its busy lane, and no method keeps the reference across a
        // call that takes it again.
        unsafe { &mut *self.own.state.get() }
    }
}

impl Sequences for Entered<'_> {
    #[inline(always)]
    fn next_sequence(&self, floor: u64) -> u64 {
        let state = self.state();
        // Without the bit that no sequence has: damage must not spread.
        state.counter = state.counter.max((floor & slab::SEQUENCE_BITS) >> SEQUENCE_SHIFT) + 1;
        if state.counter >= self.participant.reserved.load(Ordering::Relaxed) {
            reserve(self.space(), self.participant, state.counter);
        }
        state.counter << SEQUENCE_SHIFT | u64::from(self.me().slot()) << 4 | self.number as u64
    }
}

/// Reserves the next sequence numbers, from this counter on.
#[cold]
#[inline(never)]
fn reserve(space: &Space, participant: &Participant, counter: u64) {
    if let Some(slot) = slot(space, participant.registration.owner.slot()) {
        let end = counter + COUNTER_BLOCK;
        let before = slot.reserved_counter.fetch_max(end, Ordering::AcqRel);
        participant.reserved.store(before.max(end), Ordering::Relaxed);
    }
}

/// Enters the lane that the thread used last, if it is free. The thread has begun its operation.
#[inline(always)]
pub(super) fn try_enter_preferred<'a>(
    arena: &'a Arena,
    participant: &'a Participant,
    at: u32,
) -> Option<Entered<'a>> {
    let number = PREFERRED.with(Cell::get);
    let entered = participant.lanes.get(number)?.try_enter(at);
    entered.then(|| Entered::new(arena, participant, number))
}

/// The same, if the preferred lane is busy, with the patience that the call has left.
#[cold]
pub(super) fn enter_any<'a>(
    arena: &'a Arena,
    participant: &'a Participant,
    at: u32,
    patience: Option<Patience>,
) -> Result<LaneGuard<'a>> {
    let mut patience = patience;
    let found = find_free(arena, participant, at, &mut patience);
    let number = found.inspect_err(|_| end_operation())?;
    PREFERRED.with(|preferred| preferred.set(number));
    Ok(LaneGuard::new(arena, participant, number, patience))
}

/// The same with this patience for the lane alone. The operation in it has patience of its own.
#[cold]
pub(super) fn enter_within<'a>(
    arena: &'a Arena,
    participant: &'a Participant,
    at: u32,
    patience: Patience,
) -> Result<LaneGuard<'a>> {
    let lane = enter_any(arena, participant, at, Some(patience))?;
    lane.patience.set(None);
    Ok(lane)
}

fn find_free(
    arena: &Arena,
    participant: &Participant,
    at: u32,
    patience: &mut Option<Patience>,
) -> Result<usize> {
    let count = participant.lanes.len();
    let preferred = PREFERRED.with(Cell::get);
    let first = if preferred < count { preferred } else { participant.next_lane() };
    for round in 0u32.. {
        let mut numbers = (first..count).chain(0..first);
        if let Some(number) = numbers.find(|number| participant.lanes[*number].try_enter(at)) {
            return Ok(number);
        }
        arena.ensure_lanes()?;
        if round < ROUNDS {
            std::thread::yield_now();
            continue;
        }
        let patience = *patience.get_or_insert_with(|| Patience::new(arena.lock_timeout()));
        std::thread::sleep(patience.shorten(CROWDED).ok_or_else(|| crowded(patience))?);
    }
    Err(arena.closed_error())
}

fn crowded(patience: Patience) -> Error {
    let text = format!(
        "{patience} for a lane: too many threads of this process run operations at once; the \
         operation was not done"
    );
    Error::new(ErrorKind::TimedOut, text)
}

/// Enters a lane that is free at the moment. The thread has begun its operation.
pub(crate) fn try_enter<'a>(
    arena: &'a Arena,
    participant: &'a Participant,
) -> Option<LaneGuard<'a>> {
    let number = participant.lanes.iter().position(|lane| lane.try_enter(ANYTHING))?;
    Some(LaneGuard::new(arena, participant, number, None))
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

    #[inline]
    fn lane_number(&self) -> Option<u32> {
        Some(self.lane())
    }

    #[inline(always)]
    fn retire(&self, offset: u64) {
        match slab::try_retire(self.space(), offset, self.me()) {
            Some(true) => self.remember(offset / EXTENT),
            Some(false) => self.note_emptied(offset / EXTENT),
            None => self.retire_other(offset),
        }
    }
}

impl Sequences for LaneGuard<'_> {
    #[inline(always)]
    fn next_sequence(&self, floor: u64) -> u64 {
        self.entered.next_sequence(floor)
    }
}

impl<'a> LaneGuard<'a> {
    #[cold]
    #[inline(never)]
    fn retire_other(&self, offset: u64) {
        match slab::retire(self.space(), offset, self.me()) {
            Retired::Room(extent) => self.remember(extent),
            Retired::PerhapsEmpty(extent) => self.note_emptied(extent),
            Retired::Run(first) => self.note_freed(first),
            Retired::Nothing => {}
        }
    }

    #[inline(always)]
    fn new(
        arena: &'a Arena,
        participant: &'a Participant,
        number: usize,
        patience: Option<Patience>,
    ) -> LaneGuard<'a> {
        let entered = Entered::new(arena, participant, number);
        LaneGuard::with_manner(entered, Manner::Waits, patience)
    }

    #[inline(always)]
    fn with_manner(
        entered: Entered<'a>,
        manner: Manner,
        patience: Option<Patience>,
    ) -> LaneGuard<'a> {
        LaneGuard { entered, manner: Cell::new(manner), patience: Cell::new(patience) }
    }

    /// The same, for an operation that does not wait for living participants. A lock that somebody
    /// holds is an error `TimedOut`, after the few spins in which a running holder releases it. A
    /// dead holder is recovered, as always.
    pub(crate) fn impatient(self) -> LaneGuard<'a> {
        self.manner.set(Manner::Impatient);
        self
    }

    /// The same, for tidying up afterwards: it waits at most a moment.
    pub(crate) fn tidying(self) -> LaneGuard<'a> {
        self.patience.set(Some(self.patience().but_a_moment()));
        self
    }

    /// The same, for an operation that ends its waiting at `end` if its patience lasts longer.
    pub(super) fn until(self, end: Option<Instant>) -> LaneGuard<'a> {
        self.patience.set(Some(self.patience().until(end)));
        self
    }

    /// The same, for an operation that steps aside.
    #[inline(always)]
    pub(super) fn stepping_aside(self) -> LaneGuard<'a> {
        self.manner.set(Manner::StepsAside);
        self
    }

    /// Runs a part of the operation that does not wait for living participants.
    pub(crate) fn impatiently<R>(&self, part: impl FnOnce() -> R) -> R {
        let manner = self.manner.replace(Manner::Impatient);
        let result = part();
        self.manner.set(manner);
        result
    }

    /// Recovers the dead participants, as far as the operation's patience allows, and at most a
    /// moment. Then frees what is left of maps that have ended. True if there was anything to do.
    /// The caller holds no lock.
    pub(crate) fn sweep(&self) -> bool {
        // A damaged hold is reported by the operation that follows.
        let recovered = self.arena.sweep_for(self.patience().but_a_moment()).unwrap_or(0);
        recovered + self.arena.finish_drops_in(self) > 0
    }

    /// Recovers what the dead `owner` left, as far as that is possible without waiting. For a
    /// caller that does not depend on it.
    ///
    /// # Errors
    /// Those of the system; damage.
    pub(crate) fn try_recover(&self, owner: Owner) -> Result<()> {
        match self.arena.recover(owner, Level::Whole, Patience::none()) {
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(()),
            result => result,
        }
    }

    #[inline]
    pub(crate) fn lane(&self) -> u32 {
        self.number as u32
    }

    /// The memory that the lane allocates from.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(super) fn supply(&self) -> &mut Supply {
        &mut self.state().supply
    }
}

/// Whether another thread of this process is in an operation on the block of root `id`. A thread
/// that waits for the names lock is not: it looks at the root afterwards.
pub(crate) fn others_are_inside(lane: &LaneGuard<'_>, id: u32) -> bool {
    let names = roots(lane.space()).names_lock.as_ptr() as usize;
    lane.participant.lanes.iter().enumerate().any(|(number, other)| {
        number != lane.number
            && other.busy.load(Ordering::SeqCst) == on_block(id)
            && other.waits_for.load(Ordering::Acquire) != names
    })
}

/// Takes a lane permanently, at the end of the registration. Waits for the operation that runs in
/// it.
pub(crate) fn take_for_good(lane: &Lane) {
    while !lane.try_enter(ANYTHING) {
        std::thread::yield_now();
    }
}

/// Releases the extents of a lane that the calling thread has [taken](take_for_good).
pub(crate) fn release_extents(arena: &Arena, participant: &Participant, number: usize) {
    let owner = participant.registration.owner;
    let lane = &participant.lanes[number];
    // SAFETY: the lane is ours and stays ours.
    let state = unsafe { &mut *lane.state.get() };
    state.supply.release_all(&arena.space, owner, number as u32);
    trim::trim_if_due(&arena.space, owner, number as u32);
}
