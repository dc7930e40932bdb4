//! Zeros in place of SIGBUS, for a page of a hold that has gone and cannot come back.
//!
//! A reader leaves no trace, so memory may be freed to the system while its reader is stopped. On
//! tmpfs the reader's touch brings the page back, unless the file system is full: then the system
//! raises SIGBUS. The handler of this module then covers the whole piece of memory (an extent) by
//! private pages of zeros, and the reader continues. It finds that the record is gone.
//!
//! A covered piece differs from the file, so nothing may rely on it once some process uses it
//! again. Three rules ensure that ([`GuardedRange`]):
//!
//! - The handler first withdraws what the handle knows to exist, and only then asks the system for
//!   the page. Every access to something that was published later asks what exists, waits for the
//!   handler, and puts the file back ([`PageGuard::act`]).
//! - What exists is raised only under the lock that the handler holds throughout.
//! - A writer that has given memory to an extent of its own checks whether a handler was at work
//!   meanwhile ([`PageGuard::is_disturbed`]). If none was, later handlers find the page.
//!
//! A page of a piece that is in use ([`IsInUse`]) cannot be missing for this reason. It was lost:
//! another program made the file shorter, or the system could not read the page. Zeros there would
//! pass for valid contents, so the handler prints a line and aborts the process.
//!
//! The handler uses only system calls and words of this process. It is installed once, when the
//! first hold in memory is opened, and passes on every signal that is not about a guarded page.
//!
//! # Safety
//! Unsafe to install and pass on a signal handler, and to replace pages within a reservation.
#![allow(unsafe_code)]

use super::fork::with_fork_lock;
use super::mapping;
use super::process_lock::{ProcessLock, block_signals, restore_signals};
use super::thread;
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// How often the page of a piece that is in use is requested. A piece that came into use after the
/// request has memory; only a thread that is stopped for long each time sees that twice.
const MOST_REQUESTS: usize = 8;

/// True if the piece at an offset is in use and must have memory. The function loads words of the
/// file by the other function, which returns `None` for a page that has gone, and 0 beyond the
/// mapping. It runs in a signal handler.
pub(crate) type IsInUse = fn(u64, &dyn Fn(u64) -> Option<u64>) -> bool;

/// A reservation of address space over a hold in memory. It stays in the list for the life of the
/// process; another hold may use it later.
struct GuardedRange {
    next: *const GuardedRange,
    taken: AtomicBool,
    /// 0 if unused.
    base: AtomicUsize,
    bytes: AtomicUsize,
    piece: AtomicUsize,
    /// How much of the file the handle knows to exist.
    exists: AtomicPtr<AtomicU64>,
    least: AtomicU64,
    /// An [`IsInUse`].
    is_in_use: AtomicPtr<()>,
    path: AtomicPtr<libc::c_char>,
    /// Held while pages are covered or put back, and while `exists` grows.
    lock: ProcessLock,
    /// True if something may be covered. Changes only under the lock.
    covered: AtomicBool,
    /// How often the file was put back over what was covered.
    put_back: AtomicU64,
}

// SAFETY: `next` never changes; everything else is atomic.
unsafe impl Sync for GuardedRange {}

static FIRST: AtomicPtr<GuardedRange> = AtomicPtr::new(ptr::null_mut());
/// Changed only under the fork lock.
static INSTALLED: AtomicBool = AtomicBool::new(false);
static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));

/// The action of the process for SIGBUS before the handler was installed.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once, before the handler that reads it is installed.
unsafe impl Sync for Previous {}

/// Guards the reservation of one handle, from [`PageGuard::new`] until it is dropped.
pub(crate) struct PageGuard(&'static GuardedRange);

/// The subject of a [`PageGuard`].
pub(crate) struct Guarded<'a> {
    /// The first byte of a mapping of a file in memory.
    pub(crate) base: *mut u8,
    /// The number of its bytes.
    pub(crate) bytes: u64,
    /// The number of bytes that are covered together.
    pub(crate) piece: u64,
    /// The number of bytes that the handle knows to exist.
    pub(crate) exists: &'a AtomicU64,
    /// The handler lowers `exists` to this.
    pub(crate) least: u64,
    /// Whether a piece must not be covered.
    pub(crate) is_in_use: IsInUse,
    /// The path of the file, for a message.
    pub(crate) path: &'a CStr,
}

