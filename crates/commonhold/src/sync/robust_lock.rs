//! A robust lock: one 32-bit futex word in the file, signed by its owner.
//!
//! Word: bit 31 says that somebody may be asleep on it, the other bits are the [`Owner`], 0 is
//! free. A waiter spins briefly, then asks whether the owner lives *before its first sleep*, then
//! sleeps with a timeout and asks again. A stopped owner is waited for. A dead owner's lock is never
//! stolen: its participant is recovered ([`Peers::recover`], as far as the waiter's [`Level`] allows),
//! which releases the lock. Every wait ends with the patience of the call that waits; who gives up
//! has taken nothing.
//! The futex protocol is Drepper's second mutex ("Futexes Are Tricky", 2011); because every sleep is
//! timed, a wake-up lost with a killed waiter costs a pause and never a hang.

use crate::error::{Error, ErrorKind, Result};
use crate::os::futex;
use crate::steps::fault;
use crate::sync::owner::Owner;
use crate::sync::patience::Patience;
use crate::sync::unwind::Mend;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const WAITERS: u32 = 1 << 31;
const SPINS: u32 = 256;
const SLEEP: Duration = Duration::from_millis(20);
/// So long sleeps who can step aside, before it does: who runs and holds a lock lets it go within
/// that.
const STAY: Duration = Duration::from_millis(5);
/// Between two questions about a lock that nobody seems to hold.
const MOMENT: Duration = Duration::from_micros(200);
/// A word that keeps naming a slot which this handle cannot see is reported as damage after this many
/// questions, each after a pause.
const UNSEEN_LIMIT: u32 = 50;
/// A wait ends with the error of the question whether the owner lives if the system does not answer
/// it so often, with a moment in between: the owner may have died, and nobody would learn of it.
const UNANSWERED_LIMIT: u32 = 25;
/// The same as `UNSEEN_LIMIT` for a word that names somebody who does not list the lock.
const UNLISTED_LIMIT: u32 = 25;

/// Where a lock stands in the order of locks: names < segment < directory < growth < stream. Whoever waits for a lock
/// may settle of a dead participant what stands there or behind, and nothing before: it may hold
/// locks of those itself (docs/internals/concurrency.md, "Lock order").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The waiter holds nothing: the dead one is settled as a whole and its generation ended.
    Whole,
    /// Its segments too.
    Segments,
    /// Its directory locks too.
    Directories,
    /// Its growth lock too.
    Growth,
    /// Only its locks of streams.
    Streams,
}

/// What a lock needs to know about the other participants.
pub(crate) trait Peers {
    /// The participant that takes the lock.
    fn me(&self) -> Owner;
    /// True if `owner` will never run again.
    ///
    /// # Errors
    /// Those of the system, if it cannot be asked.
    fn ask_dead(&self, owner: Owner) -> Result<bool>;
    /// The same; one that cannot be asked about counts as alive.
    fn is_dead(&self, owner: Owner) -> bool {
        self.ask_dead(owner).unwrap_or(false)
    }
    /// Whether the generation of `owner` has ended: everything it had signed was settled before.
    /// `None` if its slot may exist and cannot be seen.
    fn has_ended(&self, owner: Owner) -> Option<bool>;
    /// Settles what a dead `owner` left at `level`, or returns if somebody else is doing it. For
    /// those who live it waits a moment at most, and never beyond [`patience`](Self::patience).
    ///
    /// # Errors
    /// `TimedOut` if something of it is left, in its name, because somebody who lives holds what
    /// that needs; those of the system.
    fn recover(&self, owner: Owner, level: Level) -> Result<()>;
    /// False if no thread of the living `owner` has listed this lock, which every holder does, but such as
    /// wait for it. True for locks that are not listed.
    fn may_hold(&self, owner: Owner, word: &AtomicU32) -> bool;
    /// How long to wait for others: the same moment for all waits of one call.
    fn patience(&self) -> Patience;
    /// True if the call will undo what it has begun, and wait for the lock holding nothing, if it
    /// cannot have it soon.
    fn steps_aside(&self) -> bool {
        false
    }
    /// What the lock is, after "waited for"; and where it lies in the hold.
    fn describe(&self, _word: &AtomicU32) -> (&'static str, u64) {
        ("a lock", 0)
    }
    /// The process of a participant; for display.
    fn pid(&self, _owner: Owner) -> u32 {
        0
    }
    /// From now on this thread cannot be the holder of the lock; with `None`, it may become it.
    fn waits_for(&self, word: Option<&AtomicU32>);
}

