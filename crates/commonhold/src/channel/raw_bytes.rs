//! Bytes of a message in place.
//!
//! # Safety
//! [`RawBytes`] are made of a range of a [`Ring`]. The ring stays mapped as long as the `Arena`
//! that the maker of the value keeps.
#![allow(unsafe_code)]

use crate::memory::copy;
use crate::memory::ring::Ring;
use std::marker::PhantomData;

/// Bytes of a message in the hold's memory.
///
/// They are not a slice: a broken program can change them at any moment, and Rust does not allow
/// that for slices. Copy the bytes you need, or read through the address with raw reads.
#[derive(Clone, Copy)]
pub struct RawBytes<'a> {
    start: *mut u8,
    len: usize,
    ring: PhantomData<&'a Ring>,
}

impl<'a> RawBytes<'a> {
    /// `len` bytes of a ring, which do not straddle its end.
    pub(super) fn new(ring: &'a Ring, position: u64, len: u64) -> RawBytes<'a> {
        RawBytes { start: ring.at(position, len), len: len as usize, ring: PhantomData }
    }
    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the bytes, a multiple of 8. Valid for reads as long as this value.
    pub fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// Appends the bytes to `out`.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        // SAFETY: the range was checked when this value was made.
        unsafe { copy::append(self.start, self.len, out) }
    }

    /// True if the bytes equal `bytes`.
    pub fn equals(&self, bytes: &[u8]) -> bool {
        // SAFETY: as above, and the lengths are equal.
        bytes.len() == self.len && unsafe { copy::equal(self.start, bytes) }
    }

    /// The address for writing; only a reservation hands it on.
    pub(super) fn as_mut_ptr(&self) -> *mut u8 {
        self.start
    }
}
