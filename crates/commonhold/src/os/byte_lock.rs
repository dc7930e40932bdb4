//! Locks on bytes beyond the data, which the kernel drops when their process dies.
//!
//! A held lock is the sign of life of a participant, so it must last exactly as long as the
//! process. It must not end earlier, although the program closes descriptors that it does not know.
//! It must not last longer, although the program forks children that live on. Invariant: one
//! `PROT_NONE` page keeps a lock. The page is mapped from an open file description that has no
//! descriptor any more. Closing descriptors does not affect the page, and `MADV_DONTFORK` keeps it
//! out of children. The kernel unmaps it at death, however the process dies and in whatever PID
//! namespace.
//!
//! Queries go through the description of the [`HoldFile`], which never holds a lock: a description
//! does not see its own locks. This way a process sees its own locks too.
//!
//! # Safety
//! Unsafe to map and unmap one page of our own, and for lock calls on a structure of our own.
#![allow(unsafe_code)]

use super::file::{HoldFile, checked};
use super::fork::{self, ForkMark};
use super::mapping;
use crate::steps::fault;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{self, NonNull};

/// Every opener locks it shared; a process that must be alone locks it exclusively.
pub(crate) const OPEN_BYTE: u64 = 1 << 62;

/// Locked exclusively by the one process, of several that share the open byte, that removes the
/// hold's name.
pub(crate) const NAME_BYTE: u64 = OPEN_BYTE - 1;

/// The byte whose exclusive lock is the life of the participant in `slot`.
pub(crate) fn participant_byte(slot: u32) -> u64 {
    OPEN_BYTE + 1 + u64::from(slot)
}

/// How a byte is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    /// By one holder alone. Needs a file open for writing.
    Exclusive,
    /// By any number of holders.
    Shared,
}

/// Bytes that this process has locked, until this is dropped or the process dies. A forked child
/// does not have them.
pub(crate) struct HeldBytes {
    page: NonNull<u8>,
    mark: ForkMark,
}

// SAFETY: the object owns its page, which nobody ever reads or writes.
unsafe impl Send for HeldBytes {}
// SAFETY: as above.
unsafe impl Sync for HeldBytes {}

impl HeldBytes {
    /// Locks all of `bytes`, or none. `None` if somebody has locked one of them in a conflicting
    /// mode.
    pub(crate) fn try_lock(
        file: &HoldFile,
        bytes: &[(u64, LockKind)],
    ) -> io::Result<Option<HeldBytes>> {
        if !file.writable() && bytes.iter().any(|(_, kind)| *kind == LockKind::Exclusive) {
            return Err(cannot_write(file));
        }
        let mark = ForkMark::new()?;
        let page = fork::without_fork(|| lock_and_keep(file, bytes))?;
        let page = page.map_err(|error| file.explain(error))?;
        Ok(page.map(|page| HeldBytes { page, mark }))
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        // A forked child never had the page; something else may live at its address there.
        if !self.mark.inherited() {
            // SAFETY: our own page. Unmapping it ends the description, which ends the locks.
            unsafe { libc::munmap(self.page.as_ptr().cast(), mapping::page_size()) };
        }
    }
}

/// Whether anybody, this process included, holds `byte` exclusively.
pub(crate) fn is_locked(file: &HoldFile, byte: u64) -> io::Result<bool> {
    conflicts(file, byte, libc::F_RDLCK)
}

/// Whether anybody, this process included, has the hold open.
pub(crate) fn in_use(file: &HoldFile) -> io::Result<bool> {
    conflicts(file, OPEN_BYTE, libc::F_WRLCK)
}

