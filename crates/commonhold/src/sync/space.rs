//! The mapped file, accessed only as atomics.
//!
//! Another process may write to any part of the file at any time, so no plain reference to it ever
//! exists. Callers get `&AtomicU64`, `&AtomicU32` or a `repr(C)` struct made of those ([`Shared`]).
//! An offset beyond the existing part of the hold reads as a word that is always zero. A damaged
//! offset therefore leads to a retry and then to an error, never to a fault.
//!
//! The length of the existing part is cached privately, so the check costs as much as one against a
//! constant. It is looked up again (the committed length, and the file's) only when a caller asks
//! for something beyond it. It also becomes shorter when memory of the hold had to be covered by
//! zeros for a reader (`os::page_guard`): the next access then puts the file back.
//!
//! # Safety
//! The mapping lives as long as the `Space`. Every type handed out is valid for any bytes and is
//! only accessed atomically. It is aligned because the base is page-aligned and offsets are checked
//! for alignment.
#![allow(unsafe_code)]

use crate::os::file::HoldFile;
use crate::os::mapping::Mapping;
use crate::os::page_guard::{Guarded, IsInUse, PageGuard};
use crate::sync::hold_clock::OwnOffset;
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Offset of a word of the superblock page that nobody ever writes.
pub(crate) const ALWAYS_ZERO: u64 = 4096 - 64;

/// Offset in the superblock page of the number of extents that exist (`memory::extents::Growth`).
pub(crate) const COMMITTED: u64 = 512 + 8;
const EXTENT: u64 = 65536;
/// The number of bytes that every hold has.
pub(crate) const LEAST: u64 = 2 * EXTENT;

/// A `repr(C)` struct made of atomics only.
///
/// # Safety
/// Every field is an atomic integer or an array of them, so any bytes are a valid value.
pub(crate) unsafe trait Shared: Sized {}

// SAFETY: an atomic.
unsafe impl Shared for AtomicU32 {}

/// The place of a struct whose bytes were seen to exist in a space. The file never becomes shorter,
/// so the struct is accessed without a check. A value of this type is only used with the space that
/// it was made for.
pub(crate) struct Checked<T>(NonNull<T>);

// SAFETY: it points to a struct of atomics, and is only used together with its space.
unsafe impl<T: Shared> Send for Checked<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Checked<T> {}

impl<T: Shared> Checked<T> {
    /// At the beginning of the file, which every hold has: in place of what does not exist.
    pub(crate) fn first(space: &Space) -> Checked<T> {
        const { assert!(align_of::<T>() <= 8 && size_of::<T>() as u64 <= LEAST) };
        Checked(space.base.cast())
    }

    /// The struct at `offset`, rounded down to a multiple of 8; `None` if it does not exist as a
    /// whole.
    pub(crate) fn new(space: &Space, offset: u64) -> Option<Checked<T>> {
        const { assert!(align_of::<T>() <= 8) };
        let offset = offset & !7;
        let there = space.covers(offset, size_of::<T>() as u64);
        // SAFETY: the offset is inside the mapping.
        there.then(|| Checked(unsafe { space.base.add(offset as usize) }.cast()))
    }

    /// Its offset in the space that it was made for.
    pub(crate) fn offset(&self, space: &Space) -> u64 {
        self.0.addr().get().wrapping_sub(space.base.addr().get()) as u64
    }

    #[inline(always)]
    pub(crate) fn of<'a>(&self, space: &'a Space) -> &'a T {
        debug_assert!(space.covers(self.offset(space), size_of::<T>() as u64));
        // SAFETY: in bounds and aligned, by `new`; the mapping lives as long as the space, and the
        // file never becomes shorter; `T` is valid for any bytes.
        unsafe { self.0.as_ref() }
    }
}

