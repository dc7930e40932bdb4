//! Values that any thread may use, but only one at a time.
//!
//! A lock that is reserved for the thread that used it first: as long as no other one does, it
//! stores and loads two words, and needs no instruction that locks the bus (Kawachiya, Koseki,
//! Onodera: Lock Reservation, OOPSLA 2002; with an asymmetric fence). The first other thread ends
//! that for good: it says so, has all threads fence ([`barrier::heavy`]), and from then on all go
//! by a second word. No thread waits: one that comes in between gets `Busy`.
//!
//! | store, fence, look | partner |
//! |---|---|
//! | `reserved`, [`barrier::light`], `owner` | `owner`, [`barrier::heavy`], `reserved` |
//! | `owner` SHARED, release, after the fence | `owner`, acquire, of who goes by the second word without a fence |
//! | `reserved` or `shared` false, release, when the guard goes | both, acquire, of who goes by the second word |
//!
//! The owner may store `reserved` once more when it is no longer the owner, because it did not know
//! yet; it then takes that back. No other thread stores it, so the worst case is a spurious `Busy`.
//!
//! # Safety
//! The value is reached through a guard alone, and there is one guard at a time. The owner's is
//! made after its word was true while it was the owner; another's after the second word was taken
//! by swapping and the owner's was seen false, when it was no longer the owner.
#![allow(unsafe_code)]

use commonhold::raw::barrier;
use commonhold::{Error, ErrorKind, Result};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// See the module.
pub(crate) struct Alone<T> {
    /// A thread, or one of the next three.
    owner: AtomicUsize,
    /// The owner uses it.
    reserved: AtomicBool,
    /// A thread uses it, and there is no owner any more.
    shared: AtomicBool,
    value: UnsafeCell<T>,
}

const NOBODY: usize = 0;
/// There is no owner any more, but not all threads have fenced since.
const ENDING: usize = 1;
const SHARED: usize = 2;

// SAFETY: see the module: no two threads reach the value at the same time.
unsafe impl<T: Send> Sync for Alone<T> {}

/// The calling thread, unique among live threads: the address of the C library's record of it.
#[inline]
fn me() -> usize {
    // SAFETY: it reads a register.
    unsafe { libc::pthread_self() as usize }
}

impl<T> Alone<T> {
    pub(crate) fn new(value: T) -> Alone<T> {
        let [reserved, shared] = [const { AtomicBool::new(false) }; 2];
        Alone { owner: AtomicUsize::new(NOBODY), reserved, shared, value: UnsafeCell::new(value) }
    }

    /// # Errors
    /// `Busy` if another thread is just using it, or a callback of this one.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Result<Guard<'_, T>> {
        let me = me();
        // Relaxed: only this thread stores itself.
        if self.owner.load(Ordering::Relaxed) == me {
            self.lock_reserved(me)
        } else {
            self.lock_other(me)
        }
    }

    #[inline(always)]
    fn lock_reserved(&self, me: usize) -> Result<Guard<'_, T>> {
        // Relaxed: only this thread stores it.
        if self.reserved.load(Ordering::Relaxed) {
            return Err(busy());
        }
        self.reserved.store(true, Ordering::Relaxed);
        // Pairs with the heavy one of `end_reservation`.
        barrier::light();
        if self.owner.load(Ordering::Relaxed) == me {
            return Ok(Guard { value: &self.value, word: &self.reserved });
        }
        self.reserved.store(false, Ordering::Release);
        self.lock_shared()
    }

    #[cold]
    fn lock_other(&self, me: usize) -> Result<Guard<'_, T>> {
        // Relaxed: no thread has used it yet.
        let first =
            self.owner.compare_exchange(NOBODY, me, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if first { self.lock_reserved(me) } else { self.lock_shared() }
    }

    fn lock_shared(&self) -> Result<Guard<'_, T>> {
        // Acquire pairs with the release of who has fenced.
        if self.owner.load(Ordering::Acquire) != SHARED {
            self.end_reservation();
        }
        // Acquire, of both, pairs with the release of the guard that was.
        if self.shared.swap(true, Ordering::Acquire) {
            return Err(busy());
        }
        let guard = Guard { value: &self.value, word: &self.shared };
        if self.reserved.load(Ordering::Acquire) { Err(busy()) } else { Ok(guard) }
    }

    /// Several threads may do that at a time.
    #[cold]
    fn end_reservation(&self) {
        self.owner.store(ENDING, Ordering::Relaxed);
        // A system that refuses it refused it when this process registered, too: then both fence
        // themselves.
        barrier::heavy();
        self.owner.store(SHARED, Ordering::Release);
    }
}

#[cold]
fn busy() -> Error {
    let text = "another thread is using this handle; use it in one thread at a time";
    Error::new(ErrorKind::Busy, text)
}

/// The kind of access.
pub(crate) struct Guard<'a, T> {
    value: &'a UnsafeCell<T>,
    word: &'a AtomicBool,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: see the module.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: see the module.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.word.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonhold::Hold;
    use std::sync::{Barrier, Mutex};
    use std::thread;

    /// A process that has a hold is reached by the fences of others, and needs none of its own.
    fn hold(name: &str) -> Hold {
        let path = std::env::temp_dir().join(format!("{name}-{}.hold", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let hold = Hold::create(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        hold
    }

    #[test]
    fn a_callback_does_not_get_it_once_more() {
        let alone = Alone::new(1);
        let guard = alone.lock().unwrap();
        assert_eq!(alone.lock().err().unwrap().kind(), ErrorKind::Busy);
        drop(guard);
        assert_eq!(*alone.lock().unwrap(), 1);
    }

    #[test]
    fn threads_that_take_turns_always_get_it() {
        let (_hold, alone) = (hold("turns"), Alone::new(0));
        let turn = Mutex::new(());
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let _turn = turn.lock().unwrap();
                        *alone.lock().expect("no other thread has it") += 1;
                    }
                });
            }
        });
        assert_eq!(*alone.lock().unwrap(), 60_000);
    }

    /// The first thread keeps it reserved for a while; then others come, at another moment each
    /// time.
    #[test]
    fn threads_that_do_not_never_have_it_together() {
        let _hold = hold("hammer");
        for round in 0..300 {
            let alone = Alone::new([0, 0]);
            let begin = Barrier::new(3);
            let hammer = |late: u32| {
                let mut got = 0;
                begin.wait();
                for _ in 0..late {
                    std::hint::spin_loop();
                }
                for _ in 0..2_000 {
                    let Ok(mut both) = alone.lock() else { continue };
                    both[0] += 1;
                    std::hint::black_box(&mut *both);
                    both[1] += 1;
                    got += 1;
                }
                got
            };
            let got: u64 = thread::scope(|scope| {
                let others = [round, round * 3].map(|late| {
                    let hammer = &hammer;
                    scope.spawn(move || hammer(late))
                });
                let own = hammer(0);
                own + others.into_iter().map(|other| other.join().unwrap()).sum::<u64>()
            });
            assert_eq!(*alone.lock().unwrap(), [got; 2]);
        }
    }
}
