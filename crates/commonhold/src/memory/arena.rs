//! One open handle's memory: the mapped file, its registration, and the way into an operation.
//!
//! Readers only use `space`. Writers [`enter`](Arena::enter) and get a lane. The registration is replaced in
//! a forked child, before its first writing operation; what the parent had stays the parent's.
//!
//! # Safety
//! `participant` points to a leaked-until-drop `Box` that only [`Arena::drop`] and a replacement in a forked
//! child let go of; the latter leaks it on purpose, because locks inside may have been held by threads
//! that do not exist in the child.
#![allow(unsafe_code)]

use crate::error::{Error, ErrorKind, Result};
use crate::memory::block::pid;
use crate::memory::guests::Guestbook;
use crate::memory::lane::{self, Lane, LaneGuard};
use crate::memory::slab;
use crate::os::byte_lock::HeldBytes;
use crate::sync::owner::Owner;
use crate::sync::participant::{self, LANES, LaneList, Registration, Slot};
use crate::sync::patience::Patience;
use crate::sync::recovery;
use crate::sync::robust_lock::{Level, Peers};
use crate::sync::space::Space;
use crate::sync::thread_patience;
use crate::sync::unwind::Mend;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// Between two sweeps of who waits until all is settled.
const PAUSE: Duration = Duration::from_millis(20);
/// So long who lets go of something waits for a lane. Threads that wait for others are in none, so
/// one is free sooner, unless the threads of this process themselves are kept from running.
const LEAVING: Duration = Duration::from_secs(2);

/// A registration and the lanes that hang on it; private memory.
pub(crate) struct Participant {
    pub(crate) registration: Registration,
    pub(crate) lanes: [Lane; LANES],
    /// Counters below this are this slot's already.
    pub(crate) reserved: AtomicU64,
    next: AtomicUsize,
    /// Producers and consumers that go on signing with the registration after the handle was closed.
    endpoint_slots: AtomicUsize,
    /// Threads that recover somebody in its name, which it outlives.
    recovering: AtomicUsize,
    /// Nobody else may begin to recover somebody in its name.
    is_leaving: AtomicBool,
    /// Offset of the slot in the file.
    slot_offset: u64,
}

impl Participant {
    fn new(space: &Space, registration: Registration) -> Participant {
        let slot_offset = participant::slot_offset(space, registration.owner.slot()).unwrap_or(0);
        let start = space.view::<Slot>(slot_offset).reserved_counter.load(Ordering::Acquire);
        // More than that no sequence can have.
        let start = start & (slab::SEQUENCE_BITS >> lane::SEQUENCE_SHIFT);
        Participant {
            registration,
            lanes: std::array::from_fn(|_| Lane::new(start)),
            reserved: AtomicU64::new(start),
            next: AtomicUsize::new(0),
            endpoint_slots: AtomicUsize::new(0),
            recovering: AtomicUsize::new(0),
            is_leaving: AtomicBool::new(false),
            slot_offset,
        }
    }

    /// Where its lanes list the locks they are about to take.
    #[inline]
    pub(crate) fn list<'a>(&self, space: &'a Space) -> &'a [LaneList; LANES] {
        &space.view::<Slot>(self.slot_offset).lanes
    }

    pub(crate) fn next_lane(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % LANES
    }

    /// Stays registered while the guard lives; `None` if it is leaving.
    fn stay(&self) -> Option<Stay<'_>> {
        // SeqCst, with `leave`: one of the two sees the other.
        self.recovering.fetch_add(1, Ordering::SeqCst);
        let stay = Stay(&self.recovering);
        (!self.is_leaving.load(Ordering::SeqCst)).then_some(stay)
    }

    /// Waits for those who recover somebody in its name; nobody begins to any more.
    fn leave(&self) {
        self.is_leaving.store(true, Ordering::SeqCst);
        while self.recovering.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

/// Somebody is being recovered in the name of a participant.
struct Stay<'a>(&'a AtomicUsize);

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        // Release pairs with the load in `leave`: the recovery is over.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// What the layers above install.
#[derive(Clone, Copy)]
pub(crate) struct Hooks {
    /// Recovers a dead participant as far as level and patience go; nobody else acts as it
    /// meanwhile.
    pub(crate) recover: fn(&Arena, Owner, Level, Patience) -> Result<()>,
    /// Runs when a slot was claimed: the hold is no longer clean.
    pub(crate) opened: fn(&Arena) -> Result<()>,
    /// Frees what is left of maps that have ended, where that waits for nobody.
    pub(crate) finish_drops: fn(&Arena),
    /// Runs when the handle is closed, after its registration has ended.
    pub(crate) closed: fn(&Arena),
}