impl PageGuard {
    /// Guards a mapping.
    ///
    /// # Safety
    /// The mapping, `exists` and `path` stay where they are until the guard has been dropped.
    pub(crate) unsafe fn new(of: &Guarded<'_>) -> PageGuard {
        install_once();
        let reservation = unused();
        reservation.bytes.store(of.bytes as usize, Ordering::Relaxed);
        reservation.piece.store(of.piece as usize, Ordering::Relaxed);
        reservation.exists.store(ptr::from_ref(of.exists).cast_mut(), Ordering::Relaxed);
        reservation.least.store(of.least, Ordering::Relaxed);
        reservation.is_in_use.store(of.is_in_use as *mut (), Ordering::Relaxed);
        reservation.path.store(of.path.as_ptr().cast_mut(), Ordering::Relaxed);
        reservation.covered.store(false, Ordering::Relaxed);
        // Release: whoever finds the address finds the rest.
        reservation.base.store(of.base as usize, Ordering::Release);
        PageGuard(reservation)
    }

    /// How often the file was put back until now.
    pub(crate) fn times_put_back(&self) -> u64 {
        self.0.put_back.load(Ordering::Relaxed)
    }

    /// True if a handler is at work, if something is covered, or if the file was put back more than
    /// `before` times: memory may have been requested for a cover that is gone again.
    pub(crate) fn is_disturbed(&self, before: u64) -> bool {
        // In this order: a handler covers before it releases the lock. Acquire pairs with the
        // release of `act`: a cover that is not seen any more has been counted.
        self.0.lock.is_held()
            || self.0.covered.load(Ordering::Acquire)
            || self.times_put_back() != before
    }

    /// Runs `act` while no handler is at work and nothing is covered: `put_back` first puts the
    /// file back over the whole reservation, if something is.
    ///
    /// # Errors
    /// Those of `put_back`. `act` then does not run.
    pub(crate) fn act(
        &self,
        put_back: impl FnOnce() -> io::Result<()>,
        act: impl FnOnce(),
    ) -> io::Result<()> {
        let quiet = self.0.enter();
        if self.0.covered.load(Ordering::Relaxed) {
            put_back()?;
            // Before `covered`: `is_disturbed` reads them in the other order.
            self.0.put_back.fetch_add(1, Ordering::Relaxed);
            self.0.covered.store(false, Ordering::Release);
        }
        act();
        drop(quiet);
        Ok(())
    }
}

impl Drop for PageGuard {
    fn drop(&mut self) {
        // Nobody touches the reservation any more, so no handler is at work on it.
        self.0.base.store(0, Ordering::Release);
        self.0.taken.store(false, Ordering::Release);
    }
}

/// The lock of a reservation, held by a thread that receives no signals.
struct Quiet<'a>(&'a GuardedRange, libc::sigset_t);

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        self.0.lock.leave();
        restore_signals(&self.1);
    }
}

