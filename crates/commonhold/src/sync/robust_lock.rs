//! A robust lock: one 32-bit futex word in the file that names its owner.
//!
//! Bit 31 of the word means that somebody may be asleep on it. The other bits are the [`Owner`]; 0
//! is free. A waiter spins briefly and asks whether the owner is alive *before its first sleep*.
//! Then it sleeps with a timeout and asks again. It waits for a stopped owner. It never steals the
//! lock of a dead owner: it recovers that participant ([`Peers::recover`], as far as the waiter's
//! [`Level`] allows), which releases the lock. Every wait ends with the patience of the waiting
//! call, and a call that runs out of patience has taken nothing. The futex protocol is Drepper's
//! second mutex ("Futexes Are Tricky", 2011). Because every sleep has a timeout, a wake-up that is
//! lost with a killed waiter costs a pause and never a hang.

use crate::error::{Error, ErrorKind, Result};
use crate::os::futex;
use crate::steps::fault;
use crate::sync::owner::Owner;
use crate::sync::patience::Patience;
use crate::sync::unwind::UnwindGuard;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const WAITERS: u32 = 1 << 31;
const SPINS: u32 = 256;
const SLEEP: Duration = Duration::from_millis(20);
/// How long a call that can step aside sleeps before it does so. A running holder of a lock
/// releases it within this time.
const STAY: Duration = Duration::from_millis(5);
/// Pause between two questions about a lock that nobody seems to hold.
const MOMENT: Duration = Duration::from_micros(200);
/// A word that keeps naming a slot which this handle cannot see is reported as damage after this
/// many questions, each followed by a pause.
const UNSEEN_LIMIT: u32 = 50;
/// Number of times the system may fail to answer whether the owner is alive, with a pause after
/// each. Then the wait ends with the system's error: the owner may have died, and nobody would
/// notice.
const UNANSWERED_LIMIT: u32 = 25;
/// Like `UNSEEN_LIMIT`, for a word that names a participant which does not list the lock.
const UNLISTED_LIMIT: u32 = 25;

/// Position of a lock in the order of locks: names < segment < directory < growth < stream. A
/// waiter may recover those parts of a dead participant that are at the position of its lock or
/// later. It must not recover earlier parts, because it may hold such locks itself
/// (docs/internals/concurrency.md, "Lock order").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The waiter holds nothing: it recovers the dead participant as a whole and ends its
    /// generation.
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

/// The questions of a lock about the other participants.
pub(crate) trait Peers {
    /// The participant that takes the lock.
    fn me(&self) -> Owner;
    /// True if `owner` will never run again.
    ///
    /// # Errors
    /// Those of the system, if it cannot answer.
    fn ask_dead(&self, owner: Owner) -> Result<bool>;
    /// The same. An owner counts as alive if the system cannot answer.
    fn is_dead(&self, owner: Owner) -> bool {
        self.ask_dead(owner).unwrap_or(false)
    }
    /// Whether the generation of `owner` has ended; everything that named it was recovered before
    /// that. `None` if its slot may exist and is not visible.
    fn has_ended(&self, owner: Owner) -> Option<bool>;
    /// Recovers what a dead `owner` left at `level`, or returns if somebody else does so. It waits
    /// at most a moment for living participants, and never beyond [`patience`](Self::patience).
    ///
    /// # Errors
    /// `TimedOut` if something is left in the name of `owner`, because a living participant holds
    /// what its recovery needs; those of the system.
    fn recover(&self, owner: Owner, level: Level) -> Result<()>;
    /// False if no thread of the living `owner` has listed this lock, apart from threads that wait
    /// for it. Every holder lists it. True for locks that are not listed.
    fn may_hold(&self, owner: Owner, word: &AtomicU32) -> bool;
    /// How long to wait for others: the same end for all waits of one call.
    fn patience(&self) -> Patience;
    /// True if the call rolls back what it has begun when it cannot have the lock soon, and waits
    /// for the lock while it holds nothing.
    fn steps_aside(&self) -> bool {
        false
    }
    /// The description of the lock that follows "waited for", and its offset in the hold.
    fn describe(&self, _word: &AtomicU32) -> (&'static str, u64) {
        ("a lock", 0)
    }
    /// The process of a participant; for display.
    fn pid(&self, _owner: Owner) -> u32 {
        0
    }
    /// From now on this thread cannot be the holder of the lock. With `None`, it may become its
    /// holder.
    fn waits_for(&self, word: Option<&AtomicU32>);
}

/// Takes the lock in `word`. Waits for a living owner within the caller's patience.
///
/// # Errors
/// `TimedOut`, naming slot and process, and the lock too if the caller is to [step
/// aside](Peers::steps_aside); `Damaged` if the word names a participant that cannot exist; the
/// errors of recovery.
#[inline]
pub(crate) fn lock(word: &AtomicU32, peers: &impl Peers, level: Level) -> Result<()> {
    in_vain(level)?;
    // Acquire pairs with the release in `unlock`. Release keeps the listing of the lock, stored
    // before, from becoming visible after it. SeqCst, because a writer next asks whether the hold
    // is frozen, while the process that freezes it asks whether the lock is free
    // (docs/internals/concurrency.md, "Freezing").
    match word.compare_exchange(0, peers.me().bits(), Ordering::SeqCst, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(_) => lock_slowly(word, peers, level),
    }
}

