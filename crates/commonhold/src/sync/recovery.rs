//! Who recovers a dead participant: one at a time, and without asking the system for anything.
//!
//! A slot has a word for it: the participant that was found dead in its upper half, who recovers it in its lower
//! half. A registered participant takes that word by compare-and-swap, and *then* asks once more whether the byte is
//! free. Who has no registration yet (a claimant that found no unused slot) takes the byte, and *then* looks at the
//! word. One of the two sees the other and withdraws (docs/internals/concurrency.md, "Recovery is reincarnation").
//!
//! Invariant: whatever is in the upper half was found dead before it was stored, and dead is for ever.

use crate::error::{Error, Result};
use crate::os::byte_lock::{HeldBytes, LockKind, participant_byte};
use crate::steps::{fault, step};
use crate::sync::owner::Owner;
use crate::sync::participant::{Slot, is_dead, sees_all, slot};
use crate::sync::space::Space;
use std::sync::atomic::{AtomicU64, Ordering};

/// `dead << 32 | recoverer`: who was found dead last, and the participant that recovers it; a recoverer of 0 is nobody,
/// or whoever holds the byte.
#[repr(transparent)]
pub(crate) struct RecoveryWord(AtomicU64);

/// What the word says.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Said(u64);

impl Said {
    fn new(dead: Owner, recoverer: Option<Owner>) -> Said {
        Said(u64::from(dead.bits()) << 32 | u64::from(recoverer.map_or(0, Owner::bits)))
    }

    fn is_of(self, dead: Owner) -> bool {
        self.0 >> 32 == u64::from(dead.bits())
    }

    /// Who recovers `dead`, if the word says so.
    fn recoverer(self, dead: Owner) -> Option<Owner> {
        Owner::from_bits(self.0 as u32).filter(|_| self.is_of(dead))
    }
}

impl RecoveryWord {
    fn load(&self) -> Said {
        // Acquire pairs with the release of `swap`.
        Said(self.0.load(Ordering::Acquire))
    }

    /// Puts `new` in the place of `old`; false if it says something else by now.
    fn swap(&self, old: Said, new: Said) -> bool {
        // AcqRel: a recoverer sees what its predecessor stored, and its own mark comes before its question.
        self.0.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// As [`is_dead`], also while somebody recovers what `owner` left, however long that takes. For those who need nothing
/// of it to be settled. An owner whose slot this handle cannot see counts as alive.
pub(crate) fn has_died(space: &Space, owner: Owner) -> bool {
    let Some(slot) = slot(space, owner.slot()) else { return sees_all(space) };
    let is_said = || slot.recovery.load().is_of(owner);
    // Said again behind the question: a byte that is locked may be a claimant's, who said it before.
    is_said() || is_dead(space, owner) || is_said() || slot.user(owner.slot()) != Some(owner)
}

/// The right to act as a dead participant, which nobody else has meanwhile. Ends when it is dropped.
pub(crate) enum Recovery<'a> {
    /// By the slot's word.
    Named { slot: &'a Slot, dead: Owner, me: Owner },
    /// By the dead one's byte.
    Held { _byte: HeldBytes },
}

impl Drop for Recovery<'_> {
    fn drop(&mut self) {
        if let Recovery::Named { slot, dead, me } = self {
            // Not if somebody has claimed the slot meanwhile and died: then the word is another's.
            slot.recovery.swap(Said::new(*dead, Some(*me)), Said::new(*dead, None));
        }
    }
}

/// Begins to act as `dead`, as the registered participant `me` or, without one, by taking its byte. `None` if it is not
/// dead, or settled, or if somebody is at it.
///
/// # Errors
/// For who is not registered, those of the system, no descriptors for example.
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
    // Before the questions: what is said of a later user of the slot meanwhile is not overwritten.
    let before = slot.recovery.load();
    // `me`: another thread of this process is at it.
    let is_at_it = |by| by == me || !has_died(space, by);
    if before.recoverer(dead).is_some_and(is_at_it) || !is_left(space, slot, dead) {
        return None;
    }
    let said = Said::new(dead, Some(me));
    if !slot.recovery.swap(before, said) {
        return None;
    }
    step!("recover.named");
    // Again, now that a claimant that has the byte sees the word. Nobody else ends the generation from here on.
    if !is_left(space, slot, dead) {
        slot.recovery.swap(said, before);
        return None;
    }
    Some(Recovery::Named { slot, dead, me })
}

fn begin_held<'a>(space: &Space, slot: &'a Slot, dead: Owner) -> Result<Option<Recovery<'a>>> {
    if !say_dead(space, slot, dead) {
        return Ok(None);
    }
    let bytes = [(participant_byte(dead.slot()), LockKind::Exclusive)];
    let held = HeldBytes::try_lock(space.file(), &bytes).map_err(|e| failed(space, slot, &e))?;
    // Looked at while the byte is held: nobody else begins now, or ends the generation.
    let is_mine = slot.user(dead.slot()) == Some(dead) && !is_under_way(space, slot, dead);
    Ok(held.filter(|_| is_mine).map(|_byte| Recovery::Held { _byte }))
}

fn failed(space: &Space, slot: &Slot, error: &std::io::Error) -> Error {
    let path = space.file().path().display();
    let pid = slot.pid.load(Ordering::Relaxed);
    Error::os(format!("{path}: recovering what process {pid} left when it died"), error)
}

/// True if `dead` uses the slot and nobody has its byte: it has died, and is not settled.
fn is_left(space: &Space, slot: &Slot, dead: Owner) -> bool {
    is_dead(space, dead) && slot.user(dead.slot()) == Some(dead)
}

/// True if a living participant recovers `dead`. For who holds its byte.
pub(crate) fn is_under_way(space: &Space, slot: &Slot, dead: Owner) -> bool {
    slot.recovery.load().recoverer(dead).is_some_and(|by| !has_died(space, by))
}

/// Says that `dead` is dead, before its byte is taken; false if it is not, or settled, or if somebody is at it.
pub(crate) fn say_dead(space: &Space, slot: &Slot, dead: Owner) -> bool {
    loop {
        // Before the questions, as in `begin_named`.
        let said = slot.recovery.load();
        let is_at_it = said.recoverer(dead).is_some_and(|by| !has_died(space, by));
        if is_at_it || !is_left(space, slot, dead) {
            return false;
        }
        if said.is_of(dead) || slot.recovery.swap(said, Said::new(dead, None)) {
            return true;
        }
    }
}