impl GuardedRange {
    fn enter(&self) -> Quiet<'_> {
        let signals = block_signals();
        self.lock();
        Quiet(self, signals)
    }

    fn lock(&self) {
        if self.lock.enter() {
            // Nobody knows how far the parent's thread had come.
            self.covered.store(true, Ordering::Relaxed);
        }
    }

    /// The piece of the address, if it is guarded.
    fn piece_of(&self, address: usize) -> Option<(usize, usize)> {
        // Acquire pairs with the Release of the address. A thread that touches a reservation has
        // it in the list already. The entries of others may change meanwhile, but never name an
        // address of this one: ranges in use at the same time are disjoint. The second look
        // excludes a mixture of two.
        let base = self.base.load(Ordering::Acquire);
        let (bytes, piece) =
            (self.bytes.load(Ordering::Acquire), self.piece.load(Ordering::Acquire));
        let within = base != 0 && base == self.base.load(Ordering::Relaxed) && address >= base;
        let from = within.then(|| (address - base) / piece * piece).filter(|from| *from < bytes)?;
        Some((base + from, piece.min(bytes - from)))
    }

    /// Requests the page from the system.
    fn request(&self, address: usize) -> Page {
        for _ in 0..MOST_REQUESTS {
            match populate(address) {
                0 => return Page::There,
                LOST if self.is_in_use(address) => {}
                LOST => return Page::Gone,
                _ => return Page::Unknown,
            }
        }
        Page::Lost
    }

    fn is_in_use(&self, address: usize) -> bool {
        let (base, bytes) =
            (self.base.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed) as u64);
        let word = |offset: u64| match offset.checked_add(8) {
            Some(end) if end <= bytes => load(base + offset as usize),
            _ => Some(0),
        };
        let is_in_use = self.is_in_use.load(Ordering::Relaxed);
        // SAFETY: stored by `new` from a function of this type.
        let is_in_use = unsafe { std::mem::transmute::<*mut (), IsInUse>(is_in_use) };
        is_in_use((address - base) as u64, &word)
    }

    /// Makes the page readable, as it is in the file or as zeros. False if that is impossible.
    fn provide(&self, address: usize, piece: (usize, usize)) -> bool {
        self.lock();
        // SAFETY: it exists for as long as the reservation is in use, by the contract of `new`.
        let exists = unsafe { &*self.exists.load(Ordering::Relaxed) };
        exists.store(self.least.load(Ordering::Relaxed), Ordering::Relaxed);
        let page = self.request(address);
        let covered = matches!(page, Page::Gone) && {
            self.covered.store(true, Ordering::Relaxed);
            cover(piece)
        };
        self.lock.leave();
        match page {
            Page::There => true,
            Page::Gone => covered,
            Page::Unknown => false,
            // Without the lock: a handler of the program's for SIGABRT may use the hold.
            Page::Lost => self.abort(),
        }
    }

    /// Prints the reason and ends the process. Others recover its part.
    fn abort(&self) -> ! {
        const LINE: &CStr =
            c": memory that is in use has gone: another program shortened the file, \
            or the system cannot read the page; aborting\n";
        // SAFETY: it exists for as long as the reservation is in use, by the contract of `new`.
        let path = unsafe { CStr::from_ptr(self.path.load(Ordering::Relaxed)) };
        let parts = [(path, MOST_SHOWN), (LINE, usize::MAX)].map(|(part, most)| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.count_bytes().min(most),
        });
        if may_print() {
            // SAFETY: the bytes are there.
            unsafe {
                libc::writev(libc::STDERR_FILENO, parts.as_ptr(), parts.len() as libc::c_int);
            }
        }
        std::process::abort()
    }
}

/// The most bytes of a path in a message: the whole message fits into what a pipe takes at once.
const MOST_SHOWN: usize = 2048;

/// Whether standard error takes a message without waiting.
fn may_print() -> bool {
    let mut ready = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: the structure is ours.
    let is_ready = unsafe { libc::poll(&mut ready, 1, 0) == 1 } && ready.revents == libc::POLLOUT;
    is_ready && thread::has_standard_error()
}

/// The result of requesting a page.
enum Page {
    There,
    /// A touch would raise SIGBUS, and the piece is not in use.
    Gone,
    /// A touch would raise SIGBUS, and the piece is in use.
    Lost,
    /// The system cannot be asked.
    Unknown,
}

/// The error of requesting a page where a touch would raise SIGBUS.
const LOST: libc::c_int = libc::EFAULT;

/// Brings the page of the address back. Returns 0 or the error.
fn populate(address: usize) -> libc::c_int {
    let page = mapping::page_size();
    loop {
        let start = (address / page * page) as *mut libc::c_void;
        // SAFETY: the page lies in a mapping of ours, and the call changes nothing in it.
        if unsafe { libc::madvise(start, page, libc::MADV_POPULATE_READ) } == 0 {
            return 0;
        }
        match errno() {
            libc::EINTR | libc::EAGAIN => {}
            error => return error,
        }
    }
}

/// The aligned word at the address, within a mapping of ours; `None` if its page has gone.
fn load(address: usize) -> Option<u64> {
    let gone = populate(address) == LOST;
    // SAFETY: a word of the file is accessed as an atomic only. Its page is there, unless it is
    // lost at this moment; the system then ends the process.
    let word = || unsafe { &*(address as *const AtomicU64) };
    // Acquire pairs with the release of the owner that changes an extent's state.
    (!gone).then(|| word().load(Ordering::Acquire))
}