/// Locks through a new description, or through the reserved one when none can be opened. Returns
/// the page that keeps the description. Allocates no memory.
fn lock_and_keep(file: &HoldFile, bytes: &[(u64, LockKind)]) -> io::Result<Option<NonNull<u8>>> {
    file.close_left();
    let (description, is_fresh) = match file.open_description() {
        Ok(fresh) => (fresh, true),
        Err(error) => (file.take_kept().ok_or(error)?, false),
    };
    let fd = description.as_raw_fd();
    let page = match lock_all(fd, bytes) {
        Ok(true) => map_private_to_process(fd).map(Some),
        Ok(false) => Ok(None),
        Err(error) => Err(error),
    };
    if !is_fresh && !matches!(page, Ok(Some(_))) {
        // It may be the only description that there will ever be.
        let stays = |byte: u64| byte == OPEN_BYTE && file.counts_children();
        bytes.iter().filter(|(byte, _)| !stays(*byte)).for_each(|(byte, _)| unlock(fd, *byte));
        file.put_back(description);
    }
    page
}

/// False if somebody has locked one of the bytes in a conflicting mode. Some are locked then;
/// closing the description unlocks them.
fn lock_all(fd: RawFd, bytes: &[(u64, LockKind)]) -> io::Result<bool> {
    for (byte, kind) in bytes {
        let kind = match kind {
            LockKind::Exclusive => libc::F_WRLCK,
            LockKind::Shared => libc::F_RDLCK,
        };
        let lock = lock_of(*byte, kind)?;
        let asked = fault!("os.lock");
        match asked.and_then(|()| ask(fd, libc::F_OFD_SETLK, lock)) {
            Ok(_) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn unlock(fd: RawFd, byte: u64) {
    // Unlocking a byte that is not locked has no effect, and no other error is possible.
    let _ = lock_of(byte, libc::F_UNLCK).and_then(|lock| ask(fd, libc::F_OFD_SETLK, lock));
}

/// Locks the open byte for the process that will have the description alone. If somebody has the
/// hold alone, that process gets the byte with its slot. Allocates no memory.
pub(super) fn share_open_byte(fd: RawFd) {
    let _ = lock_all(fd, &[(OPEN_BYTE, LockKind::Shared)]);
}

/// Maps one page that keeps the description alive in this process and in no child.
fn map_private_to_process(fd: RawFd) -> io::Result<NonNull<u8>> {
    fault!("os.keep-lock")?;
    let bytes = mapping::page_size();
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let address =
        unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, libc::MAP_SHARED, fd, 0) };
    let page = mapping::mapped(address)?;
    let kept_out = fault!("os.dont-fork").and_then(|()| {
        // SAFETY: the page was just mapped.
        checked(unsafe { libc::madvise(address, bytes, libc::MADV_DONTFORK) })
    });
    if let Err(error) = kept_out {
        // SAFETY: as above, and nobody knows it yet.
        unsafe { libc::munmap(address, bytes) };
        return Err(error);
    }
    Ok(page)
}

/// Whether a lock of `kind` on `byte` would conflict with another lock.
fn conflicts(file: &HoldFile, byte: u64, kind: libc::c_int) -> io::Result<bool> {
    loop {
        let fd = file.fd()?;
        let lock = lock_of(byte, kind)?;
        fault!("os.lock-question")?;
        let found = ask(*fd, libc::F_OFD_GETLK, lock)?;
        if libc::c_int::from(found.l_type) != libc::F_UNLCK {
            return Ok(true);
        }
        // The answer "nobody" means that the owner is dead. It must not come from another file that
        // another thread of the program has just opened under this number.
        if file.is_ours(*fd) {
            return Ok(false);
        }
    }
}

fn ask(fd: RawFd, command: libc::c_int, mut lock: libc::flock) -> io::Result<libc::flock> {
    // SAFETY: the structure is ours.
    checked(unsafe { libc::fcntl(fd, command, &mut lock) })?;
    Ok(lock)
}

/// The kernel's description of a lock of `kind` on one byte.
pub(super) fn lock_of(byte: u64, kind: libc::c_int) -> io::Result<libc::flock> {
    let start = libc::off_t::try_from(byte);
    Ok(libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start.map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        l_len: 1,
        l_pid: 0,
    })
}

fn cannot_write(file: &HoldFile) -> io::Error {
    let path = file.path().display();
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{path}: opened read-only, but a participant needs it open for writing"),
    )
}
