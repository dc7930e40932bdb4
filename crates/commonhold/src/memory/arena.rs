//! The memory of one open handle: the mapped file, the handle's registration, and the entry to
//! operations.
//!
//! Readers only use `space`. Writers [`enter`](Arena::enter) and get a lane. A forked child
//! replaces the registration before its first writing operation; the parent keeps its own.
//!
//! # Safety
//! `participant` points to a `Box` that lives until [`Arena::drop`] frees it or a forked child
//! replaces it. The child leaks the old one on purpose, because its locks may have been held by
//! threads that do not exist in the child.
#![allow(unsafe_code)]

use crate::error::{Error, ErrorKind, Result};
use crate::memory::guests::Guestbook;
use crate::memory::in_use;
use crate::memory::lane::{self, LaneGuard};
use crate::memory::own_participant::Participant;
use crate::memory::private_records::PrivateRecords;
use crate::os::byte_lock::HeldBytes;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::participant::{self, LANES};
use crate::sync::patience::Patience;
use crate::sync::recovery;
use crate::sync::robust_lock::Level;
use crate::sync::space::Space;
use crate::sync::thread_patience;
use crate::sync::unwind::UnwindGuard;
use std::cell::LazyCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Pause between two sweeps while waiting until everything is recovered.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a caller that releases something waits for a lane. Threads that wait for others occupy
/// no lane, so one is free sooner, unless the threads of this process cannot run.
const LEAVING: Duration = Duration::from_secs(2);

/// Functions that the layers above install.
#[derive(Clone, Copy)]
pub(crate) struct Hooks {
    /// Recovers a dead participant as far as level and patience allow. Nobody else acts as it
    /// meanwhile.
    pub(crate) recover: fn(&Arena, Owner, Level, Patience) -> Result<()>,
    /// Runs after a slot was claimed: the hold is no longer clean.
    pub(crate) opened: fn(&Arena) -> Result<()>,
    /// Adds slots to the table of participants when it is nearly full. Runs in an operation of each
    /// new participant.
    pub(crate) extend_table: fn(&LaneGuard<'_>),
    /// Frees what is left of maps that have ended, where that does not wait for anybody. Returns
    /// the number of maps whose memory is free now.
    pub(crate) finish_drops: fn(&LaneGuard<'_>) -> usize,
    /// Runs when the handle is closed, after its registration has ended.
    pub(crate) closed: fn(&Arena, Owner),
}

/// The memory of one open handle.
pub(crate) struct Arena {
    pub(crate) space: Space,
    participant: AtomicPtr<Participant>,
    hooks: OnceLock<Hooks>,
    closed: AtomicBool,
    ended: AtomicBool,
    /// How long a call waits for others, in nanoseconds; `u64::MAX` for unlimited.
    lock_timeout_ns: AtomicU64,
    /// The threads that work in structures without a lane.
    pub(crate) guests: Guestbook,
    pub(crate) records: PrivateRecords,
    /// A read-only handle's lock on the open byte.
    pub(crate) open_lock: Mutex<Option<HeldBytes>>,
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("hold", &self.space.file().path()).finish_non_exhaustive()
    }
}

impl Arena {
    /// A read-only arena: no registration.
    pub(crate) fn new(space: Space) -> Arc<Arena> {
        let arena = Arc::new(Arena {
            space,
            participant: AtomicPtr::default(),
            hooks: OnceLock::new(),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            lock_timeout_ns: AtomicU64::new(u64::MAX),
            guests: Guestbook::default(),
            records: PrivateRecords::default(),
            open_lock: Mutex::new(None),
        });
        // SAFETY: nobody takes the space out of the arena, nor the arena out of its `Arc`.
        unsafe { arena.space.guard_pages(in_use::is_in_use) };
        arena
    }

    /// How long a call of the calling thread waits for living participants; `None` for unlimited.
    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        // Relaxed: a setting.
        let time = self.lock_timeout_ns.load(Ordering::Relaxed);
        thread_patience::limited((time != u64::MAX).then(|| Duration::from_nanos(time)))
    }

    pub(crate) fn set_lock_timeout(&self, time: Option<Duration>) {
        let time = time.and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or(u64::MAX);
        self.lock_timeout_ns.store(time, Ordering::Relaxed);
    }

    /// Claims a participant slot, and recovers what dead participants left.
    pub(crate) fn register(&self, hooks: Hooks) -> Result<()> {
        let _ = self.hooks.set(hooks);
        let fresh = self.claim()?;
        self.participant.store(Box::into_raw(fresh), Ordering::Release);
        Ok(())
    }

