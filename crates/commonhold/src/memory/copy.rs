//! Racing copies: bytes that another process may be writing at the same moment.
//!
//! A plain copy of such bytes would be a data race. On x86-64 the loads and stores are inline
//! assembly, of which the compiler may assume nothing; elsewhere they are relaxed atomics byte by byte.
//! Callers find out afterwards, by sequence, whether what they copied was whole.
//!
//! # Safety
//! Every function takes a pointer into a [`Space`](crate::sync::space::Space) with at least the given
//! number of bytes after it inside the mapped file.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod raw {
    use std::arch::asm;
    use std::arch::x86_64::__m128i;

    macro_rules! access {
        ($load:ident, $store:ident, $type:ty, $move_in:literal, $move_out:literal, $class:ident) => {
            #[inline(always)]
            pub(super) unsafe fn $load(from: *const u8) -> $type {
                let value: $type;
                // SAFETY: the caller's contract; one plain load.
                unsafe {
                    asm!($move_in, out($class) value, in(reg) from,
                         options(nostack, readonly, preserves_flags));
                }
                value
            }
            #[inline(always)]
            pub(super) unsafe fn $store(to: *mut u8, value: $type) {
                // SAFETY: the caller's contract; one plain store.
                unsafe {
                    asm!($move_out, in(reg) to, in($class) value,
                         options(nostack, preserves_flags));
                }
            }
        };
    }
    access!(load16, store16, __m128i, "movdqu {0}, [{1}]", "movdqu [{0}], {1}", xmm_reg);
    access!(load8, store8, u64, "mov {0}, [{1}]", "mov [{0}], {1}", reg);
    access!(load4, store4, u32, "mov {0:e}, [{1}]", "mov [{0}], {1:e}", reg);
    access!(load2, store2, u16, "mov {0:x}, [{1}]", "mov [{0}], {1:x}", reg);
    access!(load1, store1, u8, "mov {0}, [{1}]", "mov [{0}], {1}", reg_byte);

    /// Bit `i` is set if the upper 24 bits of word `i` of 8 are `wanted`.
    #[inline(always)]
    pub(super) unsafe fn upper_24_are(from: *const u8, wanted: u32) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: the caller's contract; four plain loads. The other instructions are in every x86-64.
        unsafe {
            let load = |at: usize| _mm_castsi128_ps(load16(from.add(at)));
            // The upper halves of four words.
            let upper = |at| _mm_shuffle_ps::<0b11_01_11_01>(load(at), load(at + 16));
            let wanted = _mm_set1_epi32(wanted as i32);
            let are =
                |at| _mm_cmpeq_epi32(_mm_srli_epi32::<8>(_mm_castps_si128(upper(at))), wanted);
            let all = _mm_packs_epi32(are(0), are(32));
            _mm_movemask_epi8(_mm_packs_epi16(all, _mm_setzero_si128())) as u32
        }
    }

    #[inline(always)]
    pub(super) unsafe fn copy_many(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's contract; the direction flag is clear by the ABI.
        unsafe {
            asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                 options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    pub(super) unsafe fn zero_many(to: *mut u8, len: usize) {
        // SAFETY: as above.
        unsafe {
            asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") 0u8,
                 options(nostack, preserves_flags));
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod raw {
    use std::sync::atomic::{AtomicU8, Ordering};

    macro_rules! access {
        ($load:ident, $store:ident, $type:ty) => {
            pub(super) unsafe fn $load(from: *const u8) -> $type {
                let mut bytes = [0; size_of::<$type>()];
                for (at, byte) in bytes.iter_mut().enumerate() {
                    // SAFETY: the caller's contract.
                    *byte = unsafe { &*from.add(at).cast::<AtomicU8>() }.load(Ordering::Relaxed);
                }
                <$type>::from_le_bytes(bytes)
            }
            pub(super) unsafe fn $store(to: *mut u8, value: $type) {
                for (at, byte) in value.to_le_bytes().into_iter().enumerate() {
                    // SAFETY: the caller's contract.
                    unsafe { &*to.add(at).cast::<AtomicU8>() }.store(byte, Ordering::Relaxed);
                }
            }
        };
    }
    access!(load16, store16, u128);
    access!(load8, store8, u64);
    access!(load4, store4, u32);
    access!(load2, store2, u16);
    access!(load1, store1, u8);

    pub(super) unsafe fn upper_24_are(from: *const u8, wanted: u32) -> u32 {
        // SAFETY: the caller's contract.
        let is = |at: usize| unsafe { load8(from.add(at * 8)) } >> 40 == u64::from(wanted);
        (0..8).map(|at| u32::from(is(at)) << at).sum()
    }

    pub(super) unsafe fn copy_many(from: *const u8, to: *mut u8, len: usize) {
        for at in 0..len {
            // SAFETY: the caller's contract.
            unsafe { store1(to.add(at), load1(from.add(at))) };
        }
    }

    pub(super) unsafe fn zero_many(to: *mut u8, len: usize) {
        for at in 0..len {
            // SAFETY: the caller's contract.
            unsafe { store1(to.add(at), 0) };
        }
    }
}

const LONG: usize = 128;

/// Copies `len` bytes; one side is in the file, the other private, or both are in the file.
///
/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract; all offsets below stay within `len`.
    unsafe {
        if len >= LONG {
            raw::copy_many(from, to, len);
        } else if len >= 16 {
            let mut at = 0;
            while at + 16 < len {
                raw::store16(to.add(at), raw::load16(from.add(at)));
                at += 16;
            }
            raw::store16(to.add(len - 16), raw::load16(from.add(len - 16)));
        } else if len >= 8 {
            let (head, tail) = (raw::load8(from), raw::load8(from.add(len - 8)));
            raw::store8(to, head);
            raw::store8(to.add(len - 8), tail);
        } else if len >= 4 {
            let (head, tail) = (raw::load4(from), raw::load4(from.add(len - 4)));
            raw::store4(to, head);
            raw::store4(to.add(len - 4), tail);
        } else if len >= 2 {
            let (head, tail) = (raw::load2(from), raw::load2(from.add(len - 2)));
            raw::store2(to, head);
            raw::store2(to.add(len - 2), tail);
        } else if len == 1 {
            raw::store1(to, raw::load1(from));
        }
    }
}

/// Writes `bytes` into the file at `to`.
///
/// # Safety
/// `bytes.len()` bytes at `to` are inside the mapped file and owned by the caller.
#[inline]
pub(crate) unsafe fn write(to: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller's contract; private and shared memory do not overlap.
    unsafe { copy(bytes.as_ptr(), to, bytes.len()) }
}

/// Appends `len` bytes of the file at `from` to `out`.
///
/// # Safety
/// `len` bytes at `from` are inside the mapped file.
#[inline]
pub(crate) unsafe fn append(from: *const u8, len: usize, out: &mut Vec<u8>) {
    out.reserve(len);
    // SAFETY: the capacity was just reserved; `copy` initialises exactly `len` bytes of it.
    unsafe {
        copy(from, out.as_mut_ptr().add(out.len()), len);
        out.set_len(out.len() + len);
    }
}

/// Fills `out` with the bytes of the file at `from`.
///
/// # Safety
/// `out.len()` bytes at `from` are inside the mapped file.
#[inline]
pub(crate) unsafe fn read(from: *const u8, out: &mut [u8]) {
    // SAFETY: the caller's contract; private and shared memory do not overlap.
    unsafe { copy(from, out.as_mut_ptr(), out.len()) }
}

/// True if the `bytes.len()` bytes of the file at `from` equal `bytes`.
///
/// # Safety
/// `bytes.len()` bytes at `from` are inside the mapped file.
#[inline]
pub(crate) unsafe fn equal(from: *const u8, bytes: &[u8]) -> bool {
    let (other, len) = (bytes.as_ptr(), bytes.len());
    // SAFETY: the caller's contract; all offsets below stay within `len`.
    unsafe {
        if len >= 8 {
            let mut at = 0;
            while at + 8 < len {
                if raw::load8(from.add(at)) != raw::load8(other.add(at)) {
                    return false;
                }
                at += 8;
            }
            raw::load8(from.add(len - 8)) == raw::load8(other.add(len - 8))
        } else if len >= 4 {
            let last = len - 4;
            raw::load4(from) == raw::load4(other)
                && raw::load4(from.add(last)) == raw::load4(other.add(last))
        } else if len >= 2 {
            let last = len - 2;
            raw::load2(from) == raw::load2(other)
                && raw::load2(from.add(last)) == raw::load2(other.add(last))
        } else {
            len == 0 || raw::load1(from) == *other
        }
    }
}

/// Of 8 words at `from`: bit `i` is set if the upper 24 bits of word `i` are `wanted`. Every byte may be of
/// another moment: certain is only what does not change meanwhile.
///
/// # Safety
/// 64 bytes at `from` are inside the mapped file.
#[inline(always)]
pub(crate) unsafe fn upper_24_are(from: *const u8, wanted: u32) -> u32 {
    // SAFETY: the caller's contract.
    unsafe { raw::upper_24_are(from, wanted) }
}

/// Asks the processor to fetch the cache line at `from`; no effect on what is there.
#[inline]
pub(crate) fn prefetch(from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(from.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

/// The same for a line that is going to be written: it comes without a second round to own it.
#[inline]
pub(crate) fn prefetch_to_write(from: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults; processors without this one take it for a `nop`.
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) from,
             options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    prefetch(from);
}

/// Zeroes `len` bytes of the file at `to`.
///
/// # Safety
/// `len` bytes at `to` are inside the mapped file and owned by the caller.
pub(crate) unsafe fn zero(to: *mut u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe { raw::zero_many(to, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_bits_are_found_wherever_they_are() {
        let tag = 0x00ab_cdef_u64;
        for bits in 0..256u32 {
            let word = |at: u32| match (bits >> at & 1, at % 3) {
                (1, _) => (tag << 40) + 0x1234_5678 + u64::from(at),
                (_, 0) => 0,
                (_, 1) => (tag ^ 1) << 40 | 7,
                _ => tag,
            };
            let words: [u64; 8] = std::array::from_fn(|at| word(at as u32));
            // SAFETY: eight words.
            assert_eq!(unsafe { upper_24_are(words.as_ptr().cast(), tag as u32) }, bits);
        }
    }

    #[test]
    fn copies_compares_and_zeroes_every_length() {
        let source: Vec<u8> = (0..600u32).map(|i| (i * 7 + 1) as u8).collect();
        for len in 0..=600 {
            let mut shared = vec![0xEE; len + 16];
            let mut back = vec![9];
            // SAFETY: the buffers are long enough.
            unsafe {
                write(shared.as_mut_ptr().add(5), &source[..len]);
                assert!(equal(shared.as_ptr().add(5), &source[..len]));
                append(shared.as_ptr().add(5), len, &mut back);
            }
            assert_eq!(back[1..], source[..len]);
            assert!(shared[..5].iter().chain(&shared[5 + len..]).all(|&b| b == 0xEE));
            for wrong in [0, len / 2, len.saturating_sub(1)] {
                if len > 0 {
                    shared[5 + wrong] ^= 1;
                    // SAFETY: as above.
                    assert!(!unsafe { equal(shared.as_ptr().add(5), &source[..len]) });
                    shared[5 + wrong] ^= 1;
                }
            }
            // SAFETY: as above.
            unsafe { zero(shared.as_mut_ptr().add(5), len) };
            assert!(shared[5..5 + len].iter().all(|&b| b == 0));
        }
    }
}