/// A held lock. Dropping this releases it.
#[must_use]
pub(crate) struct Held<'a>(&'a AtomicU32);

impl Held<'_> {
    /// Leaves the lock held; another part of the code releases it by its word.
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
    // Not `then_some`: it would create a `Held` in any case, whose drop would release another
    // participant's lock.
    try_lock(word, me).then(|| Held(word))
}

/// The error of waiting for a lock, if a test has armed one: as if somebody had held it.
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

/// Releases the lock and wakes a sleeper if there may be one. Only the owner may call this.
#[inline]
pub(crate) fn unlock(word: &AtomicU32) {
    // AcqRel: release pairs with the acquire of the next owner; acquire keeps the later store that
    // unlists the lock from becoming visible before.
    if word.swap(0, Ordering::AcqRel) & WAITERS != 0 {
        futex::wake_one(word);
    }
}

/// Releases the lock if `owner` holds it. Two threads may do so at once: one that ends a freeze,
/// and one that closes the handle. As soon as one of them has released the lock, another owner may
/// take it.
pub(crate) fn unlock_of(word: &AtomicU32, owner: Owner) {
    let free = |now| (Owner::from_bits(now) == Some(owner)).then_some(0);
    // As in `unlock`.
    let released = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, free);
    if released.is_ok_and(|before| before & WAITERS != 0) {
        futex::wake_one(word);
    }
}

/// The current holder of the lock. For display and for recovery.
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
            // Some sleepers may remain: keep the flag. A spare wake-up is harmless.
            if word
                .compare_exchange(seen, me | WAITERS, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                return Ok(());
            }
            continue;
        };
        // This holds while asking and sleeping, but not while taking. Two threads that wait for a
        // lock which names their own process must not take each other for its holder.
        peers.waits_for(Some(word));
        let waits = UnwindGuard::new(|| peers.waits_for(None));
        let slept = wait.turn(seen, owner);
        drop(waits);
        slept?;
    }
}

/// Waits until the lock has been free or has changed hands since the call began, or until `moved`
/// returns true because the wait is pointless by now. Takes nothing.
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
            // Each release wakes one sleeper, which may be this one. Pass the wake-up on to the
            // next one.
            futex::wake_one(word);
            return Ok(());
        }
        wait.turn(seen, first)?;
    }
}

/// For a caller that has waited by other means for `owner` to release the lock.
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
    /// Until this moment the waiter stays where it is.
    stays: Patience,
}

impl<'a, P: Peers> Wait<'a, P> {
    fn new(word: &'a AtomicU32, peers: &'a P, level: Level) -> Wait<'a, P> {
        let stays = Patience::new(peers.steps_aside().then_some(STAY));
        let (doubts, patience) = (Doubts::default(), peers.patience());
        Wait { word, peers, level, doubts, patience, stays }
    }

    /// Asks whether the owner of the lock is alive, and sleeps a little if it is.
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
        let text = match &self.doubts.unrecovered {
            None if self.peers.is_dead(owner) => format!(
                "{waited} for {lock}: {holder} held its lock and died, and another process, which \
                 lives (stopped?), recovers it; the operation was not done"
            ),
            None => format!(
                "{waited} for {lock}: {holder} holds its lock and lives (stopped?); the operation \
                 was not done"
            ),
            Some(cause) => format!(
                "{waited} for {lock}: {holder} held its lock and died, and recovery fails now: \
                 {cause}"
            ),
        };
        Error::new(ErrorKind::TimedOut, text)
    }
}

/// The questions that a waiter repeats about the owner of a lock.
#[derive(Default)]
struct Doubts {
    unseen: u32,
    unlisted: u32,
    /// Why a dead owner could not be recovered: a living participant holds what its recovery needs.
    unrecovered: Option<Error>,
}

impl Doubts {
    /// Recovers what a dead owner left. If the lock is still the owner's, returns how long to wait
    /// before asking again.
    ///
    /// # Errors
    /// `Damaged` if nobody will ever release the lock; the errors of recovery; those of the system,
    /// if it does not answer whether the owner is alive.
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
            // A waiter may miss a holder that comes and goes between two looks, but not this often
            // in a row.
            self.unlisted += 1;
            let is_over = self.unlisted > UNLISTED_LIMIT;
            return if is_over { Err(never_ends(owner)) } else { Ok(Some(MOMENT)) };
        }
        match peers.recover(owner, level) {
            Err(error) if error.kind() == ErrorKind::TimedOut => self.unrecovered = Some(error),
            result => result?,
        }
        let ended = peers.has_ended(owner);
        if holder(word) != Some(owner) {
            return Ok(None);
        }
        // Read after its generation had ended, the word contradicts the protocol. Otherwise
        // somebody else is recovering it and may have been stopped: wait for that.
        self.unseen += u32::from(ended.is_none());
        let is_over = ended == Some(true) || self.unseen > UNSEEN_LIMIT;
        if is_over { Err(never_ends(owner)) } else { Ok(Some(SLEEP)) }
    }
}

/// Whether the owner of the lock is dead. Also false if the lock is no longer the owner's.
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
        "a lock names slot {} generation {}, which is gone or does not hold it: the hold is \
         damaged; run 'hold check', then 'hold repair --salvage'",
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
