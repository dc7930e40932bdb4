//! The right to recover a dead participant: one recoverer at a time, granted without asking the
//! system for anything.
//!
//! A slot has a word for this. Its upper half names the participant that was found dead, its lower
//! half names the recoverer. A registered participant takes the word by compare-and-swap and *then*
//! asks once more whether the byte is free. A process without a registration (a claimant that found
//! no unused slot) takes the byte and *then* looks at the word. One of the two sees the other and
//! withdraws (docs/internals/concurrency.md, "Recovery is reincarnation").
//!
//! Invariant: a participant is found dead before its name is stored in the upper half, and death is
//! final.

use crate::error::{Error, Result};
use crate::os::byte_lock::{HeldBytes, LockKind, participant_byte};
use crate::steps::{fault, step};
use crate::sync::owner::Owner;
use crate::sync::participant::{Slot, is_dead, sees_all, slot};
use crate::sync::space::Space;
use std::sync::atomic::{AtomicU64, Ordering};

/// `dead << 32 | recoverer`: the participant that was last found dead, and the participant that
/// recovers it. A recoverer of 0 means nobody, or the holder of the byte.
#[repr(transparent)]
pub(crate) struct RecoveryWord(AtomicU64);

/// The contents of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Recorded(u64);

impl Recorded {
    fn new(dead: Owner, recoverer: Option<Owner>) -> Recorded {
        Recorded(u64::from(dead.bits()) << 32 | u64::from(recoverer.map_or(0, Owner::bits)))
    }

    fn is_of(self, dead: Owner) -> bool {
        self.0 >> 32 == u64::from(dead.bits())
    }

    /// The recoverer of `dead`, if the word names one.
    fn recoverer(self, dead: Owner) -> Option<Owner> {
        Owner::from_bits(self.0 as u32).filter(|_| self.is_of(dead))
    }
}

impl RecoveryWord {
    fn load(&self) -> Recorded {
        // Acquire pairs with the release of `swap`.
        Recorded(self.0.load(Ordering::Acquire))
    }

    /// Replaces `old` by `new`; false if the word has changed.
    fn swap(&self, old: Recorded, new: Recorded) -> bool {
        // AcqRel: a recoverer sees what its predecessor stored, and its own claim is visible before
        // it asks.
        self.0.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Like [`is_dead`], but also true while somebody recovers what `owner` left, however long that
/// takes. For callers that do not depend on the recovery. An owner whose slot this handle cannot
/// see counts as alive.
pub(crate) fn has_died(space: &Space, owner: Owner) -> bool {
    let Some(slot) = slot(space, owner.slot()) else { return sees_all(space) };
    let is_recorded = || slot.recovery.load().is_of(owner);
    // Read again after the question: a locked byte may be a claimant's, which recorded the death
    // before.
    is_recorded()
        || is_dead(space, owner)
        || is_recorded()
        || slot.user(owner.slot()) != Some(owner)
}

/// True if the slot's word names `owner` as dead.
pub(super) fn is_recorded_dead(slot: &Slot, owner: Owner) -> bool {
    slot.recovery.load().is_of(owner)
}

/// The exclusive right to act as a dead participant. Ends when it is dropped.
pub(crate) enum Recovery<'a> {
    /// Held by naming the recoverer in the slot's word.
    Named { slot: &'a Slot, dead: Owner, me: Owner },
    /// Held by locking the dead participant's byte.
    Held { _byte: HeldBytes },
}

impl Drop for Recovery<'_> {
    fn drop(&mut self) {
        if let Recovery::Named { slot, dead, me } = self {
            // Fails if somebody has claimed the slot meanwhile and died: then the word belongs to
            // another.
            slot.recovery.swap(Recorded::new(*dead, Some(*me)), Recorded::new(*dead, None));
        }
    }
}

/// Begins to act as `dead`: as the registered participant `me` or, without one, by taking its byte.
/// `None` if it is alive, already recovered, or being recovered.
///
/// # Errors
/// Without a registration, those of the system, for example no descriptors.
pub(crate) fn begin(space: &Space, dead: Owner, me: Option<Owner>) -> Result<Option<Recovery<'_>>> {
    let Some(slot) = slot(space, dead.slot()).filter(|_| sees_all(space)) else { return Ok(None) };
    fault!("recover.begin").map_err(|e| failed(space, slot, &e))?;
    let right = match me {
        Some(me) => begin_named(space, slot, dead, me),
        None => begin_held(space, slot, dead)?,
    };
    if right.is_some() {
        step!("recover.locked");
    }
    Ok(right)
}

fn begin_named<'a>(space: &Space, slot: &'a Slot, dead: Owner, me: Owner) -> Option<Recovery<'a>> {
    // Read before asking, so that what is recorded meanwhile about a later user of the slot is not
    // overwritten.
    let before = slot.recovery.load();
    // `me`: another thread of this process recovers it.
    let is_at_it = |by| by == me || !has_died(space, by);
    if before.recoverer(dead).is_some_and(is_at_it) || !is_left(space, slot, dead) {
        return None;
    }
    let recorded = Recorded::new(dead, Some(me));
    if !slot.recovery.swap(before, recorded) {
        return None;
    }
    step!("recover.named");
    // Ask again, now that a claimant that has the byte sees the word. Nobody else can end the
    // generation from here on.
    if !is_left(space, slot, dead) {
        slot.recovery.swap(recorded, before);
        return None;
    }
    Some(Recovery::Named { slot, dead, me })
}

fn begin_held<'a>(space: &Space, slot: &'a Slot, dead: Owner) -> Result<Option<Recovery<'a>>> {
    if !record_dead(space, slot, dead) {
        return Ok(None);
    }
    let bytes = [(participant_byte(dead.slot()), LockKind::Exclusive)];
    let held = HeldBytes::try_lock(space.file(), &bytes).map_err(|e| failed(space, slot, &e))?;
    // Checked while the byte is held: nobody else can begin now, or end the generation.
    let is_mine = slot.user(dead.slot()) == Some(dead) && !is_under_way(space, slot, dead);
    Ok(held.filter(|_| is_mine).map(|_byte| Recovery::Held { _byte }))
}

fn failed(space: &Space, slot: &Slot, error: &std::io::Error) -> Error {
    let path = space.file().path().display();
    let pid = slot.pid.load(Ordering::Relaxed);
    Error::os(format!("{path}: recovering the work of dead process {pid}"), error)
}

/// True if `dead` uses the slot and nobody has its byte: it has died and is not yet recovered.
fn is_left(space: &Space, slot: &Slot, dead: Owner) -> bool {
    is_dead(space, dead) && slot.user(dead.slot()) == Some(dead)
}

/// True if a living participant recovers `dead`. The caller holds its byte.
pub(crate) fn is_under_way(space: &Space, slot: &Slot, dead: Owner) -> bool {
    slot.recovery.load().recoverer(dead).is_some_and(|by| !has_died(space, by))
}

/// Records that `dead` is dead, before its byte is taken. False if it is alive, already recovered,
/// or being recovered.
pub(crate) fn record_dead(space: &Space, slot: &Slot, dead: Owner) -> bool {
    loop {
        // Read before asking, as in `begin_named`.
        let recorded = slot.recovery.load();
        let is_at_it = recorded.recoverer(dead).is_some_and(|by| !has_died(space, by));
        if is_at_it || !is_left(space, slot, dead) {
            return false;
        }
        if recorded.is_of(dead) || slot.recovery.swap(recorded, Recorded::new(dead, None)) {
            return true;
        }
    }
}
