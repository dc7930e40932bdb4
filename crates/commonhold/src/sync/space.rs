//! The mapped file, seen only as atomics.
//!
//! Everything in the file may be written by another process at any time, so no plain reference to it
//! ever exists: callers get `&AtomicU64`, `&AtomicU32` or a `repr(C)` struct made of those
//! ([`Shared`]). An offset outside the reservation reads as a word that is always zero: a damaged
//! offset leads to a retry and then to an error, never to a fault. Inside the reservation the caller
//! has checked the offset against the committed length (`memory::extents`).
//!
//! # Safety
//! The mapping lives as long as the `Space`; every type handed out is valid for any bytes, is aligned
//! because the base is page-aligned and offsets are checked for alignment, and is only accessed
//! atomically.
#![allow(unsafe_code)]

use crate::os::file::HoldFile;
use crate::os::mapping::Mapping;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Offset of a word of the superblock page that nobody ever writes.
pub(crate) const ALWAYS_ZERO: u64 = 4096 - 64;

/// A `repr(C)` struct made of atomics only.
///
/// # Safety
/// Every field is an atomic integer or an array of them, so any bytes are a valid value.
pub(crate) unsafe trait Shared: Sized {}

/// The mapped file of one handle.
pub(crate) struct Space {
    base: *mut u8,
    reserved: u64,
    mapping: Mapping,
    file: HoldFile,
    in_memory: bool,
}

// SAFETY: the base pointer is only used to form references to atomics.
unsafe impl Send for Space {}
// SAFETY: as above.
unsafe impl Sync for Space {}

impl Space {
    pub(crate) fn new(file: HoldFile, mapping: Mapping, in_memory: bool) -> Space {
        Space { base: mapping.base(), reserved: mapping.reserved(), mapping, file, in_memory }
    }

    /// True for a memory hold, false for a file hold.
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

    /// Address of `offset`, or of the always-zero word if `len` bytes there leave the reservation.
    #[inline]
    pub(crate) fn at(&self, offset: u64, len: u64) -> *mut u8 {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.reserved);
        let offset = if inside { offset } else { ALWAYS_ZERO };
        // SAFETY: the offset is inside the reservation.
        unsafe { self.base.add(offset as usize) }
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

    /// The struct at `offset`, rounded down to a multiple of 8. `T` is at most 64 bytes where the offset
    /// may be damaged; larger ones lie at offsets that were checked.
    #[inline]
    pub(crate) fn view<T: Shared>(&self, offset: u64) -> &T {
        const { assert!(align_of::<T>() <= 8) };
        let len = size_of::<T>() as u64;
        debug_assert!(len <= 64 || offset.saturating_add(len) <= self.reserved);
        // SAFETY: in bounds, aligned, and `T` is valid for any bytes.
        unsafe { &*self.at(offset & !7, len).cast() }
    }
}