/// Takes the lock in `word`, waiting for a living owner as long as the caller is patient.
///
/// # Errors
/// `TimedOut`, naming slot and process, and the lock too if the caller is to [step
/// aside](Peers::steps_aside); `Damaged` if the word names nobody that can exist; whatever recovery
/// reports.
#[inline]
pub(crate) fn lock(word: &AtomicU32, peers: &impl Peers, level: Level) -> Result<()> {
    in_vain(level)?;
    // Acquire pairs with the release in `unlock`; release keeps the listing of the lock, stored
    // before, from becoming visible after it; SeqCst, because a writer next asks whether the hold is
    // frozen while who freezes it asks whether the lock is free (docs/internals/concurrency.md, "Freezing").
    match word.compare_exchange(0, peers.me().bits(), Ordering::SeqCst, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(_) => lock_slowly(word, peers, level),
    }
}

/// A lock that is held. Dropping this lets it go.
#[must_use]
pub(crate) struct Held<'a>(&'a AtomicU32);

impl Held<'_> {
    /// Leaves it locked, for who lets it go by its word.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        unlock(self.0);
    }
}

/// As [`lock`], until the result is dropped.
///
/// # Errors
/// As [`lock`].
pub(crate) fn hold<'a>(word: &'a AtomicU32, peers: &impl Peers, level: Level) -> Result<Held<'a>> {
    lock(word, peers, level)?;
    Ok(Held(word))
}

/// As [`try_lock`], until the result is dropped.
pub(crate) fn try_hold(word: &AtomicU32, me: Owner) -> Option<Held<'_>> {
    // Not `then_some`: a `Held` that is made in any case would let go of the lock of somebody else.
    try_lock(word, me).then(|| Held(word))
}

/// The error of a wait for a lock, if a test has armed one: as if somebody had held it.
#[inline]
fn in_vain(level: Level) -> Result<()> {
    let waited = match level {
        Level::Whole => fault!("lock.whole"),
        Level::Segments => fault!("lock.segment"),
        Level::Directories => fault!("lock.directory"),
        Level::Growth => fault!("lock.growth"),
        Level::Streams => fault!("lock.stream"),
    };
    waited.map_err(|error| match error.kind() {
        std::io::ErrorKind::TimedOut => Error::new(ErrorKind::TimedOut, error.to_string()),
        _ => Error::os("recovering the owner of a lock", &error),
    })
}

