//! Waiting for an event in the hold, and waking the waiters (protocol 7).
//!
//! The futex word is a *counter* that only the waking side changes. A second word, the flag,
//! records that somebody waits. A waiter reads the counter, sets the flag, executes a full fence
//! and looks at the data again. A waker releases the data, executes a full fence and looks at the
//! flag. One of the two sees the other. The waiter is about to sleep, so it pays for both fences
//! ([`barrier`]). The waker clears the flag, moves the counter and then wakes all waiters, so a
//! waiter that arrives in between is not forgotten. The flag of a dead waiter costs one spare wake.
//! Every sleep has a timeout, because a waker may die before it wakes.

use crate::error::Result;
use crate::os::{barrier, futex};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Number of times a waiter looks at the data before its first sleep.
const SPINS: u32 = 200;
/// Length of the first sleep, and of the longest. Each sleep is twice as long as the one before.
const FIRST_SLEEP: Duration = Duration::from_millis(10);
const LONGEST_SLEEP: Duration = Duration::from_millis(160);
/// Length of a sleep that nobody may be able to end, because the system refused the fence.
const BLIND_SLEEP: Duration = Duration::from_millis(1);

/// Two words in the hold.
#[repr(C)]
pub(crate) struct Event {
    /// The futex word: counts wakes.
    count: AtomicU32,
    /// 1 if somebody may be asleep.
    waiting: AtomicU32,
}

/// The reason why a waiter looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The waiter is spinning, or it was woken.
    Data,
    /// A sleep timed out: also check that the other side is alive.
    Doubt,
}

impl Event {
    /// Wakes all waiters, if there are any. The caller has stored the data already. Called once per
    /// batch.
    #[inline]
    pub(crate) fn wake(&self) {
        // The data before the look at the flag; pairs with the fence of a waiter.
        barrier::light();
        // Relaxed: ordered by the fence.
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.wake_all();
        }
    }

    /// True if somebody waits, or waited and died. For display.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Wakes all waiters, whatever the flag contains. For a participant that takes over from a dead
    /// waker.
    #[cold]
    pub(crate) fn wake_all(&self) {
        // Relaxed: the release on the counter keeps this store before it.
        self.waiting.store(0, Ordering::Relaxed);
        // Release: a thread that reads the new count sees the data. Pairs with the acquire in
        // `wait`.
        self.count.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.count);
    }

    /// Ends the sleep of every waiter without any other effect. A waiter that is about to sleep may
    /// still sleep.
    #[cold]
    pub(crate) fn rouse(&self) {
        futex::wake_all(&self.count);
    }

    /// Waits until `look` finds something, but not beyond `deadline`. Returns `None` when the
    /// deadline passes.
    ///
    /// Every access to the hold happens while the value that `enter` returned is alive. That value
    /// is an operation: it keeps the event's memory from being used for something else. It is
    /// dropped before each sleep. `look` is called at least once.
    ///
    /// # Errors
    /// Those of `enter` and `look`, which end the wait.
    pub(crate) fn wait<G, T>(
        &self,
        deadline: Option<Instant>,
        enter: impl Fn() -> Result<G>,
        mut look: impl FnMut(&G, Look) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        for _ in 0..SPINS {
            if let Some(found) = look(&enter()?, Look::Data)? {
                return Ok(Some(found));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
            std::hint::spin_loop();
        }
        let (mut pause, mut before) = (FIRST_SLEEP, None);
        loop {
            let inside = enter()?;
            let seen = self.count.load(Ordering::Acquire);
            // No waker ended the sleep: check more.
            let asked = if before == Some(seen) { Look::Doubt } else { Look::Data };
            pause = if asked == Look::Doubt { LONGEST_SLEEP.min(pause * 2) } else { FIRST_SLEEP };
            before = Some(seen);
            // Relaxed: ordered by the fence.
            self.waiting.store(1, Ordering::Relaxed);
            // The flag is stored before the look at the data. Pairs with the fence of a waker.
            let longest = if barrier::heavy() { LONGEST_SLEEP } else { BLIND_SLEEP };
            if let Some(found) = look(&inside, asked)? {
                return Ok(Some(found));
            }
            drop(inside);
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            futex::wait(&self.count, seen, left.map_or(pause, |left| left.min(pause)).min(longest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn event() -> Event {
        Event { count: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    #[test]
    fn every_message_finds_a_waiter() {
        let (event, sent, taken) = (event(), AtomicU64::new(0), AtomicU64::new(0));
        let take = |(): &(), _| {
            let one = |n: u64| n.checked_sub(1);
            Ok(sent.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one).ok())
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        assert!(event.wait(None, || Ok(()), take).unwrap().is_some());
                        taken.fetch_add(1, Ordering::AcqRel);
                    }
                });
            }
            for round in 0..6000 {
                sent.fetch_add(1, Ordering::Release);
                event.wake();
                if round % 100 == 0 {
                    std::thread::yield_now();
                }
            }
        });
        assert_eq!(taken.load(Ordering::Acquire), 6000);
    }

    #[test]
    fn a_deadline_ends_the_waiting_and_doubt_comes_before_it() {
        let event = event();
        let mut doubts = 0;
        let deadline = Instant::now() + Duration::from_millis(100);
        let found = event.wait(
            Some(deadline),
            || Ok(()),
            |(), look| {
                doubts += u32::from(look == Look::Doubt);
                Ok(None::<()>)
            },
        );
        assert_eq!(found.unwrap(), None);
        assert!(Instant::now() >= deadline && doubts > 0);
    }

    #[test]
    fn an_error_ends_the_waiting() {
        use crate::error::{Error, ErrorKind};
        let found = event().wait(
            None,
            || Ok(()),
            |(), _| Err::<Option<()>, _>(Error::new(ErrorKind::Closed, "it")),
        );
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Closed);
    }
}
