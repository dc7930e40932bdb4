//! The bytes of a ring buffer, which another thread may be writing at the same time.
//!
//! # Safety
//! A [`Ring`] is made of a range that was checked to exist and that stays mapped as long as the
//! `Arena` that its maker keeps. Every access is masked to the ring or asserted to lie in it.
//! Shared bytes are only accessed by atomics and by the racing copies of `memory::copy`.
#![allow(unsafe_code)]

use crate::memory::copy;
use crate::memory::fetch::{LARGE, Large};
use crate::sync::space::Space;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

/// A ring as one handle sees it.
pub(crate) struct Ring {
    base: *mut u8,
    /// Offset of the ring in the hold.
    offset: u64,
    size: u64,
}

// SAFETY: the pointer is only used as the module describes.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// The ring at `offset`; `None` unless it exists and its size is a power of two.
    pub(crate) fn new(space: &Space, offset: u64, size: u64) -> Option<Ring> {
        let sound = size.is_power_of_two() && size >= 64 && offset.is_multiple_of(64);
        let base = space.reach(offset, size).filter(|_| sound)?;
        Some(Ring { base, offset, size })
    }

    /// Its offset in the hold.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes from a position to the end of its lap.
    #[inline]
    pub(crate) fn rest(&self, position: u64) -> u64 {
        self.size - (position & (self.size - 1))
    }

    /// The header at a position.
    #[inline]
    pub(crate) fn header(&self, position: u64) -> &AtomicU64 {
        self.frame(position).header()
    }

    /// The frame that begins at a position.
    #[inline(always)]
    pub(crate) fn frame(&self, position: u64) -> Frame<'_> {
        let at = position & (self.size - 1) & !7;
        // SAFETY: inside the ring.
        let start = unsafe { self.base.add(at as usize) };
        Frame { start, rest: self.size - at, ring: PhantomData }
    }

    /// Address of `len` bytes at a position, which do not straddle the end of the ring.
    #[inline]
    pub(crate) fn at(&self, position: u64, len: u64) -> *mut u8 {
        assert!(len <= self.rest(position), "a frame straddles the end of the ring");
        // SAFETY: inside the ring.
        unsafe { self.base.add((position & (self.size - 1)) as usize) }
    }

    /// Writes bytes at a position that only the caller may write.
    #[inline]
    pub(crate) fn write(&self, position: u64, bytes: &[u8]) {
        // SAFETY: `at` has checked the range.
        unsafe { copy::write(self.at(position, bytes.len() as u64), bytes) }
    }

    /// Appends `len` bytes at a position to `out`.
    #[inline]
    pub(crate) fn append(&self, position: u64, len: u64, out: &mut Vec<u8>) {
        // SAFETY: `at` has checked the range.
        unsafe { copy::append(self.at(position, len), len as usize, out) }
    }

    /// Prefetches the two lines that follow the byte before a position, for writing.
    #[inline(always)]
    pub(crate) fn prefetch_to_write(&self, position: u64) {
        for line in [63, 127] {
            let at = (position + line) & (self.size - 1);
            // Nothing is accessed.
            copy::prefetch_to_write(self.base.wrapping_add(at as usize));
        }
    }

    /// Writes bytes that may straddle the end of the ring. Otherwise like [`write`](Self::write).
    #[inline(always)]
    pub(crate) fn write_around(&self, position: u64, bytes: &[u8]) {
        if bytes.len() as u64 <= self.rest(position) {
            return self.write(position, bytes);
        }
        let (before, behind) = bytes.split_at(bytes.len().min(self.rest(position) as usize));
        self.write(position, before);
        self.write(position + before.len() as u64, behind);
    }

    /// Copies `len` bytes, at most the whole ring, that may straddle its end.
    pub(crate) fn append_around(&self, position: u64, len: u64, out: &mut Vec<u8>) {
        let before = len.min(self.rest(position));
        self.append(position, before, out);
        self.append(position + before, len - before, out);
    }

    /// The same for a ring that may be freed to the system during the copy: large pieces are then
    /// copied by the system (memory/fetch.rs), while the ring `is_there`.
    pub(crate) fn fetch_around(
        &self,
        space: &Space,
        (position, len): (u64, u64),
        is_there: impl Fn() -> bool,
        out: &mut Vec<u8>,
    ) {
        if (len as usize) < LARGE {
            return self.append_around(position, len, out);
        }
        let before = len.min(self.rest(position));
        for (position, len) in [(position, before), (position + before, len - before)] {
            let offset = self.offset + (position & (self.size - 1));
            Large { space, offset, is_there: &is_there }.append(len as usize, out);
        }
    }
}

/// A frame of a ring: a header at a multiple of 8, and what follows it in the same lap.
pub(crate) struct Frame<'a> {
    /// At least 8 bytes of the ring, at a multiple of 8.
    start: *mut u8,
    /// Bytes from the start to the end of the ring.
    rest: u64,
    ring: PhantomData<&'a Ring>,
}

impl<'a> Frame<'a> {
    #[inline(always)]
    pub(crate) fn header(&self) -> &'a AtomicU64 {
        // SAFETY: inside the ring and aligned, because the base and the size of a ring are.
        unsafe { &*self.start.cast() }
    }

    /// Bytes from the start of the frame to the end of the ring.
    #[inline(always)]
    pub(crate) fn rest(&self) -> u64 {
        self.rest
    }

    /// Appends `len` bytes that lie `skip` bytes behind the start to `out`.
    #[inline(always)]
    pub(crate) fn append(&self, skip: u64, len: u64, out: &mut Vec<u8>) {
        assert!(skip + len <= self.rest, "a frame straddles the end of the ring");
        // SAFETY: the range was just checked.
        unsafe { copy::append(self.start.add(skip as usize), len as usize, out) }
    }
}