/// Takes the lock if it is free.
#[inline]
pub(crate) fn try_lock(word: &AtomicU32, me: Owner) -> bool {
    word.compare_exchange(0, me.bits(), Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// Releases the lock and wakes a sleeper if there may be one. Only for its owner.
#[inline]
pub(crate) fn unlock(word: &AtomicU32) {
    // AcqRel: release pairs with the acquire of the next owner; acquire keeps what is stored after
    // (unlisting the lock) from becoming visible before.
    if word.swap(0, Ordering::AcqRel) & WAITERS != 0 {
        futex::wake_one(word);
    }
}

/// Who holds the lock now; for display and for recovery.
#[inline]
pub(crate) fn holder(word: &AtomicU32) -> Option<Owner> {
    Owner::from_bits(word.load(Ordering::Acquire))
}

#[cold]
fn lock_slowly(word: &AtomicU32, peers: &impl Peers, level: Level) -> Result<()> {
    let me = peers.me().bits();
    for _ in 0..SPINS {
        if word.load(Ordering::Relaxed) == 0
            && word.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        {
            return Ok(());
        }
        std::hint::spin_loop();
    }
    let mut wait = Wait::new(word, peers, level);
    loop {
        let seen = word.load(Ordering::Acquire);
        let Some(owner) = Owner::from_bits(seen) else {
            // We may leave sleepers behind: keep the flag, a spare wake-up is harmless.
            if word
                .compare_exchange(seen, me | WAITERS, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                return Ok(());
            }
            continue;
        };
        // Asking and sleeping, all but taking: two threads that wait for a lock which names their own process
        // must not each take the other for its holder.
        peers.waits_for(Some(word));
        let waits = Mend::new(|| peers.waits_for(None));
        let slept = wait.turn(seen, owner);
        drop(waits);
        slept?;
    }
}

/// Waits until the lock has been free or has changed hands since the call began, or `moved` says
/// that it is not to be waited for any more; takes nothing.
///
/// # Errors
/// As [`lock`].
#[cold]
pub(crate) fn await_release(
    word: &AtomicU32,
    peers: &impl Peers,
    level: Level,
    moved: impl Fn() -> bool,
) -> Result<()> {
    let Some(first) = holder(word) else { return Ok(()) };
    for _ in 0..SPINS {
        if holder(word) != Some(first) {
            return Ok(());
        }
        std::hint::spin_loop();
    }
    let mut wait = Wait::new(word, peers, level);
    loop {
        let seen = word.load(Ordering::Acquire);
        if Owner::from_bits(seen) != Some(first) || moved() {
            // Each release wakes one sleeper, which may be this one: the next one learns of it from
            // here.
            futex::wake_one(word);
            return Ok(());
        }
        wait.turn(seen, first)?;
    }
}

/// For who has waited otherwise for `owner` to let the lock go.
///
/// # Errors
/// `TimedOut`, as [`lock`], if the patience has ended.
pub(crate) fn ensure_patience(
    word: &AtomicU32,
    peers: &impl Peers,
    level: Level,
    owner: Owner,
) -> Result<()> {
    let wait = Wait::new(word, peers, level);
    wait.patience.shorten(MOMENT).map(drop).ok_or_else(|| wait.timed_out(owner))
}

/// One wait for one lock.
struct Wait<'a, P> {
    word: &'a AtomicU32,
    peers: &'a P,
    level: Level,
    doubts: Doubts,
    patience: Patience,
    /// Until then it stays where it is.
    stays: Patience,
}

impl<'a, P: Peers> Wait<'a, P> {
    fn new(word: &'a AtomicU32, peers: &'a P, level: Level) -> Wait<'a, P> {
        let stays = Patience::new(peers.steps_aside().then_some(STAY));
        let (doubts, patience) = (Doubts::default(), peers.patience());
        Wait { word, peers, level, doubts, patience, stays }
    }

    /// Asks whether the owner of the lock lives, and sleeps a little if it does.
    fn turn(&mut self, seen: u32, owner: Owner) -> Result<()> {
        let Some(pause) = self.doubts.ask(self.word, owner, self.peers, self.level)? else {
            return Ok(());
        };
        let Some(pause) = self.patience.shorten(pause) else {
            return Err(self.timed_out(owner));
        };
        let Some(pause) = self.stays.shorten(pause) else {
            let (_, place) = self.peers.describe(self.word);
            return Err(self.timed_out(owner).in_the_way(place));
        };
        sleep(self.word, seen, pause);
        Ok(())
    }

    fn timed_out(&self, owner: Owner) -> Error {
        let (waited, (lock, _)) = (self.patience, self.peers.describe(self.word));
        let (slot, process) = (owner.slot(), self.peers.pid(owner));
        let holder = format!("slot {slot} (process {process})");
        let text = match &self.doubts.unsettled {
            None if self.peers.is_dead(owner) => format!(
                "{waited} for {lock}, whose lock {holder} held when it died; another process \
                 settles that, which lives (stopped?); what waited for it was not done"
            ),
            None => format!(
                "{waited} for {lock}, whose lock {holder} holds; that process lives (stopped?); \
                 what waited for it was not done"
            ),
            Some(cause) => format!(
                "{waited} for {lock}, whose lock {holder} held when it died; that cannot be \
                 settled now: {cause}"
            ),
        };
        Error::new(ErrorKind::TimedOut, text)
    }
}

