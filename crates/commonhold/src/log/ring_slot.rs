//! [`RingSlots`]: assigns the threads of this process to rings.
//!
//! A thread claims a ring by an exchange of its tenant word, from nobody or from a dead
//! participant, and releases it when the thread ends. The ring need not be empty then: each line
//! names its writer, and the next tenant continues where the last one stopped. So a claim loses
//! nothing, and nobody waits for one.
//!
//! For each ring there is a slot in private memory, with its thread's state. A thread remembers the
//! number of its slot: no pointers, nothing to free. Every word names the participant, so a forked
//! child finds that none of them is its own. A signal handler that finds its own thread inside
//! writes its line into another ring, which it claims for that line alone: it does not depend on
//! the interrupted code.

use crate::log::handle::Inner;
use crate::log::layout::{Layout, tenant, tenant_owner};
use crate::log::ring::{Place, Ring};
use crate::memory::guests::Guests;
use crate::os::barrier;
use crate::steps::step;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::space::Space;
use crate::sync::unwind::UnwindGuard;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

/// A thread's side of a ring; private memory, a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct RingSlot {
    /// The tenant word with which this process has the ring, 0 if it does not have it.
    tenant: AtomicU64,
    /// The tenant word with which a thread is inside, 0 if none is.
    inside: AtomicU64,
    pub(crate) place: Place,
}

/// The slots of one handle.
pub(crate) struct RingSlots {
    root: u32,
    all: Box<[RingSlot]>,
}

impl Guests for RingSlots {
    fn root(&self) -> u32 {
        self.root
    }

    fn is_anybody_inside(&self, me: Owner) -> bool {
        // SeqCst: `Guestbook::wait` has fenced; a word that is gone orders the guest's stores.
        self.all.iter().any(|slot| tenant_owner(slot.inside.load(Ordering::SeqCst)) == Some(me))
    }
}

/// The result of entering a slot.
pub(crate) enum Entered<'a> {
    /// It is inside its slot.
    Inside(Inside<'a>),
    /// It was inside already: this is a signal handler.
    Nested,
    /// The slot belongs to another thread.
    Stranger,
}

/// A thread in its slot, which delays closing and dropping. It still has to check whether that has
/// happened.
pub(crate) struct Inside<'a>(&'a RingSlot);

impl Inside<'_> {
    pub(crate) fn place(&self) -> &Place {
        &self.0.place
    }

    /// Leaves a slot whose ring was released: the next tenant may be inside already, with another
    /// word.
    fn leave_as(self, word: u64) {
        let slot = ManuallyDrop::new(self).0;
        // Release: as in `drop`.
        let _ = slot.inside.compare_exchange(word, 0, Ordering::Release, Ordering::Relaxed);
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: a thread that finds the slot empty sees what was stored into the ring.
        self.0.inside.store(0, Ordering::Release);
    }
}

impl RingSlots {
    pub(crate) fn new(root: u32, rings: u32) -> RingSlots {
        RingSlots { root, all: (0..rings).map(|_| RingSlot::default()).collect() }
    }

    #[inline]
    pub(crate) fn enter(&self, slot_id: RingSlotId, me: Owner) -> Entered<'_> {
        let Some(slot) = self.all.get(slot_id.ring as usize) else { return Entered::Stranger };
        let word = tenant(me, slot_id.thread);
        // Relaxed: only this thread stores a word that names it.
        if slot.tenant.load(Ordering::Relaxed) != word {
            return Entered::Stranger;
        }
        // Relaxed, both: as above. A handler that comes in between has left again when the thread
        // continues. One that comes before the fence of the interrupted thread needs its own.
        if slot.inside.load(Ordering::Relaxed) == word {
            barrier::light();
            return Entered::Nested;
        }
        slot.inside.store(word, Ordering::Relaxed);
        // Next it checks whether the handle is closed or the log dropped; pairs with the fence in
        // `Guestbook::wait`.
        barrier::light();
        Entered::Inside(Inside(slot))
    }

    fn occupy(&self, ring: u32, word: u64) -> Option<&RingSlot> {
        let slot = self.all.get(ring as usize)?;
        // A predecessor that has not left yet has released the ring and does not touch it any more.
        slot.inside.store(0, Ordering::Relaxed);
        slot.tenant.store(word, Ordering::Relaxed);
        Some(slot)
    }

    /// The rings that this process has as `me`.
    pub(crate) fn taken(&self, me: Owner) -> impl Iterator<Item = (u32, u64)> {
        let words = self.all.iter().map(|slot| slot.tenant.load(Ordering::Relaxed));
        (0..).zip(words).filter(move |(_, word)| tenant_owner(*word) == Some(me))
    }
}

/// The slot of a thread in the log of one handle.
#[derive(Clone, Copy)]
pub(crate) struct RingSlotId {
    /// Unique number of the handle in this process; 0 is none.
    pub(crate) log: u64,
    pub(crate) ring: u32,
    /// The thread's number in the log.
    pub(crate) thread: u32,
}

/// All ring slots of a thread; released at its end.
struct RingSlotIds(RefCell<Vec<(Weak<Inner>, RingSlotId)>>);

thread_local! {
    /// The slot used last. Has no destructor and does not need one, so a signal handler may read
    /// it.
    static LAST: Cell<RingSlotId> = const { Cell::new(RingSlotId { log: 0, ring: 0, thread: 0 }) };
    /// Only read and changed inside an operation, in which a signal handler cannot be at the same
    /// time.
    static RING_SLOTS: RingSlotIds = const { RingSlotIds(RefCell::new(Vec::new())) };
}