/// One open handle's memory.
pub(crate) struct Arena {
    pub(crate) space: Space,
    participant: AtomicPtr<Participant>,
    hooks: OnceLock<Hooks>,
    closed: AtomicBool,
    ended: AtomicBool,
    /// How long a call waits for others, in nanoseconds; `u64::MAX` for ever.
    lock_timeout_ns: AtomicU64,
    /// Who works in structures without a lane.
    pub(crate) guests: Guestbook,
    /// A read-only handle's lock on the open byte.
    pub(crate) open_lock: Mutex<Option<HeldBytes>>,
}

impl Arena {
    /// A read-only arena: no registration.
    pub(crate) fn new(space: Space) -> Arena {
        Arena {
            space,
            participant: AtomicPtr::default(),
            hooks: OnceLock::new(),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            lock_timeout_ns: AtomicU64::new(u64::MAX),
            guests: Guestbook::default(),
            open_lock: Mutex::new(None),
        }
    }

    /// How long a call of the calling thread waits for others who live; `None` for ever.
    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        // Relaxed: a setting.
        let time = self.lock_timeout_ns.load(Ordering::Relaxed);
        thread_patience::limited((time != u64::MAX).then(|| Duration::from_nanos(time)))
    }

    pub(crate) fn set_lock_timeout(&self, time: Option<Duration>) {
        let time = time.and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or(u64::MAX);
        self.lock_timeout_ns.store(time, Ordering::Relaxed);
    }

    /// Claims a participant slot, recovering what dead participants left.
    pub(crate) fn register(&self, hooks: Hooks) -> Result<()> {
        let _ = self.hooks.set(hooks);
        self.space.file().keep_description();
        let fresh = self.claim()?;
        self.participant.store(Box::into_raw(fresh), Ordering::Release);
        Ok(())
    }

    fn claim(&self) -> Result<Box<Participant>> {
        let recover = |owner| {
            self.ensure_time_to_recover(owner)?;
            self.recover_held(owner, Level::Whole, Patience::moment())
        };
        let patience = Patience::for_one_alone(self.lock_timeout());
        let registration = participant::claim(&self.space, &recover, patience)?;
        self.hooks.get().map_or(Ok(()), |hooks| (hooks.opened)(self))?;
        Ok(Box::new(Participant::new(&self.space, registration)))
    }

    /// The registration of this handle, if it may write.
    pub(crate) fn participant(&self) -> Option<&Participant> {
        // SAFETY: null or a live Box; see the module's contract.
        unsafe { self.participant.load(Ordering::Acquire).as_ref() }
    }

    /// Who this process is in the hold; `None` for a read-only handle, and in a forked child before its first
    /// operation.
    #[inline]
    pub(crate) fn current_owner(&self) -> Option<Owner> {
        let registration = &self.participant()?.registration;
        (!registration.inherited()).then_some(registration.owner)
    }

    /// True if the handle was closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // SeqCst pairs with the swap in `close`: for guests, who say first that they are inside. For others, who
        // look again at their lane, any order would do.
        self.closed.load(Ordering::SeqCst)
    }

    /// # Errors
    /// `Closed` if the handle was closed.
    #[inline]
    pub(crate) fn ensure_open(&self) -> Result<()> {
        if self.is_closed() { Err(self.closed_error()) } else { Ok(()) }
    }

    #[cold]
    pub(crate) fn closed_error(&self) -> Error {
        let path = self.space.file().path().display();
        Error::new(
            ErrorKind::Closed,
            format!("{path}: this handle was closed; open the hold again"),
        )
    }

    /// Enters a writing operation.
    ///
    /// # Errors
    /// `Closed`, `ReadOnly`; `Reentrant` from a signal handler or callback inside an operation; in a forked
    /// child's first operation, whatever claiming a slot reports.
    #[inline]
    pub(crate) fn enter(&self) -> Result<LaneGuard<'_>> {
        self.enter_at(lane::ANYTHING)
    }

    /// Enters an operation on the block of root `id`; errors as above.
    #[inline]
    pub(crate) fn enter_block(&self, id: u32) -> Result<LaneGuard<'_>> {
        self.enter_at(lane::on_block(id))
    }

    /// Enters a writing operation if there is nothing to wait for, and nothing against it.
    pub(crate) fn try_enter(&self) -> Option<LaneGuard<'_>> {
        let participant = self.participant().filter(|p| !p.registration.inherited())?;
        if self.is_closed() || !lane::begin_operation() {
            return None;
        }
        let entered = lane::try_enter(self, participant);
        if entered.is_none() {
            lane::end_operation();
        }
        entered
    }

    /// The same, for who lets go of something: it waits for a lane for [`LEAVING`] at most, and for
    /// anything else a moment. `None` if there is no lane, or in a forked child that is no
    /// participant.
    pub(crate) fn enter_block_briefly(&self, id: u32) -> Option<LaneGuard<'_>> {
        let participant = self.participant().filter(|p| !p.registration.inherited())?;
        if self.is_closed() || !lane::begin_operation() {
            return None;
        }
        let patience = Some(Patience::new(Some(LEAVING)));
        let lane = lane::enter_any(self, participant, lane::on_block(id), patience);
        lane.ok().map(LaneGuard::tidying)
    }

    #[inline]
    fn enter_at(&self, at: u32) -> Result<LaneGuard<'_>> {
        self.ensure_open()?;
        let Some(participant) = self.participant() else { return Err(self.read_only_error()) };
        if !lane::begin_operation() {
            return Err(reentrant());
        }
        if participant.registration.inherited() {
            return self.enter_in_child(participant, at);
        }
        lane::enter(self, participant, at)
    }

    #[cold]
    fn read_only_error(&self) -> Error {
        let path = self.space.file().path().display();
        Error::new(ErrorKind::ReadOnly, format!("{path}: opened read-only; open it for writing"))
    }

    /// The first operation in a forked child: a slot of its own. Threads of the child may race.
    #[cold]
    fn enter_in_child(&self, inherited: &Participant, at: u32) -> Result<LaneGuard<'_>> {
        let ended = Mend::new(lane::end_operation);
        let fresh = self.claim()?;
        ended.done();
        let fresh = Box::into_raw(fresh);
        let old = std::ptr::from_ref(inherited).cast_mut();
        if self
            .participant
            .compare_exchange(old, fresh, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: it was never shared.
            let unused = unsafe { Box::from_raw(fresh) };
            unused.registration.end(&self.space);
        }
        match self.participant() {
            Some(participant) => lane::enter(self, participant, at),
            None => {
                lane::end_operation();
                Err(self.closed_error())
            }
        }
    }

    /// Settles what a dead participant left at `level`, unless it is alive or somebody is at it. Only at
    /// [`Level::Whole`] its generation ends; after less, the rest is left to a sweep or a waiter that holds nothing.
    ///
    /// # Errors
    /// `TimedOut` if somebody who lives holds what that needs: what could be settled is, the rest
    /// stays in the dead one's name.
    pub(crate) fn recover(&self, owner: Owner, level: Level, patience: Patience) -> Result<()> {
        self.try_recover(owner, level, patience).map(|_| ())
    }

    /// The same; true if it was done here and now.
    fn try_recover(&self, owner: Owner, level: Level, patience: Patience) -> Result<bool> {
        // Deeper in the order of locks there is little to settle, and nothing to go back to.
        if level == Level::Whole {
            self.ensure_time_to_recover(owner)?;
        }
        let participant = self.participant().filter(|p| !p.registration.inherited());
        let stay = participant.map(Participant::stay);
        if stay.as_ref().is_some_and(Option::is_none) {
            return Ok(false);
        }
        let me = participant.map(|p| p.registration.owner);
        let Some(right) = recovery::begin(&self.space, owner, me)? else { return Ok(false) };
        self.recover_held(owner, level, patience)?;
        if let Some(slot) = participant::slot(&self.space, owner.slot())
            && level == Level::Whole
        {
            slot.release();
        }
        drop(right);
        Ok(true)
    }

    /// # Errors
    /// `TimedOut` if the thread is in too much of a hurry.
    fn ensure_time_to_recover(&self, owner: Owner) -> Result<()> {
        if thread_patience::may_recover() {
            return Ok(());
        }
        let text = format!(
            "slot {} died with work unfinished, which this thread has no time to settle (its patience is 0)",
            owner.slot()
        );
        Err(Error::new(ErrorKind::TimedOut, text))
    }

    fn recover_held(&self, owner: Owner, level: Level, patience: Patience) -> Result<()> {
        self.hooks.get().map_or(Ok(()), |hooks| (hooks.recover)(self, owner, level, patience))
    }

    /// Recovers the dead participants, but for what those who live stand in the way of: that is
    /// left to the next one. Waits a moment at most. Returns how many there were that could be
    /// settled.
    ///
    /// # Errors
    /// Those of the system; damage. The others are recovered all the same.
    pub(crate) fn sweep(&self) -> Result<usize> {
        let swept = self.sweep_within(Patience::moment());
        match swept.left {
            Some(error) if error.kind() != ErrorKind::TimedOut => Err(error),
            _ => Ok(swept.settled),
        }
    }

    /// The same, waiting for those who live as long as a call does.
    ///
    /// # Errors
    /// `TimedOut` too.
    pub(crate) fn sweep_patiently(&self) -> Result<usize> {
        let patience = Patience::new(self.lock_timeout());
        let mut settled = 0;
        loop {
            self.ensure_open()?;
            let swept = self.sweep_within(patience.but_a_moment());
            settled += swept.settled;
            match (swept.left, patience.shorten(PAUSE)) {
                (None, _) => return Ok(settled),
                (Some(left), Some(pause)) if left.kind() == ErrorKind::TimedOut => {
                    std::thread::sleep(pause);
                }
                (Some(left), _) => return Err(left),
            }
        }
    }

    fn sweep_within(&self, patience: Patience) -> Swept {
        let mut swept = Swept { settled: 0, left: None };
        let users = participant::slots(&self.space).filter_map(|(n, slot)| slot.user(n));
        for owner in users.filter(|&owner| participant::is_dead(&self.space, owner)) {
            match self.try_recover(owner, Level::Whole, patience) {
                Ok(settled) => swept.settled += usize::from(settled),
                Err(error) => swept.left = swept.left.or(Some(error)),
            }
        }
        self.finish_drops();
        swept
    }

    /// Frees what is left of maps that have ended, where that waits for nobody.
    pub(crate) fn finish_drops(&self) {
        if let Some(hooks) = self.hooks.get() {
            (hooks.finish_drops)(self);
        }
    }

    /// Keeps the registration beyond [`Arena::close`], until [`Arena::release_endpoint_slot`]; inside an operation.
    ///
    /// # Errors
    /// `Closed` if the handle is closed meanwhile.
    pub(crate) fn take_endpoint_slot(&self) -> Result<()> {
        // SeqCst, as in `close`: one of the two sees the other.
        self.participant().map(|p| p.endpoint_slots.fetch_add(1, Ordering::SeqCst));
        if self.closed.load(Ordering::SeqCst) {
            // Should `close` have seen it, the registration ends with the arena.
            self.participant().map(|p| p.endpoint_slots.fetch_sub(1, Ordering::SeqCst));
            return Err(self.closed_error());
        }
        Ok(())
    }

    /// Gives an endpoint slot back, outside of any operation. In the process that took it.
    pub(crate) fn release_endpoint_slot(&self) {
        let left = self.participant().map(|p| p.endpoint_slots.fetch_sub(1, Ordering::SeqCst));
        if left == Some(1) && self.closed.load(Ordering::SeqCst) {
            self.end();
        }
    }

    /// Refuses further operations, waits for those that run, and ends the registration, or leaves that to the last
    /// endpoint slot.
    pub(crate) fn close(&self) {
        self.finish_drops();
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        if self.participant().is_none_or(|p| p.endpoint_slots.load(Ordering::SeqCst) == 0) {
            self.end();
        }
    }

    fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let inherited = self.participant().is_some_and(|p| p.registration.inherited());
        if !inherited {
            // What others left is settled while somebody is here; failing that, by the next opener.
            if self.participant().is_some() {
                let _ = self.sweep();
            }
            self.unregister();
            if let Some(hooks) = self.hooks.get() {
                (hooks.closed)(self);
            }
        }
        self.open_lock.lock().unwrap_or_else(|e| e.into_inner()).take();
    }

    /// Ends the registration once the operations that run have ended; no other can begin, because the
    /// handle is closed and the lanes stay taken.
    fn unregister(&self) {
        let Some(participant) = self.participant() else { return };
        self.guests.wait(participant.registration.owner, None);
        for number in 0..LANES {
            if !lane::retire_lane(self, participant, number) {
                return; // Closed already.
            }
        }
        participant.leave();
        // A generation never ends with anything signed by it: a Freeze that outlives the handle, say.
        // If that fails, the slot is left as that of a dead participant, for the next to recover.
        let (own, patience) = (participant.registration.owner, Patience::moment());
        if self.recover_held(own, Level::Whole, patience).is_ok() {
            participant.registration.end(&self.space);
        }
        participant.registration.let_go();
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.close();
        self.end();
        let pointer = self.participant.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: null or a live Box, and nobody else can reach it any more.
        let inherited = unsafe { pointer.as_ref() }.is_none_or(|p| p.registration.inherited());
        if !inherited {
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(pointer) });
        }
    }
}

