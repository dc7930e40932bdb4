//! Sleeping on a word in shared memory, and waking the sleepers.
//!
//! The words live in the hold and the sleepers in several processes, so the futexes are shared
//! ones. Every sleep has a timeout, because a waker may die between its store and its call. A
//! return does not mean anything: the caller checks its data again, and whether the other side is
//! alive.
//!
//! # Safety
//! Unsafe only to make the futex call on a word that the caller holds a reference to.
#![allow(unsafe_code)]

use crate::steps::fault;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps until woken, for at most `timeout`, unless the word differs from `expected`.
///
/// Returns for any reason at any time (woken, timed out, interrupted by a signal, another value).
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    if fault!("os.futex-wait").is_err() {
        return;
    }
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: the word and the structure outlive the call; the kernel only compares the word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &timeout as *const libc::timespec,
        );
    }
}

/// Sleeps for at most `time`; a signal ends the nap. A repeated sleep would never end while signals
/// come faster than the timer's slack, which the system adds to the rest each time: Ruby interrupts
/// its threads that way.
pub(crate) fn nap(time: Duration) {
    wait(&AtomicU32::new(0), 0, time);
}

/// Wakes one sleeper, if there is any.
pub(crate) fn wake_one(word: &AtomicU32) {
    wake(word, 1);
}

/// Wakes all sleepers.
pub(crate) fn wake_all(word: &AtomicU32) {
    wake(word, i32::MAX);
}

fn wake(word: &AtomicU32, count: i32) {
    let none = ptr::null::<libc::timespec>();
    // SAFETY: the kernel uses the address only to find the sleepers.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count, none) };
}
