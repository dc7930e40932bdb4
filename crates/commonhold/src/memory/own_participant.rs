//! [`Participant`]: a handle's registration and its lanes, in private memory.

use crate::memory::lane::{self, Lane};
use crate::memory::slab;
use crate::sync::participant::{self, LANES, LaneList, Registration, Slot};
use crate::sync::space::{Checked, Space};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A registration and its lanes; private memory.
pub(crate) struct Participant {
    pub(crate) registration: Registration,
    pub(crate) lanes: [Lane; LANES],
    /// This slot may use counters below this number.
    pub(crate) reserved: AtomicU64,
    next: AtomicUsize,
    /// The number of producers, consumers and collectors, which may use the registration even after
    /// the handle was closed.
    pub(crate) endpoint_slots: AtomicUsize,
    /// The number of threads that act in the name of this participant without a lane: they recover
    /// a dead participant, or end a freeze.
    staying: AtomicUsize,
    /// Whether no further thread may begin to act without a lane.
    is_leaving: AtomicBool,
    /// Whether a thread has begun to end the registration.
    pub(crate) is_ending: AtomicBool,
    /// Whether the thread that ends the registration has finished, possibly by a panic.
    pub(crate) has_ended: AtomicBool,
    slot: Checked<Slot>,
}

impl Participant {
    pub(crate) fn new(space: &Space, registration: Registration) -> Participant {
        let offset = participant::slot_offset(space, registration.owner.slot());
        let slot: Checked<Slot> =
            offset.and_then(|at| Checked::new(space, at)).unwrap_or(Checked::first(space));
        let start = slot.of(space).reserved_counter.load(Ordering::Acquire);
        // No sequence has more bits than that.
        let start = start & (slab::SEQUENCE_BITS >> lane::SEQUENCE_SHIFT);
        Participant {
            registration,
            lanes: std::array::from_fn(|_| Lane::new(start)),
            reserved: AtomicU64::new(start),
            next: AtomicUsize::new(0),
            endpoint_slots: AtomicUsize::new(0),
            staying: AtomicUsize::new(0),
            is_leaving: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            slot,
        }
    }

    /// Where the participant's lanes list the locks that they are about to take.
    #[inline]
    pub(crate) fn list<'a>(&self, space: &'a Space) -> &'a [LaneList; LANES] {
        &self.slot.of(space).lanes
    }

    pub(crate) fn next_lane(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % LANES
    }

    /// Keeps the participant registered while the guard lives; `None` if it is leaving. Outside of
    /// this guard, a participant that is leaving may be acting in its own name as its recoverer.
    pub(crate) fn stay(&self) -> Option<Stay<'_>> {
        // SeqCst, with `leave`: one of the two sees the other.
        self.staying.fetch_add(1, Ordering::SeqCst);
        let stay = Stay(&self.staying);
        (!self.is_leaving.load(Ordering::SeqCst)).then_some(stay)
    }

    /// Waits for the threads that act in the name of this participant without a lane, and prevents
    /// further ones.
    pub(crate) fn leave(&self) {
        self.is_leaving.store(true, Ordering::SeqCst);
        while self.staying.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

/// A thread acts in the name of a participant, which does not leave meanwhile.
pub(crate) struct Stay<'a>(&'a AtomicUsize);

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        // Release pairs with the load in `leave`: everything that the thread did comes before.
        self.0.fetch_sub(1, Ordering::Release);
    }
}
