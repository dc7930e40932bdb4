//! The reaper: a separate process that deletes a hold's file when its last user is gone, however
//! that user ended.
//!
//! A crash runs no code, so some process must outlive it. [`spawn`] forks a process that belongs to
//! nobody, keeps nothing of its parent open, and sleeps in the kernel until it gets the exclusive
//! lock on the hold's open byte. At that point no process has the hold open. The reaper deletes the
//! file, if the name still leads to it, and ends. Several reapers of one hold do not disturb each
//! other: the later ones find the file gone.
//!
//! Invariants: between fork and exit the child only makes system calls, through one function of
//! libc that the parent has called already. (Any lock of the parent may be held forever in the
//! child, including those of the dynamic linker.) The caller holds the open byte when it calls
//! `spawn`, or the file may be deleted at once.
//!
//! The child would keep alive what it inherits by fork, so it unmaps the caller's mappings of
//! holds. It also unmaps the parent's private memory: otherwise the kernel would keep a second copy
//! of every page that the parent changes later.
//!
//! A reaper that is killed itself deletes nothing: with a whole control group or PID namespace, or
//! by hand. `hold drop` deletes such a hold.
//!
//! # Safety
//! Unsafe to fork, and in the child to unmap memory that nothing uses there: see [`Orders`].
#![allow(unsafe_code)]

use super::byte_lock::{OPEN_BYTE, lock_of};
use super::file::{c_path, checked};
use super::mapping;
use crate::steps::fault;
use std::ffi::CString;
use std::io;
use std::mem::{self, MaybeUninit};
use std::path::Path;
use std::ptr::NonNull;

/// An address range: its first byte, and the first byte after it.
type Range = (usize, usize);
/// The kernel's signal set: one bit per signal.
type SignalSet = u64;

/// All data that the child works with, in separate pages that it does not unmap.
struct Orders {
    page: NonNull<u8>,
    bytes: usize,
    path: *const libc::c_char,
    ranges: *const Range,
    count: usize,
    device: (u32, u32),
    inode: u64,
    lock: libc::flock,
}

/// Starts the reaper of the hold file at `path`, which must still be `dev` and `ino`.
///
/// `ranges` (address, length) are this process's mappings of the hold. The caller holds the open
/// byte. Safe in a process with threads. The program's `SIGCHLD` and `wait` do not notice it.
/// Returns when the reaper runs.
pub(crate) fn spawn(path: &Path, dev: u64, ino: u64, ranges: &[(usize, usize)]) -> io::Result<()> {
    // The file's own name, because deleting a symbolic link to it would not delete the file.
    fault!("reaper.path")?;
    let path = c_path(&std::fs::canonicalize(path)?)?;
    let given = ranges.iter().map(|(address, len)| (*address, address.wrapping_add(*len)));
    let mut ranges: Vec<Range> = given.collect();
    fault!("reaper.maps")?;
    if !uses_shadow_stack() {
        ranges.extend(private_memory(&std::fs::read_to_string("/proc/self/maps")?));
    }
    let orders = Orders::new(&path, dev, ino, &ranges)?;
    fault!("reaper.clone")?;
    let before = change_signals(!0)?;
    let child = clone_process();
    if child == 0 {
        middle(&orders);
    }
    let child = checked(child as libc::c_int);
    change_signals(before)?;
    await_middle(child?)
}

impl Orders {
    /// Copies everything into separate pages, leaving out ranges that the child needs.
    fn new(path: &CString, dev: u64, ino: u64, ranges: &[Range]) -> io::Result<Orders> {
        let text = path.as_bytes_with_nul();
        let room = mem::size_of_val(ranges);
        let bytes = (room + text.len()).next_multiple_of(mapping::page_size());
        let page = mapping::map_anonymous(bytes, libc::PROT_READ | libc::PROT_WRITE)?;
        let start = page.as_ptr() as usize;
        let local = 0u8;
        // SAFETY: errno always has an address.
        let errno = unsafe { libc::__errno_location() } as usize;
        let needed = [(start, start + bytes), single(&raw const local as usize), single(errno)];
        let disjoint = |range: &&Range| needed.iter().all(|n| range.1 <= n.0 || n.1 <= range.0);
        let mut count = 0;
        let list = page.as_ptr().cast::<Range>();
        for range in ranges.iter().filter(disjoint) {
            // SAFETY: there is room for all ranges, and a page is aligned for anything.
            unsafe { list.add(count).write(*range) };
            count += 1;
        }
        // SAFETY: the room behind the ranges was sized for the text.
        let copy = unsafe { page.as_ptr().add(room) };
        // SAFETY: as above; the text lies elsewhere.
        unsafe { copy.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        Ok(Orders {
            page,
            bytes,
            path: copy.cast(),
            ranges: list,
            count,
            device: (libc::major(dev), libc::minor(dev)),
            inode: ino,
            lock: lock_of(OPEN_BYTE, libc::F_WRLCK)?,
        })
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        // SAFETY: our own pages; the child has a copy.
        unsafe { libc::munmap(self.page.as_ptr().cast(), self.bytes) };
    }
}

fn single(address: usize) -> Range {
    (address, address + 1)
}

/// The private anonymous memory in a `/proc/self/maps`: heap, other threads' stacks, large objects.
/// Named mappings (the main stack, the kernel's pages) and those of files stay.
pub(super) fn private_memory(maps: &str) -> Vec<Range> {
    let range_of = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (range, access) = (fields.next()?, fields.next()?);
        let inode = fields.nth(2)?;
        let name = fields.next().unwrap_or("");
        let ours = name.is_empty() || name == "[heap]" || name.starts_with("[anon:");
        let (start, end) = range.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        // The zeroed data of a program or library lies in small mappings after its file.
        let large = end - start >= 1 << 20 || name == "[heap]";
        (access.starts_with("rw") && access.ends_with('p') && inode == "0" && ours && large)
            .then_some((start, end))
    };
    maps.lines().filter_map(range_of).collect()
}