/// The place of several structs or words, as [`Checked`] is of one.
pub(crate) struct CheckedSlice<T> {
    offset: u64,
    len: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: Shared> CheckedSlice<T> {
    /// `len` of them from `offset` on, a multiple of their alignment; `None` if they do not all
    /// exist.
    pub(crate) fn new(space: &Space, offset: u64, len: u64) -> Option<CheckedSlice<T>> {
        let bytes = len.checked_mul(size_of::<T>() as u64)?;
        let fits = offset.is_multiple_of(align_of::<T>() as u64) && space.covers(offset, bytes);
        fits.then_some(CheckedSlice { offset, len: len as usize, of: PhantomData })
    }

    #[inline(always)]
    pub(crate) fn of<'a>(&self, space: &'a Space) -> &'a [T] {
        debug_assert!(space.covers(self.offset, (self.len * size_of::<T>()) as u64));
        // SAFETY: in bounds and aligned, by `new`; the file never becomes shorter; `T` is valid for
        // any bytes.
        unsafe {
            let first = space.base.add(self.offset as usize).cast();
            std::slice::from_raw_parts(first.as_ptr(), self.len)
        }
    }
}

/// The mapped file of one handle.
pub(crate) struct Space {
    base: NonNull<u8>,
    /// Bytes known to exist, at most the reservation. It grows; the guard lowers it.
    exists: AtomicU64,
    /// The most that it ever was.
    most: AtomicU64,
    reserved: u64,
    /// Before the mapping and the file that it refers to, so that it is dropped first.
    guard: OnceLock<PageGuard>,
    mapping: Mapping,
    file: HoldFile,
    in_memory: bool,
    checksums: bool,
    own_offset: OwnOffset,
}

// SAFETY: the base pointer is only used to form references to atomics.
unsafe impl Send for Space {}
// SAFETY: as above.
unsafe impl Sync for Space {}

impl Space {
    pub(crate) fn new(file: HoldFile, mapping: Mapping, in_memory: bool) -> Space {
        let (base, reserved) = (mapping.base(), mapping.reserved());
        let (exists, most) = (AtomicU64::new(LEAST), AtomicU64::new(LEAST));
        let checksums = !in_memory;
        let (guard, own_offset) = (OnceLock::new(), OwnOffset::UNUSED);
        Space {
            base,
            exists,
            most,
            reserved,
            guard,
            mapping,
            file,
            in_memory,
            checksums,
            own_offset,
        }
    }

    /// Lets reads of memory that has gone find zeros, on a hold in memory that is full, unless the
    /// extent is in use.
    ///
    /// # Safety
    /// The space does not move any more.
    pub(crate) unsafe fn guard_pages(&self, is_in_use: IsInUse) {
        if self.in_memory {
            let guarded = Guarded {
                base: self.base.as_ptr(),
                bytes: self.reserved,
                piece: EXTENT,
                exists: &self.exists,
                least: LEAST,
                is_in_use,
                path: self.file.c_path(),
            };
            // SAFETY: the caller's contract; the guard is dropped before mapping and file.
            self.guard.get_or_init(|| unsafe { PageGuard::new(&guarded) });
        }
    }

    /// Sets the layout of records to the one that the file was created with, possibly elsewhere.
    pub(crate) fn with_checksums(self, checksums: bool) -> Space {
        Space { checksums, ..self }
    }

    /// Sets a clock offset for this handle alone, used until somebody sets the hold's.
    pub(crate) fn with_own_offset(self, own_offset: OwnOffset) -> Space {
        Space { own_offset, ..self }
    }

    /// The offset that [`hold_clock`](crate::sync::hold_clock) uses instead of the file's.
    pub(crate) fn own_offset(&self) -> OwnOffset {
        self.own_offset
    }

    /// True if records carry checksums and pairs of more than 8 bytes are records: a hold that was
    /// created on a disk.
    pub(crate) fn has_checksums(&self) -> bool {
        self.checksums
    }

    /// True for a hold in memory, false for one on a disk.
    pub(crate) fn in_memory(&self) -> bool {
        self.in_memory
    }

