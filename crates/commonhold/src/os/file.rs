//! The open file of a hold.
//!
//! Invariant: the descriptor that [`HoldFile::fd`] returns refers to the file (device and inode)
//! that was opened first. Programs close descriptors that are not theirs (`close_range` when they
//! become daemons), and the kernel reuses the number. So the number is verified before each use,
//! replaced through the path if it refers to another file, and closed at the end only if it is
//! still ours. The description behind it never carries a lock. Locks live on descriptions of their
//! own ([`super::byte_lock`]), because a description does not see its own locks.
//!
//! The data is accessed through [`super::mapping`]. Only large values are read from the file,
//! because that neither faults nor allocates memory where there is none ([`HoldFile::read_at`]).
//!
//! # Safety
//! Unsafe only to call libc with arguments that this module owns, and to adopt a descriptor that a
//! call has just returned.
#![allow(unsafe_code)]

use super::{fork, recovery_descriptors};
use crate::steps::{fault, shortened};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// Turns the `-1` of a system call into the error that it set.
pub(super) fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Repeats a system call for as long as signals interrupt it.
pub(super) fn uninterrupted(
    mut call: impl FnMut() -> io::Result<libc::c_int>,
) -> io::Result<libc::c_int> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => return result,
        }
    }
}

/// Why a sync did not succeed.
#[derive(Debug)]
pub(crate) enum SyncError {
    /// The call was not made, for example for lack of a descriptor: nothing was lost.
    NotMade(io::Error),
    /// The call failed. Disks, file systems and servers each return errors of their own. After any
    /// of them, pages may be lost that the system considers written.
    Failed(io::Error),
}

impl SyncError {
    /// The error of reading a page before the sync. A page that cannot be read is lost.
    pub(crate) fn of_reading(error: io::Error) -> SyncError {
        match error.raw_os_error() {
            Some(libc::EIO) => SyncError::Failed(error),
            _ => SyncError::NotMade(error),
        }
    }

    /// The error of the system.
    pub(crate) fn cause(&self) -> &io::Error {
        match self {
            SyncError::NotMade(error) | SyncError::Failed(error) => error,
        }
    }
}

/// The `fstat` of a descriptor.
pub(super) fn status(fd: RawFd) -> io::Result<libc::stat> {
    fault!("os.fstat")?;
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the buffer is ours and as large as the call expects.
    checked(unsafe { libc::fstat(fd, status.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it has filled the buffer.
    Ok(unsafe { status.assume_init() })
}

/// Device and inode of the file that a descriptor refers to; `None` if it refers to none.
pub(super) fn identity(fd: RawFd) -> io::Result<Option<(u64, u64)>> {
    match status(fd) {
        Ok(status) => Ok(Some((status.st_dev, status.st_ino))),
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A path as system calls expect it. Fails if it contains a NUL byte.
pub(super) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "a path cannot contain a NUL byte")
    })
}

/// Opens `path`, never waiting for the other end of a FIFO.
pub(super) fn open(path: &CStr, writable: bool) -> io::Result<OwnedFd> {
    let access = if writable { libc::O_RDWR } else { libc::O_RDONLY };
    let flags = access | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let fd = uninterrupted(|| {
        fault!("os.open")?;
        // SAFETY: the path is a C string that outlives the call.
        checked(unsafe { libc::open(path.as_ptr(), flags) })
    })?;
    // SAFETY: the call has just returned this descriptor, nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A verified descriptor of a [`HoldFile`], for immediate use.
pub(crate) struct Descriptor<'a>(RawFd, PhantomData<&'a HoldFile>);

impl Deref for Descriptor<'_> {
    type Target = RawFd;

    fn deref(&self) -> &RawFd {
        &self.0
    }
}

/// The open file of a hold. Send and Sync; every call may run in any thread.
pub(crate) struct HoldFile {
    fd: AtomicI32,
    dev: u64,
    ino: u64,
    path: PathBuf,
    c_path: CString,
    writable: bool,
    /// The entry of [`recovery_descriptors`] that keeps a description; `usize::MAX` for none.
    kept_number: AtomicUsize,
}

impl HoldFile {
    /// Takes over an open file. `path` is the path that opened it (made absolute, because the
    /// working directory may change); `writable` is true if it is open for writing.
    pub(crate) fn new(file: File, path: PathBuf, writable: bool) -> io::Result<HoldFile> {
        let path = std::path::absolute(path)?;
        let c_path = c_path(&path)?;
        let status = status(file.as_raw_fd())?;
        let fd = AtomicI32::new(OwnedFd::from(file).into_raw_fd());
        let (dev, ino) = (status.st_dev, status.st_ino);
        let kept_number = AtomicUsize::new(usize::MAX);
        Ok(HoldFile { fd, dev, ino, path, c_path, writable, kept_number })
    }