/// What became of the dead.
struct Swept {
    settled: usize,
    /// Why some are left.
    left: Option<Error>,
}

/// Who changes maps: a lane in an operation, or a recoverer acting as a dead participant.
pub(crate) trait Writer: Peers {
    fn arena(&self) -> &Arena;
    /// Where the locks about to be taken are listed.
    fn list(&self) -> &LaneList;
    /// The number of its lane; `None` for a recoverer.
    fn lane_number(&self) -> Option<u32>;
    /// Frees a record that this participant unlinked.
    fn retire(&self, offset: u64);
    /// A sequence above every one of this writer and above `floor`.
    fn next_sequence(&self, floor: u64) -> u64;
}

/// A recoverer, acting as the dead `owner`, which nobody else does meanwhile.
pub(crate) struct Acting<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) owner: Owner,
    pub(crate) list: &'a LaneList,
    /// That of the call that recovers on its way, or less.
    pub(crate) patience: Patience,
}

impl Writer for Acting<'_> {
    fn arena(&self) -> &Arena {
        self.arena
    }
    fn list(&self) -> &LaneList {
        self.list
    }
    fn lane_number(&self) -> Option<u32> {
        None
    }
    fn retire(&self, offset: u64) {
        slab::retire(&self.arena.space, offset, self.owner);
    }
    fn next_sequence(&self, floor: u64) -> u64 {
        // Only for the counters of segments, which need to grow and not to be unique.
        floor + 1
    }
}