impl Drop for RingSlotIds {
    fn drop(&mut self) {
        for (inner, slot_id) in self.0.get_mut().drain(..) {
            if let Some(inner) = inner.upgrade() {
                inner.leave(slot_id);
            }
        }
    }
}

/// The slot that the thread used last.
#[inline]
pub(crate) fn last() -> RingSlotId {
    LAST.with(Cell::get)
}

/// The slot that the thread has in this log, among all its slots. Inside an operation.
pub(crate) fn find(inner: &Inner, me: Owner) -> Option<RingSlotId> {
    let find = |ids: &RingSlotIds| {
        let all = ids.0.borrow();
        let mine = |s: &RingSlotId| s.log == inner.number && inner.slots.has(*s, me);
        all.iter().map(|(_, slot_id)| *slot_id).find(mine)
    };
    let found = RING_SLOTS.try_with(find).ok().flatten()?;
    LAST.with(|last| last.set(found));
    Some(found)
}

/// Remembers a slot until the thread ends; false if the thread is ending. Inside an operation.
pub(crate) fn remember(inner: &Weak<Inner>, slot_id: RingSlotId) -> bool {
    let push = |ids: &RingSlotIds| {
        let mut all = ids.0.borrow_mut();
        // Removes slots of handles that are gone, and an older one of this handle, from before a
        // fork.
        all.retain(|(log, other)| log.strong_count() != 0 && other.log != slot_id.log);
        all.push((Weak::clone(inner), slot_id));
    };
    let remembered = RING_SLOTS.try_with(push).is_ok();
    if remembered {
        LAST.with(|last| last.set(slot_id));
    }
    remembered
}

impl RingSlots {
    fn has(&self, slot_id: RingSlotId, me: Owner) -> bool {
        let word = self.all.get(slot_id.ring as usize).map(|s| s.tenant.load(Ordering::Relaxed));
        word == Some(tenant(me, slot_id.thread))
    }

    /// Claims a ring for the tenant word that `make` returns once one is found: an empty ring if
    /// there is one, else the one with the most room. With `thorough`, takes over rings of the
    /// dead. `None` if there is none.
    pub(crate) fn claim(
        &self,
        space: &Space,
        layout: &Layout,
        thorough: bool,
        make: impl Fn() -> u64,
    ) -> Option<(u32, u64)> {
        let mut word = None;
        for _ in 0..layout.rings {
            let (ring, found) = choose(space, layout, thorough)?;
            let header = layout.ring(space, ring);
            let word = *word.get_or_insert_with(&make);
            // Acquire pairs with the release of the previous tenant: its stores are visible.
            // AcqRel, so that the ring is seen as taken.
            let claimed =
                header.tenant.compare_exchange(found, word, Ordering::AcqRel, Ordering::Relaxed);
            if claimed.is_ok() {
                let returned = UnwindGuard::new(|| self.release_ring(space, layout, ring, word));
                step!("log.claimed");
                returned.done();
                return Some((ring, word));
            }
        }
        None
    }

    /// Enters the state of a ring that was claimed for `word` into its slot.
    pub(crate) fn catch_up(&self, space: &Space, layout: &Layout, ring: u32, word: u64) {
        if let Some(slot) = self.occupy(ring, word) {
            Ring::new(space, layout, ring).catch_up(&slot.place);
        }
    }

    /// Releases the ring of a thread that ends, from inside its slot. The slot is left afterwards,
    /// because the thread keeps the log in place until the ring is free.
    pub(crate) fn leave(
        &self,
        space: &Space,
        layout: &Layout,
        slot_id: RingSlotId,
        inside: Inside<'_>,
        me: Owner,
    ) {
        let word = tenant(me, slot_id.thread);
        self.release_ring(space, layout, slot_id.ring, word);
        inside.leave_as(word);
    }

    /// Releases a ring.
    pub(crate) fn release_ring(&self, space: &Space, layout: &Layout, ring: u32, word: u64) {
        if let Some(slot) = self.all.get(ring as usize) {
            slot.tenant.store(0, Ordering::Relaxed);
        }
        // Release: the next tenant sees the ring in its final state.
        let tenant = &layout.ring(space, ring).tenant;
        let _ = tenant.compare_exchange(word, 0, Ordering::Release, Ordering::Relaxed);
        step!("log.returned");
    }
}

/// A ring that can be claimed, and its tenant word.
fn choose(space: &Space, layout: &Layout, thorough: bool) -> Option<(u32, u64)> {
    let mut best: Option<(u64, u32, u64)> = None;
    for number in 0..layout.rings {
        let ring = Ring::new(space, layout, number);
        let word = ring.header.tenant.load(Ordering::Acquire);
        let used = ring.extent().0.saturating_sub(ring.tail());
        if best.is_some_and(|(least, ..)| used >= least) {
            continue;
        }
        let free = match tenant_owner(word) {
            None => true,
            // This asks the system: only if nothing else is found.
            Some(owner) => thorough && participant::has_died(space, owner),
        };
        if free {
            best = Some((used, number, word));
        }
        if free && used == 0 {
            break;
        }
    }
    best.map(|(_, ring, word)| (ring, word))
}