/// Replaces a piece by zeros that cannot be written.
fn cover((start, bytes): (usize, usize)) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range lies within a reservation of ours. Only readers of a record that is gone
    // still touch it, and they find memory there before and after.
    let at = unsafe { libc::mmap(start as *mut _, bytes, libc::PROT_READ, flags, -1, 0) };
    at != libc::MAP_FAILED
}

/// An entry that no handle uses.
fn unused() -> &'static GuardedRange {
    if let Some(found) = reservations().find(|r| !r.taken.swap(true, Ordering::Acquire)) {
        return found;
    }
    let mut first = FIRST.load(Ordering::Acquire);
    let fresh = Box::leak(Box::new(GuardedRange {
        next: first,
        taken: AtomicBool::new(true),
        base: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        piece: AtomicUsize::new(1),
        exists: AtomicPtr::new(ptr::null_mut()),
        least: AtomicU64::new(0),
        is_in_use: AtomicPtr::new(ptr::null_mut()),
        path: AtomicPtr::new(ptr::null_mut()),
        lock: ProcessLock::new(),
        covered: AtomicBool::new(false),
        put_back: AtomicU64::new(0),
    }));
    // Release: who finds the entry finds its contents.
    while let Err(other) =
        FIRST.compare_exchange(first, fresh, Ordering::Release, Ordering::Acquire)
    {
        (first, fresh.next) = (other, other);
    }
    fresh
}

fn reservations() -> impl Iterator<Item = &'static GuardedRange> {
    // SAFETY: entries are never freed; the acquire pairs with the release that added the first,
    // and each was complete before it was added.
    let first = unsafe { FIRST.load(Ordering::Acquire).cast_const().as_ref() };
    // SAFETY: as above.
    std::iter::successors(first, |entry| unsafe { entry.next.as_ref() })
}

/// Installs the handler, unless a handle has done so. If that fails, the process keeps what it had.
fn install_once() {
    // A child forked meanwhile takes the lock over, and finds out how far its parent had come.
    with_fork_lock(|| {
        // Relaxed: changed only under the lock. Last, because a child may find it half done.
        if !INSTALLED.load(Ordering::Relaxed) {
            install();
            INSTALLED.store(true, Ordering::Relaxed);
        }
    });
}

fn install() {
    // SAFETY: zeros are a valid value: the default action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let mut previous = action;
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: all structures are ours. No other handler interrupts this one. The previous action
    // is stored before the handler is installed that may need it.
    unsafe {
        libc::sigfillset(&mut action.sa_mask);
        let known = libc::sigaction(libc::SIGBUS, ptr::null(), &mut previous) == 0;
        if known && previous.sa_sigaction != action.sa_sigaction {
            (*PREVIOUS.0.get()).write(previous);
            libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
        }
    }
}

extern "C" fn on_bus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = errno();
    // SAFETY: the system passes a valid structure.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let ours = |entry: &'static GuardedRange| entry.piece_of(address).map(|piece| (entry, piece));
    let found = if code == libc::BUS_ADRERR { reservations().find_map(ours) } else { None };
    if !found.is_some_and(|(entry, piece)| entry.provide(address, piece)) {
        pass_on(signal, code, info, context);
    }
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() = before };
}

/// Does what the process did with the signal before the handler was installed.
fn pass_on(
    signal: libc::c_int,
    code: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: filled before the handler was installed.
    let previous = unsafe { (*PREVIOUS.0.get()).assume_init_ref() };
    let handler = previous.sa_sigaction;
    match handler {
        // Sent by a process, and ignored.
        libc::SIG_IGN if code <= 0 => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the default action ends the process: now, or when the instruction that
            // failed is repeated.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        // SAFETY: the flag says which of the two types the handler has.
        _ if previous.sa_flags & libc::SA_SIGINFO != 0 => unsafe {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
        },
        // SAFETY: as above.
        _ => unsafe {
            std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler)(signal);
        },
    }
}

fn errno() -> libc::c_int {
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() }
}