impl Peers for Acting<'_> {
    fn me(&self) -> Owner {
        self.owner
    }
    fn ask_dead(&self, owner: Owner) -> Result<bool> {
        participant::ask_dead(&self.arena.space, owner)
    }
    fn has_ended(&self, owner: Owner) -> Option<bool> {
        participant::has_ended(&self.arena.space, owner)
    }
    fn recover(&self, owner: Owner, level: Level) -> Result<()> {
        self.arena.recover(owner, level, self.patience)
    }
    fn may_hold(&self, owner: Owner, word: &AtomicU32) -> bool {
        // Nobody but this recoverer runs as the dead one, and it is here.
        owner != self.owner && lane::lists(self.arena, owner, word, |_| true)
    }
    fn patience(&self) -> Patience {
        self.patience
    }
    fn describe(&self, word: &AtomicU32) -> (&'static str, u64) {
        lane::describe(&self.arena.space, word)
    }
    fn pid(&self, owner: Owner) -> u32 {
        pid(&self.arena.space, owner.slot())
    }
    fn waits_for(&self, _: Option<&AtomicU32>) {}
}

#[cold]
fn reentrant() -> Error {
    let text = "an operation was started inside another one on the same thread (from a signal handler?); \
                finish the first one";
    Error::new(ErrorKind::Reentrant, text)
}
