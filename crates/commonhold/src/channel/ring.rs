//! The bytes of a ring, which the other side may be writing at this very moment.
//!
//! # Safety
//! A [`Ring`] is made of a range that was checked to exist and that stays mapped as long as the `Arena` that its maker
//! keeps. Every access is masked to the ring or asserted to lie in it; what is shared is only touched by atomics and
//! by the racing copies of `memory::copy`.
#![allow(unsafe_code)]

use crate::memory::copy;
use crate::sync::space::Space;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

/// The ring of one handle.
pub(super) struct Ring {
    base: *mut u8,
    size: u64,
}

// SAFETY: the pointer is only used as the module says.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// The ring at `offset`; `None` unless it exists and its size is a power of two.
    pub(super) fn new(space: &Space, offset: u64, size: u64) -> Option<Ring> {
        let sound = size.is_power_of_two() && size >= 64 && offset.is_multiple_of(64);
        let base = space.reach(offset, size).filter(|_| sound)?;
        Some(Ring { base, size })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes from a position to the end of its lap.
    #[inline]
    pub(super) fn rest(&self, position: u64) -> u64 {
        self.size - (position & (self.size - 1))
    }

    /// The header at a position.
    #[inline]
    pub(super) fn header(&self, position: u64) -> &AtomicU64 {
        let at = position & (self.size - 1) & !7;
        // SAFETY: inside the ring and aligned, because the base is.
        unsafe { &*self.base.add(at as usize).cast() }
    }

    /// Address of `len` bytes at a position, which do not straddle the end of the ring.
    #[inline]
    fn at(&self, position: u64, len: u64) -> *mut u8 {
        assert!(len <= self.rest(position), "a frame straddles the end of the ring");
        // SAFETY: inside the ring.
        unsafe { self.base.add((position & (self.size - 1)) as usize) }
    }

    /// Writes bytes at a position; by the producer alone, where it may write.
    #[inline]
    pub(super) fn write(&self, position: u64, bytes: &[u8]) {
        // SAFETY: `at` has checked the range.
        unsafe { copy::write(self.at(position, bytes.len() as u64), bytes) }
    }

    /// Copies `len` bytes at a position behind what is in `out`.
    #[inline]
    pub(super) fn append(&self, position: u64, len: u64, out: &mut Vec<u8>) {
        // SAFETY: `at` has checked the range.
        unsafe { copy::append(self.at(position, len), len as usize, out) }
    }

    /// The bytes at a position where they lie.
    pub(super) fn raw(&self, position: u64, len: u64) -> RawBytes<'_> {
        RawBytes { start: self.at(position, len), len: len as usize, ring: PhantomData }
    }
}

/// Bytes of a message where they lie in the hold.
///
/// Not a slice: a broken program can change them at any moment, which no Rust slice may see. Copy what you need, or
/// use the address with raw reads.
#[derive(Clone, Copy)]
pub struct RawBytes<'a> {
    start: *mut u8,
    len: usize,
    ring: PhantomData<&'a Ring>,
}

impl RawBytes<'_> {
    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where they lie, at an address that is a multiple of 8. Valid for reads as long as this value.
    pub fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// Appends them to `out`.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        // SAFETY: the range was checked when this value was made.
        unsafe { copy::append(self.start, self.len, out) }
    }

    /// True if they equal `bytes`.
    pub fn equals(&self, bytes: &[u8]) -> bool {
        // SAFETY: as above, and the lengths are equal.
        bytes.len() == self.len && unsafe { copy::equal(self.start, bytes) }
    }

    /// Where they may be written; only a reservation hands this on.
    pub(super) fn as_mut_ptr(&self) -> *mut u8 {
        self.start
    }
}
