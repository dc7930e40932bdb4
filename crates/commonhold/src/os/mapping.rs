//! The hold file in memory: one reservation of address space, made once, never moved.
//!
//! Invariant: from `reserve` to drop, `base` .. `base + reserved` is a shared mapping of the file
//! from its first byte on. It extends beyond the end of the file, so growth by any process becomes
//! visible in place. Touching a page beyond the end of the file, or one for which there is no room,
//! raises SIGBUS. Callers touch only what the hold records as allocated, and [`Mapping::populate`]
//! it first. For readers whose memory has gone meanwhile see [`super::page_guard`].
//!
//! # Safety
//! Unsafe to reserve, map and unmap address ranges that this module has got from the kernel itself.
//! Other processes write to the memory behind `base` at any time: callers access it only by atomics
//! and raw copies.
#![allow(unsafe_code)]

use super::file::{HoldFile, SyncError, checked, uninterrupted};
use crate::steps::fault;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Reservations begin at a multiple of this, so that huge pages are possible.
const ALIGNMENT: usize = 2 << 20;
/// Number of times the system may refuse for the moment, each followed by a longer pause: half a
/// second in all.
const MOST_REFUSALS: u32 = 1000;

/// The size of a page of memory.
pub(super) fn page_size() -> usize {
    // SAFETY: no memory is passed. The value always exists.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Maps private zeroed memory without reserving swap for it.
pub(super) fn map_anonymous(bytes: usize, access: libc::c_int) -> io::Result<NonNull<u8>> {
    fault!("os.map-anonymous")?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let address = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
    mapped(address)
}

/// Turns `MAP_FAILED` into the error that the call set.
pub(super) fn mapped(address: *mut libc::c_void) -> io::Result<NonNull<u8>> {
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("the system mapped address 0"))
}

/// The reservation of address space over a hold file.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    reserved: usize,
    writable: bool,
    /// Where the part begins that may have huge pages; `u64::MAX` for nowhere.
    huge_from: AtomicU64,
}