    /// Keeps a description for a time when none can be opened any more, in this process and in its
    /// children. If that is impossible, they open a description when they need it.
    ///
    /// With `counts_children`, a child has the open byte from the fork on.
    pub(crate) fn keep_description(&self, counts_children: bool) {
        // Relaxed, here and below: kept once, before others have the file.
        if !self.writable || self.kept().is_some() {
            return;
        }
        let entered = fork::without_fork(|| {
            let fd = self.fd.load(Ordering::Relaxed);
            recovery_descriptors::enter(fd, self.dev, self.ino, counts_children)
        });
        if let Ok(Some(number)) = entered {
            self.kept_number.store(number, Ordering::Relaxed);
        }
    }

    fn kept(&self) -> Option<usize> {
        Some(self.kept_number.load(Ordering::Relaxed)).filter(|number| *number != usize::MAX)
    }

    /// Whether a child has the open byte from the fork on. Within [`super::fork::without_fork`].
    pub(super) fn counts_children(&self) -> bool {
        self.kept().is_some_and(recovery_descriptors::counts_children)
    }

    /// Ends that: the handle is closed.
    pub(crate) fn leave_open_byte(&self) {
        if let Some(number) = self.kept() {
            let _ = fork::without_fork(|| recovery_descriptors::leave_open_byte(number));
        }
    }

    /// Takes the reserved description for a lock. Within [`super::fork::without_fork`].
    pub(super) fn take_kept(&self) -> Option<OwnedFd> {
        recovery_descriptors::take(self.kept()?)
    }

    /// Closes what is left of other processes' descriptions. Within
    /// [`super::fork::without_fork`].
    pub(super) fn close_left(&self) {
        self.kept().into_iter().for_each(recovery_descriptors::close_left);
    }

    /// Keeps the description again, because no lock is on it. Within [`super::fork::without_fork`].
    pub(super) fn put_back(&self, description: OwnedFd) {
        if let Some(number) = self.kept() {
            recovery_descriptors::put_back(number, description);
        }
    }

