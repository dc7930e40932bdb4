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
use super::process_lock::{ProcessLock, block_signals, restore_signals};
use super::{mapping, recovery_descriptors};
use crate::steps::fault;
use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

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

/// Held by a thread that is in [`without_fork`] or forks.
static FORK_LOCK: ProcessLock = ProcessLock::new();
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
    let _locked = ForkLocked::new();
    work()
}

/// The fork lock, held by a thread that receives no signals.
struct ForkLocked(libc::sigset_t);

impl ForkLocked {
    fn new() -> ForkLocked {
        // A signal handler that forks while its own thread holds the lock would wait forever.
        let signals = block_signals();
        FORK_LOCK.enter();
        ForkLocked(signals)
    }
}

impl Drop for ForkLocked {
    fn drop(&mut self) {
        FORK_LOCK.leave();
        restore_signals(&self.0);
    }
}

/// The signals that the forking thread received before it took the fork lock. Used only under that
/// lock.
static SIGNALS: ForkersSignals = ForkersSignals(UnsafeCell::new(MaybeUninit::uninit()));

struct ForkersSignals(UnsafeCell<MaybeUninit<libc::sigset_t>>);

// SAFETY: used only under the fork lock.
unsafe impl Sync for ForkersSignals {}

extern "C" fn before() {
    let signals = block_signals();
    FORK_LOCK.enter();
    // SAFETY: this thread has the fork lock.
    unsafe { (*SIGNALS.0.get()).write(signals) };
    recovery_descriptors::prepare();
}

/// Undoes what [`before`] did, in the parent and in the child.
fn after() {
    // SAFETY: this thread has the fork lock, and `before` has stored the signals.
    let signals = unsafe { (*SIGNALS.0.get()).assume_init() };
    FORK_LOCK.leave();
    restore_signals(&signals);
}

extern "C" fn in_parent() {
    // SAFETY: the thread's own.
    let error = unsafe { libc::__errno_location() };
    // SAFETY: as above. A failed fork stores its error there.
    let why = unsafe { *error };
    recovery_descriptors::went_to_child();
    after();
    // SAFETY: as above.
    unsafe { *error = why };
}

extern "C" fn in_child() {
    recovery_descriptors::come_from_parent();
    after();
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