// SAFETY: the object only owns the address range; the callers are responsible for uses of the
// memory.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `wanted` bytes over the file, or fewer by halving, but at least `least`. The range
    /// is left out of core dumps.
    pub(crate) fn reserve(
        file: &HoldFile,
        wanted: u64,
        least: u64,
        writable: bool,
    ) -> io::Result<Mapping> {
        let least = round_up(least.max(1))?;
        let mut bytes = round_up(wanted)?.max(least);
        loop {
            match Mapping::reserve_exactly(file, bytes, writable) {
                Err(error) if is_too_much(&error) && bytes > least => {
                    bytes = (bytes / 2 / ALIGNMENT * ALIGNMENT).max(least);
                }
                Err(error) if is_too_much(&error) => {
                    return Err(no_address_space(file, bytes, &error));
                }
                result => return result,
            }
        }
    }

    /// The first byte of the file in memory; a multiple of 2 MiB.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How many bytes are reserved from [`Mapping::base`] on.
    #[inline]
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved as u64
    }

    /// Asks for huge pages from `start` on. A hint: errors are ignored.
    pub(crate) fn advise_huge(&self, start: u64) {
        // Relaxed: a setting, made before others have the mapping.
        self.huge_from.store(start, Ordering::Relaxed);
        let len = self.reserved().saturating_sub(start);
        let _ = self.advise(start, len, libc::MADV_HUGEPAGE);
    }

    /// Maps the file again over the whole reservation, where parts of it have been covered. Other
    /// threads may read meanwhile.
    pub(crate) fn map_again(&self, file: &HoldFile) -> io::Result<()> {
        map_over(file, self.base, self.reserved, self.writable)?;
        let _ = self.advise(0, self.reserved(), libc::MADV_DONTDUMP);
        match self.huge_from.load(Ordering::Relaxed) {
            u64::MAX => {}
            start => self.advise_huge(start),
        }
        Ok(())
    }

    /// True if this process may write to the file through the mapping.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Makes every page of the range present and writable now, so that touching it later neither
    /// faults nor fails. `StorageFull` if there is no room, where a touch would raise SIGBUS.
    ///
    /// The range must be within the file, and the mapping writable. Kernels before 5.14 do not
    /// support this. The function then does nothing, and the allocation of the range in the file
    /// must suffice.
    pub(crate) fn populate(&self, start: u64, len: u64) -> io::Result<()> {
        let mut refused = 0;
        loop {
            let populated = fault!("os.populate");
            let populated =
                populated.and_then(|()| self.advise(start, len, libc::MADV_POPULATE_WRITE));
            let Err(error) = populated else {
                return Ok(());
            };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // A page is busy for a moment. If that lasts, it is an error.
                Some(libc::EAGAIN) if refused < MOST_REFUSALS => {
                    refused += 1;
                    std::thread::sleep(Duration::from_micros(refused.into()));
                }
                Some(libc::EINVAL) => return Ok(()),
                Some(libc::EFAULT | libc::ENOMEM | libc::ENOSPC) => {
                    return Err(io::Error::new(
                        io::ErrorKind::StorageFull,
                        "no memory left to back the file: the file system or the machine is full",
                    ));
                }
                _ => return Err(error),
            }
        }
    }

    /// Replaces a range that cannot be read, where a touch would raise SIGBUS, by private zeros.
    /// The caller is the only user of the mapping and has not read any of the range.
    pub(crate) fn cover(&self, start: u64, len: u64) -> io::Result<()> {
        let (address, bytes) = self.pages(start, len)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        fault!("os.map-anonymous")?;
        // SAFETY: the range lies within our mapping; a reader finds memory there before and after.
        mapped(unsafe { libc::mmap(address.cast(), bytes, access, flags, -1, 0) }).map(drop)
    }

    /// Writes the range's changes to the disk and waits for completion.
    pub(crate) fn sync(&self, start: u64, len: u64) -> Result<(), SyncError> {
        let (address, bytes) = self.pages(start, len).map_err(SyncError::NotMade)?;
        uninterrupted(|| {
            fault!("os.msync")?;
            // SAFETY: the range lies within our mapping.
            checked(unsafe { libc::msync(address.cast(), bytes, libc::MS_SYNC) })
        })
        .map(drop)
        .map_err(SyncError::Failed)
    }

    /// Reserves a larger range, maps the file at the first aligned address in it, and cuts the
    /// rest.
    fn reserve_exactly(file: &HoldFile, bytes: usize, writable: bool) -> io::Result<Mapping> {
        let whole = bytes.checked_add(ALIGNMENT).ok_or_else(too_much)?;
        let start = map_anonymous(whole, libc::PROT_NONE)?;
        let before = start.as_ptr().align_offset(ALIGNMENT);
        // SAFETY: `before` is less than ALIGNMENT, so the address is inside the range just mapped.
        let base = unsafe { start.add(before) };
        if let Err(error) = map_over(file, base, bytes, writable) {
            // SAFETY: the whole range is ours and unused.
            unsafe { libc::munmap(start.as_ptr().cast(), whole) };
            return Err(error);
        }
        // SAFETY: both pieces are ours, unused, and outside of what was just mapped over.
        unsafe {
            if before > 0 {
                libc::munmap(start.as_ptr().cast(), before);
            }
            let end = base.add(bytes);
            libc::munmap(end.as_ptr().cast(), ALIGNMENT - before);
        }
        let huge_from = AtomicU64::new(u64::MAX);
        let mapping = Mapping { base, reserved: bytes, writable, huge_from };
        // A hold would fill core dumps with other people's data. Harmless if the system refuses.
        let _ = mapping.advise(0, bytes as u64, libc::MADV_DONTDUMP);
        Ok(mapping)
    }

    fn advise(&self, start: u64, len: u64, advice: libc::c_int) -> io::Result<()> {
        let (address, bytes) = self.pages(start, len)?;
        // SAFETY: the range lies within our mapping, and no advice used here loses data.
        checked(unsafe { libc::madvise(address.cast(), bytes, advice) }).map(drop)
    }

    /// The whole pages that the range touches, as address and length. An error if not all of them
    /// are ours.
    fn pages(&self, start: u64, len: u64) -> io::Result<(*mut u8, usize)> {
        let end = start.checked_add(len).filter(|end| *end <= self.reserved());
        let end = end.ok_or_else(|| {
            let reserved = self.reserved;
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{len} bytes from {start} on are not within the {reserved} reserved"),
            )
        })?;
        let page = page_size() as u64;
        let (first, end) = (start / page * page, end.next_multiple_of(page));
        // SAFETY: `first` is at most `reserved`.
        Ok((unsafe { self.base.as_ptr().add(first as usize) }, (end - first) as usize))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and its users borrowed from this object.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.reserved) };
    }
}

/// Maps the file in place of the reserved range that begins at `base`.
fn map_over(file: &HoldFile, base: NonNull<u8>, bytes: usize, writable: bool) -> io::Result<()> {
    let access = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let fd = file.fd()?;
    fault!("os.map")?;
    // SAFETY: the caller owns the range that is replaced. Its users, if any, access it as memory
    // of this file.
    mapped(unsafe { libc::mmap(base.as_ptr().cast(), bytes, access, flags, *fd, 0) }).map(drop)
}

fn round_up(bytes: u64) -> io::Result<usize> {
    let bytes = usize::try_from(bytes).map_err(|_| too_much())?;
    bytes.checked_next_multiple_of(page_size()).ok_or_else(too_much)
}

/// True if a smaller reservation may succeed. (Valgrind answers EINVAL.)
fn is_too_much(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::EINVAL))
}

fn too_much() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}

fn no_address_space(file: &HoldFile, bytes: usize, error: &io::Error) -> io::Error {
    let path = file.path().display();
    io::Error::new(
        io::ErrorKind::OutOfMemory,
        format!(
            "{path}: cannot reserve {bytes} bytes of address space: {error}; raise the limit \
             (ulimit -v, or vm.max_map_count)"
        ),
    )
}