    /// The descriptor, verified to refer to this file still. Opened again by path if it does not.
    pub(crate) fn fd(&self) -> io::Result<Descriptor<'_>> {
        // Relaxed: the number guards no memory, and it is verified by the kernel right here.
        let fd = self.fd.load(Ordering::Relaxed);
        if self.refers_to_this(fd)? {
            return Ok(Descriptor(fd, PhantomData));
        }
        let fresh = self.open_by_path().map_err(|error| self.explain(error))?;
        Ok(Descriptor(self.adopt(fd, fresh), PhantomData))
    }

    /// A descriptor on a *new* open file description of the same file, with the same access as this
    /// one.
    #[cfg(test)]
    pub(crate) fn reopen(&self) -> io::Result<OwnedFd> {
        self.open_description().map_err(|error| self.explain(error))
    }

    /// As [`HoldFile::reopen`], but never allocates memory, so it can run in
    /// [`super::fork::without_fork`]. The caller passes the error through [`HoldFile::explain`].
    pub(super) fn open_description(&self) -> io::Result<OwnedFd> {
        let fd = self.fd.load(Ordering::Relaxed);
        if self.is_ours(fd) {
            let mut name = [0u8; 32];
            // The buffer is longer than the longest number needs, and its last byte stays 0.
            write!(&mut name[..31], "/proc/self/fd/{fd}")?;
            if let Ok(name) = CStr::from_bytes_until_nul(&name) {
                // Fails without /proc, or in a process that has dropped its rights since.
                if let Ok(fresh) = open(name, self.writable)
                    && self.is_ours(fresh.as_raw_fd())
                {
                    return Ok(fresh);
                }
            }
        }
        self.open_by_path()
    }

    /// Adds the file's path to an error, and the meaning of `ESTALE` here.
    pub(super) fn explain(&self, error: io::Error) -> io::Error {
        if error.raw_os_error() != Some(libc::ESTALE) {
            return error;
        }
        let path = self.path.display();
        io::Error::new(
            io::ErrorKind::NotFound,
            format!(
                "{path}: this name leads to another file now, and the program has closed the \
                 hold's descriptor; open the hold again"
            ),
        )
    }

    /// The device that the file lives on.
    pub(crate) fn dev(&self) -> u64 {
        self.dev
    }

    /// The inode of the file.
    pub(crate) fn ino(&self) -> u64 {
        self.ino
    }

    /// The absolute path that opened the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The same, for a signal handler.
    pub(crate) fn c_path(&self) -> &CStr {
        &self.c_path
    }

    /// Whether the file was opened for writing.
    pub(crate) fn writable(&self) -> bool {
        self.writable
    }

    /// The permission bits of the file.
    pub(crate) fn mode(&self) -> io::Result<u32> {
        Ok(status(*self.fd()?)?.st_mode & 0o777)
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(status(*self.fd()?)?.st_size as u64)
    }

    /// The memory or disk space that is really allocated, in bytes.
    pub(crate) fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(status(*self.fd()?)?.st_blocks as u64 * 512)
    }

    /// The number of the file's names; 0 once it is deleted.
    #[cfg(test)]
    pub(crate) fn links(&self) -> io::Result<u64> {
        #[allow(clippy::useless_conversion, reason = "the type differs by architecture")]
        Ok(u64::from(status(*self.fd()?)?.st_nlink))
    }

    /// Sets the length. Fails with `StorageFull` if the length exceeds the process's file size
    /// limit, where the bare call would kill the process by SIGXFSZ.
    ///
    /// The caller has the right to change the length (the growth lock). After a cut, touching the
    /// lost pages raises SIGBUS in every process.
    pub(crate) fn set_len(&self, bytes: u64) -> io::Result<()> {
        let fd = self.fd()?;
        if bytes > self.len()? {
            self.check_size_limit(bytes)?;
        }
        let bytes = signed(bytes)?;
        uninterrupted(|| {
            fault!("os.ftruncate")?;
            // SAFETY: no memory is passed.
            checked(unsafe { libc::ftruncate(*fd, bytes) })
        })
        .map(drop)
    }

    /// Allocates `len` bytes from `start` on and extends the file if they end beyond it.
    /// `StorageFull`, `QuotaExceeded` or `FileTooLarge` if there is no room. Where the file system
    /// cannot preallocate, the file is only extended. Callers as for [`HoldFile::set_len`].
    pub(crate) fn allocate(&self, start: u64, len: u64) -> io::Result<()> {
        let end = start.checked_add(len).ok_or_else(too_large)?;
        if end > self.len()? {
            self.check_size_limit(end)?;
        }
        let (mut next, mut step) = (start, len);
        while next < end {
            step = step.min(end - next);
            match fault!("os.fallocate").and_then(|()| self.fallocate(0, next, step)) {
                Ok(()) => next += step,
                // tmpfs rolls back an interrupted call: smaller steps succeed despite many signals.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    step = (step / 2).max(step.min(64 << 10));
                }
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                    return if end > self.len()? { self.set_len(end) } else { Ok(()) };
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Frees the memory or disk space of whole pages in the range; they read as zero then. Fails
    /// with `Unsupported` where the file system cannot do this.
    pub(crate) fn punch(&self, start: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        loop {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            match fault!("os.punch").and_then(|()| self.fallocate(mode, start, len)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => return result,
            }
        }
    }

    /// The first byte from `start` on with memory or disk space behind it; `None` if there is none.
    pub(crate) fn next_data(&self, start: u64) -> io::Result<Option<u64>> {
        let (fd, start) = (self.fd()?, signed(start)?);
        fault!("os.seek-data")?;
        // SAFETY: no memory is passed. Nobody uses the position that it moves.
        let found = unsafe { libc::lseek(*fd, start, libc::SEEK_DATA) };
        match u64::try_from(found) {
            Ok(found) => Ok(Some(found)),
            Err(_) => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Copies bytes from `start` on to all of `out`. Where the file has no memory, this copies
    /// zeros and allocates none.
    pub(crate) fn read_at(&self, start: u64, out: &mut [MaybeUninit<u8>]) -> io::Result<()> {
        let fd = self.fd()?;
        let mut done = 0;
        while done < out.len() {
            let rest = &mut out[done..];
            let (at, len) =
                (signed(start + done as u64)?, shortened!("os.pread-bytes", rest.len()));
            let read = fault!("os.pread").and_then(|()| {
                // SAFETY: the buffer is ours and has at least that many bytes.
                let count = unsafe { libc::pread(*fd, rest.as_mut_ptr().cast(), len, at) };
                usize::try_from(count).map_err(|_| io::Error::last_os_error())
            });
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until data written through the file, and its length, are on the disk.
    pub(crate) fn sync_data(&self) -> Result<(), SyncError> {
        let fd = self.fd().map_err(SyncError::NotMade)?;
        uninterrupted(|| {
            fault!("os.fdatasync")?;
            // SAFETY: no memory is passed.
            checked(unsafe { libc::fdatasync(*fd) })
        })
        .map(drop)
        .map_err(SyncError::Failed)
    }

    /// One `fallocate` call. The caller handles interruption.
    fn fallocate(&self, mode: libc::c_int, start: u64, len: u64) -> io::Result<()> {
        let (fd, start, len) = (self.fd()?, signed(start)?, signed(len)?);
        // SAFETY: no memory is passed.
        checked(unsafe { libc::fallocate(*fd, mode, start, len) }).map(drop)
    }

    /// Fails if a file of `bytes` exceeds RLIMIT_FSIZE.
    fn check_size_limit(&self, bytes: u64) -> io::Result<()> {
        check_size_limit(&self.path, bytes)
    }

    /// Whether the number refers to this file.
    pub(super) fn is_ours(&self, fd: RawFd) -> bool {
        self.refers_to_this(fd).unwrap_or(false)
    }

    fn refers_to_this(&self, fd: RawFd) -> io::Result<bool> {
        Ok(identity(fd)? == Some((self.dev, self.ino)))
    }

    /// Opens the file by its path; `ESTALE` if the path leads to another file.
    fn open_by_path(&self) -> io::Result<OwnedFd> {
        let fresh = open(&self.c_path, self.writable)?;
        match self.refers_to_this(fresh.as_raw_fd())? {
            true => Ok(fresh),
            false => Err(io::Error::from_raw_os_error(libc::ESTALE)),
        }
    }

    /// Replaces the number that refers to another file by `fresh`. Returns the number now in use.
    fn adopt(&self, stray: RawFd, fresh: OwnedFd) -> RawFd {
        let number = fresh.as_raw_fd();
        // Relaxed: as in `fd`.
        match self.fd.compare_exchange(stray, number, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                if let Some(kept) = self.kept() {
                    recovery_descriptors::is_known_by(kept, number);
                }
                fresh.into_raw_fd()
            }
            // Another thread was faster. If `fresh` got the old number, a third thread may have
            // verified it and may be using it now: leave it open rather than close it there.
            Err(_) if number == stray => fresh.into_raw_fd(),
            Err(current) => current,
        }
    }
}

impl Drop for HoldFile {
    fn drop(&mut self) {
        if let Some(number) = self.kept() {
            // A description is kept only if the handlers are registered, so they are.
            let _ = fork::without_fork(|| recovery_descriptors::leave(number));
        }
        let fd = *self.fd.get_mut();
        if self.is_ours(fd) {
            // SAFETY: verified to be this file's descriptor; nothing borrows it any more.
            unsafe { libc::close(fd) };
        }
    }
}

/// A file offset as system calls expect it.
fn signed(bytes: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(bytes).map_err(|_| too_large())
}

fn too_large() -> io::Error {
    io::Error::from_raw_os_error(libc::EFBIG)
}

/// Fails if a file of `bytes` at `path` exceeds RLIMIT_FSIZE: writing past that limit would raise a
/// signal.
pub fn check_size_limit(path: &Path, bytes: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) })?;
    if limit.rlim_cur == libc::RLIM_INFINITY || bytes <= limit.rlim_cur {
        return Ok(());
    }
    let (path, allowed) = (path.display(), limit.rlim_cur);
    Err(io::Error::new(
        io::ErrorKind::StorageFull,
        format!(
            "{path}: {bytes} bytes exceed the file size limit of this process, {allowed} \
             bytes; raise it (ulimit -f)"
        ),
    ))
}

/// Whether the attempt to lock a file failed because its file system has no locks.
pub(crate) fn has_no_locks(error: &io::Error) -> bool {
    let none = [libc::ENOLCK, libc::EOPNOTSUPP, libc::EINVAL];
    error.raw_os_error().is_some_and(|number| none.contains(&number))
}

/// True if the bytes of the file cannot be read, by anybody and at any time.
pub(crate) fn is_of_the_contents(error: &io::Error) -> bool {
    let lost = [libc::EIO, libc::ENODATA, libc::EBADMSG, libc::EUCLEAN];
    error.raw_os_error().is_some_and(|number| lost.contains(&number))
}
