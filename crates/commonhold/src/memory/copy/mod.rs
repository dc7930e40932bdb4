//! Racing copies: bytes that another process may be writing at the same moment.
//!
//! A plain copy of such bytes would be a data race. On x86-64 and aarch64 the loads and stores are
//! inline assembly, about which the compiler may assume nothing ([`machine`]). Elsewhere, and under
//! Miri, they are relaxed atomics of whole aligned words, so accesses of different sizes never race
//! ([`words`]). Callers find out afterwards, by sequence, whether their copy was whole.
//!
//! One side of every copy is in the file and the other is private to the caller.
//!
//! # Safety
//! Every function takes a pointer into a [`Space`](crate::sync::space::Space) with at least the
//! given number of bytes after it inside the mapped file. The file is mapped in whole words of 8
//! bytes, so the aligned words that contain the first and the last byte are inside the mapping as
//! well.
#![allow(unsafe_code)]

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod machine;
#[cfg(any(test, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod words;

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
use machine as raw;
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
use words as raw;

use std::mem::MaybeUninit;
use std::sync::atomic::{Ordering, fence};

/// Writes `bytes` into the file at `to`.
///
/// # Safety
/// `bytes.len()` bytes at `to` are inside the mapped file and owned by the caller.
#[inline]
pub(crate) unsafe fn write(to: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller's contract; private and shared memory do not overlap.
    unsafe { raw::write(to, bytes.as_ptr(), bytes.len()) }
}

/// Replaces the `len` bytes of the file at `to`, a multiple of `len`, by one store: a reader sees
/// all of the old bytes or all of the new ones, if one load reads them. `bits` are the new bytes,
/// the first one lowest. Release: a reader that sees them, and then passes an acquire fence, sees
/// everything that came before.
///
/// # Safety
/// The aligned word of 8 bytes that contains them is inside the mapped file, nobody else writes it,
/// and `len` is 1, 2, 4 or 8.
#[inline(always)]
pub(crate) unsafe fn replace(to: *mut u8, bits: u64, len: u32) {
    debug_assert!(matches!(len, 1 | 2 | 4 | 8) && to.addr().is_multiple_of(len as usize));
    fence(Ordering::Release);
    // SAFETY: the caller's contract.
    unsafe { raw::replace(to, bits, len) }
}

/// Appends `len` bytes of the file at `from` to `out`.
///
/// # Safety
/// `len` bytes at `from` are inside the mapped file.
#[inline]
pub(crate) unsafe fn append(from: *const u8, len: usize, out: &mut Vec<u8>) {
    out.reserve(len);
    // SAFETY: the capacity was just reserved; `read` initialises exactly `len` bytes of it.
    unsafe {
        raw::read(from, out.as_mut_ptr().add(out.len()), len);
        out.set_len(out.len() + len);
    }
}

/// One byte of private memory that will be filled, and may have no value before.
///
/// # Safety
/// It is one byte long, and any byte is a value of it.
pub(crate) unsafe trait Byte: Copy {}

// SAFETY: it is a byte.
unsafe impl Byte for u8 {}
// SAFETY: as long as one byte, and valid with any contents.
unsafe impl Byte for MaybeUninit<u8> {}

/// Fills `out` with the bytes of the file at `from`.
///
/// # Safety
/// `out.len()` bytes at `from` are inside the mapped file.
#[inline]
pub(crate) unsafe fn read<B: Byte>(from: *const u8, out: &mut [B]) {
    // SAFETY: the caller's contract; private and shared memory do not overlap.
    unsafe { raw::read(from, out.as_mut_ptr().cast(), out.len()) }
}