/// What a waiter asks about the owner of a lock, again and again.
#[derive(Default)]
struct Doubts {
    unseen: u32,
    unlisted: u32,
    /// Why what a dead owner left is not settled: somebody who lives holds what that needs.
    unsettled: Option<Error>,
}

impl Doubts {
    /// Settles what a dead owner left. If the lock is still the owner's: how long to wait before asking again.
    ///
    /// # Errors
    /// `Damaged` if nobody will ever let the lock go; whatever recovery reports; those of the system,
    /// if it does not answer whether the owner lives.
    fn ask(
        &mut self,
        word: &AtomicU32,
        owner: Owner,
        peers: &impl Peers,
        level: Level,
    ) -> Result<Option<Duration>> {
        if owner == peers.me() || !ask_dead(word, owner, peers)? {
            if peers.may_hold(owner, word) {
                self.unlisted = 0;
                return Ok(Some(SLEEP));
            }
            // A holder that comes and goes may be missed between two looks, but not so often in a row.
            self.unlisted += 1;
            let given_up = self.unlisted > UNLISTED_LIMIT;
            return if given_up { Err(never_ends(owner)) } else { Ok(Some(MOMENT)) };
        }
        match peers.recover(owner, level) {
            Err(error) if error.kind() == ErrorKind::TimedOut => self.unsettled = Some(error),
            result => result?,
        }
        let ended = peers.has_ended(owner);
        if holder(word) != Some(owner) {
            return Ok(None);
        }
        // Looked at after its generation had ended, the word contradicts the protocol. Otherwise
        // somebody else is recovering it, and may have been stopped: that is waited for.
        self.unseen += u32::from(ended.is_none());
        let given_up = ended == Some(true) || self.unseen > UNSEEN_LIMIT;
        if given_up { Err(never_ends(owner)) } else { Ok(Some(SLEEP)) }
    }
}

/// Whether the owner of the lock is dead; false, too, if the lock is not the owner's any more.
///
/// # Errors
/// Those of the system, if it does not answer.
fn ask_dead(word: &AtomicU32, owner: Owner, peers: &impl Peers) -> Result<bool> {
    for _ in 1..UNANSWERED_LIMIT {
        match peers.ask_dead(owner) {
            Ok(dead) => return Ok(dead),
            Err(_) if holder(word) != Some(owner) => return Ok(false),
            Err(_) => std::thread::sleep(MOMENT),
        }
    }
    peers.ask_dead(owner)
}

fn sleep(word: &AtomicU32, seen: u32, pause: Duration) {
    let flagged = seen | WAITERS;
    if seen == flagged
        || word.compare_exchange(seen, flagged, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        futex::wait(word, flagged, pause);
    }
}

fn never_ends(owner: Owner) -> Error {
    let text = format!(
        "a lock names slot {} generation {}, which is gone or does not hold it: the hold is damaged; run \
         'hold check', then 'hold repair --salvage'",
        owner.slot(),
        owner.generation()
    );
    Error::new(ErrorKind::Damaged, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_cannot_be_had_stays_its_owners() {
        let (owner, other) = (Owner::new(1, 1), Owner::new(2, 1));
        let word = AtomicU32::new(owner.bits());
        assert!(try_hold(&word, other).is_none());
        assert_eq!(holder(&word), Some(owner));
        drop(Held(&word));
        assert!(try_hold(&word, other).is_some());
        assert_eq!(holder(&word), None);
    }
}
