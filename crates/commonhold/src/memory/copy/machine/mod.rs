//! Racing copies in assembly: the same loads and stores for every byte, also while others write.
//!
//! The processor's module has the single accesses, and copies for long runs of bytes.
//!
//! # Safety
//! As in [`copy`](crate::memory::copy): the bytes accessed at the pointer are inside the mapped
//! file.
#![allow(unsafe_code)]

macro_rules! access {
    ($load:ident, $store:ident, $type:ty, $move_in:literal, $move_out:literal, $class:ident) => {
        #[inline(always)]
        pub(super) unsafe fn $load(from: *const u8) -> $type {
            let value: $type;
            // SAFETY: the caller's contract; one plain load.
            unsafe {
                std::arch::asm!($move_in, out($class) value, in(reg) from,
                     options(nostack, readonly, preserves_flags));
            }
            value
        }
        #[inline(always)]
        pub(super) unsafe fn $store(to: *mut u8, value: $type) {
            // SAFETY: the caller's contract; one plain store.
            unsafe {
                std::arch::asm!($move_out, in(reg) to, in($class) value,
                     options(nostack, preserves_flags));
            }
        }
    };
}

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as processor;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;

use processor::{
    copy_many, load1, load2, load4, load8, load16, store1, store2, store4, store8, store16,
};
pub(super) use processor::{
    lower_halves_are, prefetch, prefetch_to_write, upper_24_are, words_are,
};

/// More bytes than this are copied by [`copy_many`], which takes its time to begin.
const LONG: usize = 768;

/// Copies `len` bytes; one side is in the file, the other private. 1, 2, 4 or 8 bytes all come
/// from one load: the last one, whose bytes replace all earlier ones.
///
/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract; all offsets below stay within `len`.
    unsafe {
        if len == 4 {
            store4(to, load4(from));
        } else if len == 8 {
            store8(to, load8(from));
        } else if len >= 16 {
            copy_long(from, to, len);
        } else if len >= 8 {
            let (head, tail) = (load8(from), load8(from.add(len - 8)));
            store8(to, head);
            store8(to.add(len - 8), tail);
        } else if len >= 4 {
            let (head, tail) = (load4(from), load4(from.add(len - 4)));
            store4(to, head);
            store4(to.add(len - 4), tail);
        } else if len >= 2 {
            let (head, tail) = (load2(from), load2(from.add(len - 2)));
            store2(to, head);
            store2(to.add(len - 2), tail);
        } else if len == 1 {
            store1(to, load1(from));
        }
    }
}

/// The same for at least 16 bytes.
///
/// # Safety
/// As [`copy`].
unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract; all offsets below stay within `len`.
    unsafe {
        if len <= 32 {
            return copy_16s(from, to, len);
        }
        if len > LONG {
            return copy_many(from, to, len);
        }
        let mut at = 0;
        while at + 32 < len {
            copy_16s(from.add(at), to.add(at), 32);
            at += 32;
        }
        copy_16s(from.add(len - 32), to.add(len - 32), 32);
    }
}

/// The same for 16 to 32 bytes.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn copy_16s(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract; all offsets stay within `len`.
    unsafe {
        let (head, tail) = (load16(from), load16(from.add(len - 16)));
        store16(to, head);
        store16(to.add(len - 16), tail);
    }
}

/// One store of `len` bytes, in the file; contract of [`copy::replace`](crate::memory::copy).
#[inline(always)]
pub(super) unsafe fn replace(to: *mut u8, bits: u64, len: u32) {
    // SAFETY: the caller's contract. The lower bytes come first.
    unsafe {
        if len == 4 {
            store4(to, (bits as u32).to_le());
        } else if len == 8 {
            store8(to, bits.to_le());
        } else if len == 2 {
            store2(to, (bits as u16).to_le());
        } else {
            store1(to, bits as u8);
        }
    }
}

/// From the file into private memory; contract of [`copy`].
#[inline]
pub(super) unsafe fn read(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe { copy(from, to, len) }
}

/// From private memory into the file; contract of [`copy`].
#[inline]
pub(super) unsafe fn write(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe { copy(from, to, len) }
}

/// Whether `len` bytes in the file and in private memory are the same; contract of [`copy`].
#[inline(always)]
pub(super) unsafe fn equal(from: *const u8, other: *const u8, len: usize) -> bool {
    // SAFETY: the caller's contract; all offsets below stay within `len`.
    unsafe {
        // The other side is private.
        let word = |at: usize| other.add(at).cast::<u64>().read_unaligned();
        let half = |at: usize| other.add(at).cast::<u32>().read_unaligned();
        let pair = |at: usize| other.add(at).cast::<u16>().read_unaligned();
        if len == 4 {
            load4(from) == half(0)
        } else if len >= 8 {
            let mut at = 0;
            while at + 8 < len {
                if load8(from.add(at)) != word(at) {
                    return false;
                }
                at += 8;
            }
            load8(from.add(len - 8)) == word(len - 8)
        } else if len >= 4 {
            load4(from) == half(0) && load4(from.add(len - 4)) == half(len - 4)
        } else if len >= 2 {
            load2(from) == pair(0) && load2(from.add(len - 2)) == pair(len - 2)
        } else {
            len == 0 || load1(from) == *other
        }
    }
}

/// Zeroes `len` bytes in the file.
///
/// # Safety
/// The range is valid for `len` bytes.
pub(super) unsafe fn zero(to: *mut u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe { processor::zero_many(to, len) }
}
