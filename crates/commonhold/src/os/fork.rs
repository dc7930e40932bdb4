//! Forked children: detecting that the process is one, and preventing a fork during a short window.
//!
//! Invariant of [`ForkMark`]: its word is 1 in the process that made it and 0 in every process
//! forked from that one later, by `fork` or by a bare `clone` (which runs no atfork handlers),
//! because the kernel itself clears the page.
//!
//! # Safety
//! Unsafe to map and read one private page, and for libc calls that only touch memory of ours.
#![allow(unsafe_code)]

use super::file::checked;
use super::{futex, mapping, recovery_descriptors};
use crate::steps::fault;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A word that is 0 in a forked child.
pub(crate) struct ForkMark {
    word: NonNull<AtomicU32>,
}

// SAFETY: the page is private to the object, and the word in it is atomic.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    /// Makes a mark for the calling process. Needs Linux 4.14.
    pub(crate) fn new() -> io::Result<ForkMark> {
        let bytes = mapping::page_size();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let page = mapping::map_anonymous(bytes, access)?;
        let mark = ForkMark { word: page.cast() };
        fault!("os.wipe-on-fork")?;
        // SAFETY: the page was just mapped, and nothing is stored in it yet.
        checked(unsafe { libc::madvise(page.as_ptr().cast(), bytes, libc::MADV_WIPEONFORK) })?;
        // Relaxed: the way in which another thread gets the mark orders this store.
        mark.word().store(1, Ordering::Relaxed);
        Ok(mark)
    }

    /// Whether the calling process was forked after the mark was made.
    #[inline]
    pub(crate) fn inherited(&self) -> bool {
        // Relaxed: the word changes only by fork, and a fork orders everything.
        self.word().load(Ordering::Relaxed) == 0
    }

    #[inline]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page lives as long as the mark, in a forked child too.
        unsafe { self.word.as_ref() }
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        // SAFETY: our own page, and nobody borrows from it any more.
        unsafe { libc::munmap(self.word.as_ptr().cast(), mapping::page_size()) };
    }
}

/// 0, or the pid of a process with a thread that is in [`without_fork`] or forks.
static FORK_LOCK: AtomicU32 = AtomicU32::new(0);
/// Whether the handlers below are registered. Changed only under the fork lock.
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Runs `work` while no other thread of the process can call `fork`.
///
/// Otherwise a descriptor that is open only briefly could be copied into a child that another
/// thread forks in that moment. The child would then keep alive what must die with its parent. (A
/// bare `clone` in that moment is not prevented; `posix_spawn` and `vfork` children close the copy
/// when they execute.) `work` must neither allocate memory nor wait for another thread, because
/// that thread may be forking.
pub(super) fn without_fork<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    with_fork_lock(|| register().map(|()| work()))
}

/// Runs `work` while no other thread of the process is in this function or, once [`without_fork`]
/// has been called, can call `fork`. The same rules apply to `work`.
pub(super) fn with_fork_lock<T>(work: impl FnOnce() -> T) -> T {
    // A signal handler that forks while its own thread is inside would wait forever.
    let signals = block_signals();
    enter();
    let result = work();
    leave();
    restore_signals(&signals);
    result
}

extern "C" fn before() {
    enter();
    recovery_descriptors::prepare();
}

extern "C" fn in_parent() {
    // SAFETY: the thread's own.
    let error = unsafe { libc::__errno_location() };
    // SAFETY: as above. A failed fork stores its error there.
    let why = unsafe { *error };
    recovery_descriptors::went_to_child();
    leave();
    // SAFETY: as above.
    unsafe { *error = why };
}

extern "C" fn in_child() {
    recovery_descriptors::come_from_parent();
    leave();
}

fn enter() {
    // SAFETY: the call has no arguments and cannot fail.
    let own = unsafe { libc::getpid() } as u32;
    let mut seen = 0;
    // Acquire pairs with the Release in `leave`.
    while let Err(found) =
        FORK_LOCK.compare_exchange(seen, own, Ordering::Acquire, Ordering::Relaxed)
    {
        // Another pid is left over: this process was forked while a thread of its parent was
        // inside.
        seen = if found == own { 0 } else { found };
        if found == own {
            futex::wait(&FORK_LOCK, own, Duration::from_millis(1));
        }
    }
}

fn leave() {
    FORK_LOCK.store(0, Ordering::Release);
    futex::wake_one(&FORK_LOCK);
}

/// Registers the handlers that make `fork` take the fork lock. The caller holds the fork lock.
fn register() -> io::Result<()> {
    // Relaxed: changed only under the fork lock, which orders it.
    if REGISTERED.load(Ordering::Relaxed) {
        return Ok(());
    }
    fault!("os.atfork")?;
    // SAFETY: the handlers are functions without arguments that stay loaded.
    match unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) } {
        0 => REGISTERED.store(true, Ordering::Relaxed),
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    Ok(())
}

/// Blocks every signal in the calling thread. Returns the mask of before.
fn block_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are ours; each is initialised by a call that cannot fail.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: the set was filled by `block_signals`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}
