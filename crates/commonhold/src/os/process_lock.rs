//! A lock between the threads of one process, for code that must not allocate memory: handlers of
//! forks and signals.
//!
//! A thread blocks all signals before it takes the lock ([`block_signals`]); otherwise a handler of
//! its own could wait for it forever. A forked child inherits the word. If a thread of the parent
//! held the lock, it stays held by a process that never releases it, which that process's number
//! reveals. (Its pid would not: parent and child may each have pid 1, in namespaces of their own.)
//!
//! # Safety
//! Unsafe only for libc calls without effects on memory of others.
#![allow(unsafe_code)]

use super::futex;
use super::process_number::process_number;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// 0, or the number of the process that a thread locked it in.
pub(super) struct ProcessLock(AtomicU32);

impl ProcessLock {
    pub(super) const fn new() -> ProcessLock {
        ProcessLock(AtomicU32::new(0))
    }

    /// Waits for the lock and takes it. True if it was left over: this process was forked while a
    /// thread of its parent held it.
    pub(super) fn enter(&self) -> bool {
        let own = process_number();
        let mut seen = 0;
        // Acquire pairs with the Release in `leave`.
        while let Err(found) =
            self.0.compare_exchange(seen, own, Ordering::Acquire, Ordering::Relaxed)
        {
            seen = if found == own { 0 } else { found };
            if found == own {
                futex::wait(&self.0, own, Duration::from_millis(1));
            }
        }
        seen != 0
    }

    pub(super) fn leave(&self) {
        self.0.store(0, Ordering::Release);
        futex::wake_one(&self.0);
    }

    pub(super) fn is_held(&self) -> bool {
        // Acquire pairs with the Release in `leave`: what the last holder stored is visible.
        self.0.load(Ordering::Acquire) != 0
    }
}

/// Blocks every signal in the calling thread. Returns the mask of before.
pub(super) fn block_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are ours; each is initialised by a call that cannot fail.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

pub(super) fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: the set was filled by `block_signals`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}