/// Whether the processor keeps return addresses in a second stack, which looks like any memory.
fn uses_shadow_stack() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    lines.any(|line| line.starts_with("x86_Thread_features:") && line.contains("shstk"))
}

/// Sets the signals blocked in this thread, libc's own included. Returns the previous set.
fn change_signals(blocked: SignalSet) -> io::Result<SignalSet> {
    let mut before: SignalSet = 0;
    // SAFETY: both sets are ours.
    let result = unsafe {
        let (new, old) = (&raw const blocked, &raw mut before);
        let size = mem::size_of::<SignalSet>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, new, old, size)
    };
    checked(result as libc::c_int)?;
    Ok(before)
}

/// Forks without atfork handlers, and without a signal to the parent when the child ends.
#[inline(always)]
fn clone_process() -> libc::c_long {
    // SAFETY: all zero means: copy everything, continue on the same stack, no signal at the end.
    unsafe { libc::syscall(libc::SYS_clone, 0usize, 0usize, 0usize, 0usize, 0usize) }
}

/// Waits for exactly that child, which no other wait of the program can see.
fn await_middle(child: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    let mut waited = || {
        fault!("reaper.wait")?;
        // SAFETY: the status is ours.
        checked(unsafe { libc::waitpid(child, &mut status, libc::__WALL) })
    };
    super::file::uninterrupted(&mut waited)?;
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(()),
        error if libc::WIFEXITED(status) => Err(io::Error::from_raw_os_error(error)),
        _ => Err(io::Error::other("the reaper of the hold died at its start")),
    }
}

// From here on: the child. Only `raw`, no allocation, no panic, no other function of libc.

/// One system call, `None` if it failed.
macro_rules! raw {
    ($($argument:expr),+) => {{
        // SAFETY: every pointer passed below is to `Orders` or to a local variable.
        let result = unsafe { libc::syscall($($argument),+) };
        if result < 0 { None } else { Some(result) }
    }};
}

/// The intermediate child: unmaps memory that would be copied again, forks the reaper, and ends.
fn middle(orders: &Orders) -> ! {
    let mut next = 0;
    while next < orders.count {
        // SAFETY: `next` is less than the number of ranges stored.
        let (start, end) = unsafe { *orders.ranges.add(next) };
        let _ = raw!(libc::SYS_munmap, start, end.wrapping_sub(start));
        next = next.wrapping_add(1);
    }
    match clone_process() {
        0 => reap(orders),
        // SAFETY: errno always has an address, and its page is not among the ranges.
        -1 => exit(unsafe { *libc::__errno_location() }),
        _ => exit(0),
    }
}

/// The reaper itself.
fn reap(orders: &Orders) -> ! {
    detach();
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = raw!(libc::SYS_openat, libc::AT_FDCWD, orders.path, flags, 0);
    let Some(fd) = opened else { exit(1) };
    if !leads_to(orders, fd as libc::c_int, c"".as_ptr(), libc::AT_EMPTY_PATH) {
        exit(1);
    }
    let lock = &raw const orders.lock;
    while raw!(libc::SYS_fcntl, fd, libc::F_OFD_SETLKW, lock).is_none() {
        // SAFETY: errno always has an address, and its page is not among the ranges.
        if unsafe { *libc::__errno_location() } != libc::EINTR {
            exit(1);
        }
    }
    if leads_to(orders, libc::AT_FDCWD, orders.path, libc::AT_SYMLINK_NOFOLLOW) {
        let _ = raw!(libc::SYS_unlinkat, libc::AT_FDCWD, orders.path, 0);
    }
    exit(0)
}

/// The kernel's description of a signal handler: the default, no flags, an empty mask.
static DEFAULT_ACTION: [u64; 8] = [0; 8];

/// Detaches from the parent's session, directory, descriptors and signal handlers.
fn detach() {
    let name = c"hold-reaper".as_ptr();
    let _ = raw!(libc::SYS_setsid);
    let _ = raw!(libc::SYS_prctl, libc::PR_SET_NAME, name, 0, 0, 0);
    let _ = raw!(libc::SYS_chdir, c"/".as_ptr());
    if raw!(libc::SYS_close_range, 0, u32::MAX, 0).is_none() {
        // Before Linux 5.9. A process is unlikely to have more descriptors than this.
        let mut fd = 0;
        while fd < 1 << 16 {
            let _ = raw!(libc::SYS_close, fd);
            fd += 1;
        }
    }
    let default = DEFAULT_ACTION.as_ptr();
    let size = mem::size_of::<SignalSet>();
    let mut signal = 1;
    while signal <= 64 {
        let _ = raw!(libc::SYS_rt_sigaction, signal, default, 0usize, size);
        signal += 1;
    }
    let _ = raw!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, default, 0usize, size);
}

/// Whether the path, or the descriptor, is the file that the orders name.
fn leads_to(orders: &Orders, at: libc::c_int, path: *const libc::c_char, how: libc::c_int) -> bool {
    let mut found = MaybeUninit::<libc::statx>::uninit();
    let wanted = libc::STATX_INO;
    if raw!(libc::SYS_statx, at, path, how, wanted, found.as_mut_ptr()).is_none() {
        return false;
    }
    // SAFETY: the call succeeded, so it has filled the buffer.
    let found = unsafe { found.assume_init_ref() };
    (found.stx_dev_major, found.stx_dev_minor) == orders.device && found.stx_ino == orders.inode
}

fn exit(code: libc::c_int) -> ! {
    loop {
        let _ = raw!(libc::SYS_exit_group, code);
    }
}