    pub(crate) fn file(&self) -> &HoldFile {
        &self.file
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Bytes of address space reserved: the most this handle can ever see.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// True if the `len` bytes at `offset` exist and this handle can see them.
    #[inline]
    pub(crate) fn covers(&self, offset: u64, len: u64) -> bool {
        // Relaxed: it is lowered only for what was freed before the caller acquired the offset.
        let exists = self.exists.load(Ordering::Relaxed);
        offset.checked_add(len).is_some_and(|end| end <= exists || self.has_grown_to(end))
    }

    /// True if the whole extent of `offset` exists and this handle can see it.
    #[inline]
    pub(crate) fn covers_extent_of(&self, offset: u64) -> bool {
        let last = offset | (EXTENT - 1);
        // Relaxed: as in `covers`.
        last < self.exists.load(Ordering::Relaxed) || self.has_grown_to(last.saturating_add(1))
    }

    #[cold]
    fn has_grown_to(&self, end: u64) -> bool {
        // SAFETY: in the first page, which every hold has.
        let committed = unsafe { self.base.add(COMMITTED as usize).cast::<AtomicU64>().as_ref() };
        let most = self.most.load(Ordering::Relaxed);
        let known = committed.load(Ordering::Acquire).saturating_mul(EXTENT).max(most);
        if end > known.min(self.reserved) {
            return false;
        }
        // The length may be damaged. It is trusted only if the file is no longer reachable.
        let is_new = known > most;
        let there = if is_new { self.file.len().unwrap_or(known) } else { most };
        let bytes = known.min(there);
        // Not asked again: the guard may have lowered the number since. That concerns only what was
        // freed before the caller learned of its offset.
        self.has_been_lengthened(bytes) && end <= bytes
    }

    /// The file has at least `bytes` bytes. A process that lengthens the file prepares the new part
    /// before it counts. False if the file could not be put back where zeros cover it.
    pub(crate) fn has_been_lengthened(&self, bytes: u64) -> bool {
        let bytes = bytes.min(self.reserved);
        let most = bytes.max(self.most.fetch_max(bytes, Ordering::Relaxed));
        let raise = || {
            self.exists.fetch_max(most, Ordering::Relaxed);
        };
        let put_back = self.undisturbed(raise).is_ok();
        if !put_back && self.mapping.is_writable() {
            // A change may be in progress. It must not take the zeros for free memory, so the
            // process ends as SIGBUS would have ended it, and others recover its part.
            std::process::abort();
        }
        put_back
    }

    /// Makes every page of the range present and writable now ([`Mapping::populate`]). The caller
    /// owns the range.
    pub(crate) fn populate(&self, start: u64, len: u64) -> io::Result<()> {
        loop {
            let guard = self.guard.get();
            let before = guard.map_or(0, PageGuard::times_put_back);
            self.mapping.populate(start, len)?;
            // A handler that finds a page of the range missing did so before the page was there.
            // It is seen here: still at work, by what it covered, or because another thread has
            // put the file back over that.
            if !guard.is_some_and(|guard| guard.is_disturbed(before)) {
                return Ok(());
            }
            self.undisturbed(|| ())?;
        }
    }

    /// Runs `act` while the whole mapping is that of the file.
    fn undisturbed(&self, act: impl FnOnce()) -> io::Result<()> {
        match self.guard.get() {
            Some(guard) => guard.act(|| self.mapping.map_again(&self.file), act),
            None => {
                act();
                Ok(())
            }
        }
    }

    /// Address of `offset`, if `len` bytes there exist.
    #[inline]
    pub(crate) fn reach(&self, offset: u64, len: u64) -> Option<*mut u8> {
        // SAFETY: the offset is inside the reservation.
        self.covers(offset, len).then(|| unsafe { self.base.add(offset as usize) }.as_ptr())
    }

    /// Address of `offset`, or of the always-zero word if `len` bytes there do not all exist.
    #[inline]
    pub(crate) fn at(&self, offset: u64, len: u64) -> *mut u8 {
        let offset = if self.covers(offset, len) { offset } else { ALWAYS_ZERO };
        // SAFETY: the offset is inside the reservation.
        unsafe { self.base.add(offset as usize) }.as_ptr()
    }

    /// The 64-bit word at `offset`, which is rounded down to a multiple of 8.
    #[inline]
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        // SAFETY: in bounds and aligned; see the module's contract.
        unsafe { &*self.at(offset & !7, 8).cast() }
    }