    fn claim(&self) -> Result<Box<Participant>> {
        let patience = Patience::for_one_alone(self.lock_timeout());
        // One for all the dead whose places are tried.
        let moment = LazyCell::new(|| patience.but_a_moment());
        let recover = |owner| {
            self.ensure_time_to_recover(owner)?;
            self.recover_held(owner, Level::Whole, *moment)
        };
        let registration = participant::claim(&self.space, &recover, patience)?;
        self.hooks.get().map_or(Ok(()), |hooks| (hooks.opened)(self))?;
        Ok(Box::new(Participant::new(&self.space, registration)))
    }

    /// The registration of this handle, if it may write.
    pub(crate) fn participant(&self) -> Option<&Participant> {
        // SAFETY: null or a live Box; see the module's contract.
        unsafe { self.participant.load(Ordering::Acquire).as_ref() }
    }

    /// This process's participant; `None` for a read-only handle, and in a forked child before its
    /// first operation.
    #[inline]
    pub(crate) fn current_owner(&self) -> Option<Owner> {
        let registration = &self.participant()?.registration;
        (!registration.inherited()).then_some(registration.owner)
    }

    /// True if the handle was closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // Guests have announced that they are inside and fenced (memory/guests.rs). Other callers
        // look at their lane again, so any order would do for them.
        self.closed.load(Ordering::SeqCst)
    }

    /// The same, for a lookup, which orders nothing by it: the memory lives longer than the handle.
    #[inline(always)]
    pub(crate) fn was_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `Closed` if the handle was closed.
    #[inline]
    pub(crate) fn ensure_open(&self) -> Result<()> {
        if self.is_closed() { Err(self.closed_error()) } else { Ok(()) }
    }

    /// The same if no endpoint keeps the lanes.
    ///
    /// # Errors
    /// `Closed`.
    pub(crate) fn ensure_lanes(&self) -> Result<()> {
        match self.is_closed() && self.has_no_endpoint() {
            true => Err(self.closed_error()),
            false => Ok(()),
        }
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
    /// `Closed`, `ReadOnly`; `Reentrant` from a signal handler or callback inside an operation; in
    /// a forked child's first operation, the errors of claiming a slot.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<LaneGuard<'_>> {
        self.enter_at(lane::ANYTHING)
    }

    /// Enters an operation on the block of root `id`; errors as above.
    #[inline]
    pub(crate) fn enter_block(&self, id: u32) -> Result<LaneGuard<'_>> {
        self.enter_at(lane::on_block(id))
    }

    /// Enters the lane that the thread used last, for the operation `at`, if nothing is in the way.
    #[inline(always)]
    pub(crate) fn try_enter_preferred(&self, at: u32) -> Option<lane::Entered<'_>> {
        let participant = self.participant()?;
        if self.is_closed() || participant.registration.inherited() || !lane::begin_operation() {
            return None;
        }
        let entered = lane::try_enter_preferred(self, participant, at);
        if entered.is_none() {
            lane::end_operation();
        }
        entered
    }

    /// Enters a writing operation if it can do so without waiting and without an error.
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

    /// The same, for a caller that releases something. It waits for a lane for at most [`LEAVING`],
    /// and for anything else a moment, or as long as the patience of a call lasts if that is less.
    /// If the caller can release it `later`, that patience limits the wait for a lane, too. `None`
    /// if no lane is free, or in a forked child that is not a participant. After the handle was
    /// closed, this works as long as the participant has endpoints.
    pub(crate) fn enter_block_briefly(&self, id: u32, later: bool) -> Option<LaneGuard<'_>> {
        let participant = self.participant().filter(|p| !p.registration.inherited())?;
        if self.ensure_lanes().is_err() || !lane::begin_operation() {
            return None;
        }
        let own = self.lock_timeout().filter(|_| later);
        let patience = Patience::new(Some(own.map_or(LEAVING, |own| own.min(LEAVING))));
        let lane = lane::enter_within(self, participant, lane::on_block(id), patience);
        lane.ok().map(LaneGuard::tidying)
    }

    #[inline(always)]
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

    /// The first operation in a forked child: claims a slot for the child. Threads of the child may
    /// race.
    #[cold]
    fn enter_in_child(&self, inherited: &Participant, at: u32) -> Result<LaneGuard<'_>> {
        let ended = UnwindGuard::new(lane::end_operation);
        self.replace_inherited(inherited)?;
        // Pairs with the fence in `close`: either `close` sees the new registration, or this thread
        // sees that the handle is closed.
        fence(Ordering::SeqCst);
        let Some(participant) = self.participant().filter(|_| !self.is_closed()) else {
            drop(ended);
            if self.has_no_endpoint() {
                self.end_registration();
            }
            return Err(self.closed_error());
        };
        ended.done();
        // In an operation of its own, which does not wait.
        let lane = lane::enter(self, participant, lane::ANYTHING)?.impatient();
        if let Some(hooks) = self.hooks.get() {
            (hooks.extend_table)(&lane);
        }
        drop(lane);
        self.enter_at(at)
    }

    /// Claims a slot in place of the inherited one, unless another thread was faster.
    fn replace_inherited(&self, inherited: &Participant) -> Result<()> {
        let fresh = Box::into_raw(self.claim()?);
        let old = std::ptr::from_ref(inherited).cast_mut();
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        if self.participant.compare_exchange(old, fresh, success, failure).is_err() {
            // SAFETY: it was never shared.
            let unused = unsafe { Box::from_raw(fresh) };
            unused.registration.end(&self.space);
            if self.is_closed() {
                // The thread that has closed the handle may already have seen this registration.
                self.run_closed_hook(unused.registration.owner);
            }
        }
        Ok(())
    }

    /// Recovers what a dead participant left at `level`, unless it is alive or somebody else
    /// recovers it. Its generation ends only at [`Level::Whole`]. After a lower level, the rest is
    /// left to a sweep or to a waiter that holds nothing.
    ///
    /// # Errors
    /// `TimedOut` if a living participant holds what the recovery needs. The rest stays in the name
    /// of the dead one.
    pub(crate) fn recover(&self, owner: Owner, level: Level, patience: Patience) -> Result<()> {
        self.try_recover(owner, level, patience).map(|_| ())
    }

    /// The same; true if this call did it.
    fn try_recover(&self, owner: Owner, level: Level, patience: Patience) -> Result<bool> {
        // At deeper levels there is little to recover, and no earlier state to return to.
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
    /// `TimedOut` if the thread's patience leaves no time for it.
    fn ensure_time_to_recover(&self, owner: Owner) -> Result<()> {
        if thread_patience::may_recover() {
            return Ok(());
        }
        let text = format!(
            "the process in slot {} died with unfinished work, which this thread has no time to \
             recover; try again with a timeout",
            owner.slot()
        );
        Err(Error::new(ErrorKind::TimedOut, text))
    }

    fn recover_held(&self, owner: Owner, level: Level, patience: Patience) -> Result<()> {
        self.hooks.get().map_or(Ok(()), |hooks| (hooks.recover)(self, owner, level, patience))
    }

    /// Recovers the dead participants, except where living ones block the recovery: that is left to
    /// the next sweep. Waits at most a moment. Returns the number of participants recovered.
    ///
    /// # Errors
    /// Those of the system; damage. The other participants are recovered all the same.
    pub(crate) fn sweep(&self) -> Result<usize> {
        self.sweep_for(Patience::moment())
    }

    /// The same, with this patience.
    ///
    /// # Errors
    /// Those of [`sweep`](Self::sweep).
    pub(super) fn sweep_for(&self, patience: Patience) -> Result<usize> {
        let swept = self.sweep_within(patience);
        match swept.left {
            Some(error) if error.kind() != ErrorKind::TimedOut => Err(error),
            _ => Ok(swept.recovered),
        }
    }

    /// The same, but waits for living participants as long as a call does.
    ///
    /// # Errors
    /// `TimedOut` too.
    pub(crate) fn sweep_patiently(&self) -> Result<usize> {
        let patience = Patience::new(self.lock_timeout());
        let mut recovered = 0;
        loop {
            self.ensure_open()?;
            let swept = self.sweep_within(patience.but_a_moment());
            recovered += swept.recovered;
            match (swept.left, patience.shorten(PAUSE)) {
                (None, _) => return Ok(recovered),
                (Some(left), Some(pause)) if left.kind() == ErrorKind::TimedOut => {
                    std::thread::sleep(pause);
                }
                (Some(left), _) => return Err(left),
            }
        }
    }

    fn sweep_within(&self, patience: Patience) -> Swept {
        let mut swept = Swept { recovered: 0, left: None };
        let users = participant::slots(&self.space).filter_map(|(n, slot)| slot.user(n));
        for owner in users.filter(|&owner| participant::is_dead(&self.space, owner)) {
            match self.try_recover(owner, Level::Whole, patience) {
                Ok(recovered) => swept.recovered += usize::from(recovered),
                Err(error) => swept.left = swept.left.or(Some(error)),
            }
        }
        self.finish_drops();
        swept
    }

    /// Frees what is left of maps that have ended, where that does not wait for anybody.
    pub(crate) fn finish_drops(&self) {
        if let Some(lane) = self.try_enter() {
            self.finish_drops_in(&lane);
        }
    }

    /// The same, in an operation of the caller. Returns the number of maps whose memory is free
    /// now.
    pub(super) fn finish_drops_in(&self, lane: &LaneGuard<'_>) -> usize {
        self.hooks.get().map_or(0, |hooks| (hooks.finish_drops)(lane))
    }

    /// Keeps the registration beyond [`Arena::close`], until [`Arena::release_endpoint_slot`].
    /// Called inside an operation. The caller must then check that the handle is open: if it was
    /// closed in the meantime, the caller's release may have to end the registration.
    pub(crate) fn take_endpoint_slot(&self) {
        // SeqCst, as in `close`: one of the two sees the other.
        self.participant().map(|p| p.endpoint_slots.fetch_add(1, Ordering::SeqCst));
    }

    /// Releases an endpoint slot, outside of any operation, in the process that took it.
    pub(crate) fn release_endpoint_slot(&self) {
        let Some(participant) = self.participant() else { return };
        let was_last = participant.endpoint_slots.fetch_sub(1, Ordering::SeqCst) == 1;
        // Also after a panic at the step.
        let _rest = UnwindGuard::new(|| {
            // If another endpoint was taken before the handle was closed, the release of that
            // endpoint ends the registration. A later endpoint finds the handle closed. All
            // accesses are SeqCst, in this order.
            if was_last
                && self.closed.load(Ordering::SeqCst)
                && participant.endpoint_slots.load(Ordering::SeqCst) == 0
            {
                self.end();
            }
        });
        step!("channel.endpoint-released");
    }

    /// Refuses further operations, waits for the running ones, and ends the registration or leaves
    /// that to the last endpoint slot.
    pub(crate) fn close(&self) {
        self.finish_drops();
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        fence(Ordering::SeqCst);
        if self.has_no_endpoint() {
            self.end();
        }
    }

    fn has_no_endpoint(&self) -> bool {
        // A forked child that has not written yet has a copy of its parent's count.
        self.participant().is_none_or(|p| {
            p.registration.inherited() || p.endpoint_slots.load(Ordering::SeqCst) == 0
        })
    }

    fn end(&self) {
        // This may be the second time: a forked child may have registered since the first.
        self.end_registration();
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.open_lock.lock().unwrap_or_else(|e| e.into_inner()).take();
            self.space.file().leave_open_byte();
        }
    }

    /// Ends the registration, if it is this process's, and marks the hold as clean if it was the
    /// last one. If another thread has begun this, waits for that thread.
    fn end_registration(&self) {
        let own = self.participant().filter(|p| !p.registration.inherited());
        let Some(participant) = own else { return };
        if participant.is_ending.swap(true, Ordering::AcqRel) {
            while !participant.has_ended.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_micros(50));
            }
            return;
        }
        let _ended = UnwindGuard::new(|| participant.has_ended.store(true, Ordering::Release));
        self.wait_for_operations(participant);
        self.unregister(participant);
        self.run_closed_hook(participant.registration.owner);
    }

    /// Waits for the running operations. No other one can begin, because the handle is closed and
    /// the lanes stay taken.
    fn wait_for_operations(&self, participant: &Participant) {
        self.guests.wait(participant.registration.owner);
        participant.lanes.iter().for_each(lane::take_for_good);
    }

    fn run_closed_hook(&self, own: Owner) {
        self.hooks.get().inspect(|hooks| (hooks.closed)(self, own));
    }

    /// Ends the registration after the last operation.
    fn unregister(&self, participant: &Participant) {
        // Also if something panics here: no thread acts in its name any more, so what is left can
        // be recovered like that of a dead participant.
        let _released = UnwindGuard::new(|| {
            participant.leave();
            participant.registration.release_byte();
        });
        (0..LANES).for_each(|number| lane::release_extents(self, participant, number));
        // Recovers what others left while this participant is still here. If that fails, the next
        // opener does it.
        let patience = Patience::moment();
        let _ = self.sweep_for(patience);
        participant.leave();
        // A generation never ends while anything names it, for example a Freeze that outlives the
        // handle. If releasing that fails, the slot is left like that of a dead participant, for
        // the next one to recover.
        let own = participant.registration.owner;
        if self.recover_held(own, Level::Whole, patience).is_ok() {
            participant.registration.end(&self.space);
        }
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

/// The result of a sweep.
struct Swept {
    recovered: usize,
    /// Why some participants could not be recovered.
    left: Option<Error>,
}

#[cold]
fn reentrant() -> Error {
    let text = "an operation was started inside another one on the same thread (from a signal \
                handler?); finish the first one";
    Error::new(ErrorKind::Reentrant, text)
}
