//! Racing copies by whole aligned words, for processors without an assembly version.
//!
//! The memory model allows atomic accesses to race only if they have the same size and address. So
//! every access of the file is a relaxed one of an aligned word of 8 bytes. A store of some bytes
//! of a word exchanges the word and keeps its other bytes, which may belong to somebody else.
//!
//! # Safety
//! As in [`copy`](crate::memory::copy): the bytes accessed at the pointer are inside the mapped
//! file.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A part of a range of bytes that lies in one aligned word.
struct Part<'a> {
    word: &'a AtomicU64,
    /// Number of the byte of the word at which the part begins.
    first: usize,
    /// Bytes of the part.
    len: usize,
    /// Where the part begins in the range.
    at: usize,
}

impl Part<'_> {
    /// The bytes of the part, at the low end.
    fn load(&self) -> u64 {
        // Relaxed: callers check by sequence, after a fence.
        (u64::from_le(self.word.load(Ordering::Relaxed)) >> (8 * self.first)) & self.mask()
    }

    fn store(&self, value: u64) {
        let (shift, mask) = (8 * self.first, self.mask());
        if self.len == 8 {
            return self.word.store(value.to_le(), Ordering::Relaxed);
        }
        let merged = |word: u64| {
            let kept = u64::from_le(word) & !(mask << shift);
            Some((kept | value << shift).to_le())
        };
        // Relaxed: as for loads. It never fails, because the closure always has a value.
        let _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merged);
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.len)
    }
}

/// The parts of `len` bytes of the file at `start`.
///
/// # Safety
/// The contract of the module above: the words that contain the bytes are mapped for `'a`.
unsafe fn parts<'a>(start: *const u8, len: usize) -> impl Iterator<Item = Part<'a>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = start.wrapping_add(at);
        let first = from.addr() % 8;
        let part = (8 - first).min(len - at);
        if part == 0 {
            return None;
        }
        // SAFETY: aligned, and mapped by the caller's contract.
        let word = unsafe { &*from.wrapping_sub(first).cast::<AtomicU64>() };
        at += part;
        Some(Part { word, first, len: part, at: at - part })
    })
}

/// From the file into private memory.
///
/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap.
pub(super) unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract; each part lies within `len`.
    for part in unsafe { parts(from, len) } {
        let bytes = part.load().to_le_bytes();
        // SAFETY: as above; `to` is private.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(part.at), part.len) };
    }
}

/// One exchange of the word that contains `len` bytes in the file; contract of
/// [`copy::replace`](crate::memory::copy).
pub(super) unsafe fn replace(to: *mut u8, bits: u64, len: u32) {
    // SAFETY: the caller's contract. The lower bytes come first.
    unsafe { write(to, bits.to_le_bytes().as_ptr(), len as usize) }
}

/// From private memory into the file; contract of [`read`].
pub(super) unsafe fn write(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's contract; each part lies within `len`.
    for part in unsafe { parts(to, len) } {
        let mut bytes = [0; 8];
        // SAFETY: as above; `from` is private.
        unsafe { ptr::copy_nonoverlapping(from.add(part.at), bytes.as_mut_ptr(), part.len) };
        part.store(u64::from_le_bytes(bytes));
    }
}

/// Whether `len` bytes in the file and in private memory are the same; contract of [`read`].
pub(super) unsafe fn equal(from: *const u8, other: *const u8, len: usize) -> bool {
    // SAFETY: the caller's contract; `other` is private.
    let other = unsafe { std::slice::from_raw_parts(other, len) };
    // SAFETY: the caller's contract.
    unsafe { parts(from, len) }
        .all(|part| part.load().to_le_bytes()[..part.len] == other[part.at..part.at + part.len])
}

/// Zeroes `len` bytes in the file.
///
/// # Safety
/// The range is valid for `len` bytes.
pub(super) unsafe fn zero(to: *mut u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe { parts(to, len) }.for_each(|part| part.store(0));
}

/// Bit `i` is set if the upper 24 bits of word `i` of twice 8 are `wanted`.
///
/// # Safety
/// 64 bytes at both addresses, which are aligned to 8, are valid.
pub(super) unsafe fn upper_24_are(lines: [*const u8; 2], wanted: u32) -> u32 {
    let is = |part: Part<'_>| u32::from(part.load() >> 40 == u64::from(wanted));
    // SAFETY: the caller's contract.
    let words = lines.into_iter().flat_map(|line| unsafe { parts(line, 64) });
    words.enumerate().map(|(at, part)| is(part) << at).sum()
}

/// Bit `i` is set if word `i` of twice 8 is that of its line in `wanted`, in the bits of `mask`.
///
/// # Safety
/// As [`upper_24_are`].
pub(super) unsafe fn words_are(lines: [*const u8; 2], wanted: [u64; 2], mask: u64) -> u32 {
    // SAFETY: the caller's contract.
    let words = lines.into_iter().flat_map(|line| unsafe { parts(line, 64) });
    let is = |at: usize, word: u64| u32::from((word ^ wanted[at / 8]) & mask == 0) << at;
    words.enumerate().map(|(at, part)| is(at, part.load())).sum()
}

/// The same for the lower 32 bits of each word.
///
/// # Safety
/// As [`upper_24_are`].
pub(super) unsafe fn lower_halves_are(lines: [*const u8; 2], wanted: [u32; 2], mask: u32) -> u32 {
    // SAFETY: the caller's contract.
    unsafe { words_are(lines, wanted.map(u64::from), mask.into()) }
}

/// There is no portable prefetch.
#[allow(dead_code, reason = "tests of other processors need only the copies")]
pub(super) fn prefetch(_: *const u8) {}

/// There is no portable prefetch.
#[allow(dead_code, reason = "as above")]
pub(super) fn prefetch_to_write(_: *const u8) {}