    /// The 32-bit word at `offset`, which is rounded down to a multiple of 4.
    #[inline]
    pub(crate) fn half(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: in bounds and aligned; see the module's contract.
        unsafe { &*self.at(offset & !3, 4).cast() }
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Safety
    /// The 8 bytes at `offset`, a multiple of 8, were seen to exist.
    #[inline(always)]
    pub(crate) unsafe fn word_there(&self, offset: u64) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && self.covers(offset, 8));
        // SAFETY: the caller's contract; the file never becomes shorter.
        unsafe { self.base.add(offset as usize).cast().as_ref() }
    }

    /// Address of `offset`.
    ///
    /// # Safety
    /// `offset` was seen to exist.
    #[inline(always)]
    pub(crate) unsafe fn there(&self, offset: u64) -> NonNull<u8> {
        debug_assert!(self.covers(offset, 1));
        // SAFETY: the caller's contract.
        unsafe { self.base.add(offset as usize) }
    }

    /// Address of the first byte. It never changes.
    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Address of `offset`, which may not exist. For prefetches.
    #[inline(always)]
    pub(crate) fn perhaps_at(&self, offset: u64) -> *const u8 {
        self.base.as_ptr().wrapping_add(offset as usize)
    }

    /// The struct at a constant offset that every hold has.
    #[inline(always)]
    pub(crate) fn fixed<T: Shared, const OFFSET: u64>(&self) -> &T {
        const { assert!(align_of::<T>() <= 8 && OFFSET.is_multiple_of(8)) };
        const { assert!(OFFSET + size_of::<T>() as u64 <= LEAST) };
        // SAFETY: in bounds, aligned, and `T` is valid for any bytes.
        unsafe { self.base.add(OFFSET as usize).cast().as_ref() }
    }

    /// The struct at `offset`, rounded down to a multiple of 8; `None` if it does not exist as a
    /// whole.
    #[inline]
    pub(crate) fn get<T: Shared>(&self, offset: u64) -> Option<&T> {
        const { assert!(align_of::<T>() <= 8) };
        const { assert!(size_of::<T>() as u64 <= LEAST) };
        let offset = offset & !7;
        let len = size_of::<T>() as u64;
        // Relaxed, as in `covers`. At least `LEAST` bytes exist, so the difference is one.
        let exists = self.exists.load(Ordering::Relaxed);
        if offset > exists - len && !self.has_grown_to(offset.checked_add(len)?) {
            return None;
        }
        // SAFETY: in bounds, aligned, and `T` is valid for any bytes.
        Some(unsafe { self.base.add(offset as usize).cast().as_ref() })
    }

    /// The offset of a word that [`Space::half`] or [`Space::view`] returned.
    pub(crate) fn offset_of(&self, word: &AtomicU32) -> u64 {
        (word.as_ptr() as u64).wrapping_sub(self.base.as_ptr() as u64)
    }

    /// The struct at `offset`, rounded down to a multiple of 8. `T` is at most 64 bytes where the
    /// offset may be damaged. Larger structs lie at offsets that were checked.
    #[inline]
    pub(crate) fn view<T: Shared>(&self, offset: u64) -> &T {
        const { assert!(align_of::<T>() <= 8) };
        let len = size_of::<T>() as u64;
        debug_assert!(len <= 64 || self.covers(offset, len));
        // SAFETY: in bounds, aligned, and `T` is valid for any bytes.
        unsafe { &*self.at(offset & !7, len).cast() }
    }
}