/// Fills `out` with as many of `bytes`, which are private memory too, as fit.
#[inline(always)]
pub(crate) fn fill<B: Byte>(bytes: &[u8], out: &mut [B]) {
    let room = out.len().min(bytes.len());
    let to = out.as_mut_ptr().cast();
    // SAFETY: both ranges have `room` bytes, and one is borrowed for writing alone. A constant
    // length needs no call.
    unsafe {
        match room {
            4 => bytes.as_ptr().copy_to_nonoverlapping(to, 4),
            8 => bytes.as_ptr().copy_to_nonoverlapping(to, 8),
            _ => bytes.as_ptr().copy_to_nonoverlapping(to, room),
        }
    }
}

/// Appends `bytes`, which are private memory too, to `out`.
#[inline(always)]
pub(crate) fn extend(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len());
    fill(bytes, out.spare_capacity_mut());
    // SAFETY: the capacity was just reserved, and `fill` has filled that many bytes of it.
    unsafe { out.set_len(out.len() + bytes.len()) };
}

/// Fills `out` with the beginning of a value of `len` bytes of the file at `from`, at most 8. The
/// value may change in place, so it is copied whole first. The caller's record stays in registers.
///
/// # Safety
/// `len` bytes at `from` are inside the mapped file.
#[cold]
#[inline(never)]
pub(crate) unsafe fn read_part<B: Byte>(from: *const u8, len: usize, out: &mut [B]) {
    let mut whole = [0u8; 8];
    let len = len.min(whole.len());
    // SAFETY: the caller's contract.
    unsafe { read(from, &mut whole[..len]) };
    fill(&whole[..len], out);
}

/// True if the `bytes.len()` bytes of the file at `from` equal `bytes`.
///
/// # Safety
/// `bytes.len()` bytes at `from` are inside the mapped file.
#[inline]
pub(crate) unsafe fn equal(from: *const u8, bytes: &[u8]) -> bool {
    // SAFETY: the caller's contract.
    unsafe { raw::equal(from, bytes.as_ptr(), bytes.len()) }
}

/// Compares 8 words in each of two lines: bit `i` is set if the upper 24 bits of word `i` are
/// `wanted`; the words of the second line follow those of the first. Each byte may be of another
/// moment, so only words that do not change meanwhile have a certain result.
///
/// # Safety
/// 64 bytes at both addresses, which are multiples of 16, are inside the mapped file.
#[inline(always)]
pub(crate) unsafe fn upper_24_are(lines: [*const u8; 2], wanted: u32) -> u32 {
    // SAFETY: the caller's contract.
    unsafe { raw::upper_24_are(lines, wanted) }
}

/// Compares 8 words in each of two lines: bit `i` is set if word `i` is that of its line in
/// `wanted`, in the bits of `mask`. Under the same conditions as [`upper_24_are`].
///
/// # Safety
/// As [`upper_24_are`].
#[inline(always)]
pub(crate) unsafe fn words_are(lines: [*const u8; 2], wanted: [u64; 2], mask: u64) -> u32 {
    // SAFETY: the caller's contract.
    unsafe { raw::words_are(lines, wanted, mask) }
}

/// The same for the lower 32 bits of each word.
///
/// # Safety
/// As [`upper_24_are`].
#[inline(always)]
pub(crate) unsafe fn lower_halves_are(lines: [*const u8; 2], wanted: [u32; 2], mask: u32) -> u32 {
    // SAFETY: the caller's contract.
    unsafe { raw::lower_halves_are(lines, wanted, mask) }
}

/// Asks the processor to fetch the cache line at `from`. Does not change its contents.
#[inline]
pub(crate) fn prefetch(from: *const u8) {
    raw::prefetch(from);
}

/// The same for a line that the caller will write: the processor fetches it with ownership, which
/// saves a second round.
#[inline]
pub(crate) fn prefetch_to_write(from: *const u8) {
    raw::prefetch_to_write(from);
}

/// Zeroes `len` bytes of the file at `to`.
///
/// # Safety
/// `len` bytes at `to` are inside the mapped file and owned by the caller.
pub(crate) unsafe fn zero(to: *mut u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe { raw::zero(to, len) }
}

#[cfg(test)]
mod tests;
