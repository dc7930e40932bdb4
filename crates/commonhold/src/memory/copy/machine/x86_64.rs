//! x86-64: SSE2 for sixteen bytes at a time, string instructions for long runs.
//!
//! # Safety
//! As in [`copy`](crate::memory::copy): the bytes accessed at the pointer are inside the mapped
//! file.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::__m128i;

access!(load16, store16, __m128i, "movdqu {0}, [{1}]", "movdqu [{0}], {1}", xmm_reg);
access!(load8, store8, u64, "mov {0}, [{1}]", "mov [{0}], {1}", reg);
access!(load4, store4, u32, "mov {0:e}, [{1}]", "mov [{0}], {1:e}", reg);
access!(load2, store2, u16, "mov {0:x}, [{1}]", "mov [{0}], {1:x}", reg);
access!(load1, store1, u8, "mov {0}, [{1}]", "mov [{0}], {1}", reg_byte);

/// Bit `i` is set if the upper 24 bits of word `i` of twice 8 are `wanted`.
#[inline(always)]
pub(in super::super) unsafe fn upper_24_are(lines: [*const u8; 2], wanted: u32) -> u32 {
    use std::arch::x86_64::*;
    // SAFETY: the caller's contract. Every x86-64 has these instructions.
    unsafe {
        let wanted = _mm_set1_epi32(wanted as i32);
        let are = |halves| _mm_cmpeq_epi32(_mm_srli_epi32::<8>(halves), wanted);
        let in_line = |line| {
            let (low, high) = upper_halves(line);
            _mm_packs_epi32(are(low), are(high))
        };
        _mm_movemask_epi8(_mm_packs_epi16(in_line(lines[0]), in_line(lines[1]))) as u32
    }
}

/// Bit `i` is set if word `i` of twice 8 is that of its line in `wanted`, in the bits of `mask`.
#[inline(always)]
pub(in super::super) unsafe fn words_are(
    lines: [*const u8; 2],
    wanted: [u64; 2],
    mask: u64,
) -> u32 {
    use std::arch::x86_64::*;
    // SAFETY: the caller's contract. Every x86-64 has these instructions.
    unsafe {
        let (none, mask) = (_mm_setzero_si128(), _mm_set1_epi64x(mask as i64));
        let in_line = |line, wanted: u64| {
            let wanted = _mm_set1_epi64x(wanted as i64);
            let different = words_of(line)
                .map(|words| _mm_castsi128_ps(_mm_and_si128(_mm_xor_si128(words, wanted), mask)));
            let are = |low, high| {
                let lower = _mm_shuffle_ps::<0b10_00_10_00>(low, high);
                let upper = _mm_shuffle_ps::<0b11_01_11_01>(low, high);
                _mm_cmpeq_epi32(_mm_castps_si128(_mm_or_ps(lower, upper)), none)
            };
            let [a, b, c, d] = different;
            _mm_packs_epi32(are(a, b), are(c, d))
        };
        let both = [in_line(lines[0], wanted[0]), in_line(lines[1], wanted[1])];
        _mm_movemask_epi8(_mm_packs_epi16(both[0], both[1])) as u32
    }
}

/// The same for the lower 32 bits of each word.
#[inline(always)]
pub(in super::super) unsafe fn lower_halves_are(
    lines: [*const u8; 2],
    wanted: [u32; 2],
    mask: u32,
) -> u32 {
    use std::arch::x86_64::*;
    // SAFETY: the caller's contract. Every x86-64 has these instructions.
    unsafe {
        let mask = _mm_set1_epi32(mask as i32);
        let in_line = |line, wanted: u32| {
            let wanted = _mm_and_si128(_mm_set1_epi32(wanted as i32), mask);
            let are = |halves| _mm_cmpeq_epi32(_mm_and_si128(halves, mask), wanted);
            let (low, high) = lower_halves(line);
            _mm_packs_epi32(are(low), are(high))
        };
        let both = [in_line(lines[0], wanted[0]), in_line(lines[1], wanted[1])];
        _mm_movemask_epi8(_mm_packs_epi16(both[0], both[1])) as u32
    }
}

/// The eight words of a line.
#[inline(always)]
unsafe fn words_of(line: *const u8) -> [__m128i; 4] {
    let (a, b, c, d);
    // SAFETY: the caller's contract; four plain loads of aligned 16 bytes.
    unsafe {
        asm!("movdqa {a}, [{line}]", "movdqa {b}, [{line} + 16]",
             "movdqa {c}, [{line} + 32]", "movdqa {d}, [{line} + 48]",
             a = out(xmm_reg) a, b = out(xmm_reg) b, c = out(xmm_reg) c, d = out(xmm_reg) d,
             line = in(reg) line, options(nostack, readonly, preserves_flags));
    }
    [a, b, c, d]
}

/// Defines a function that loads one half of each word of a line: of the first four words, and of
/// the last four.
macro_rules! halves {
    ($name:ident, $choice:literal) => {
        #[inline(always)]
        unsafe fn $name(line: *const u8) -> (__m128i, __m128i) {
            let (low, high);
            // SAFETY: the caller's contract; four plain loads of aligned 16 bytes.
            unsafe {
                asm!("movaps {low}, [{line}]",
                     concat!("shufps {low}, [{line} + 16], ", $choice),
                     "movaps {high}, [{line} + 32]",
                     concat!("shufps {high}, [{line} + 48], ", $choice),
                     low = out(xmm_reg) low, high = out(xmm_reg) high, line = in(reg) line,
                     options(nostack, readonly, preserves_flags));
            }
            (low, high)
        }
    };
}

halves!(lower_halves, "0x88");
halves!(upper_halves, "0xdd");

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

#[inline]
pub(in super::super) fn prefetch(from: *const u8) {
    // SAFETY: a prefetch never faults.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(from.cast()) };
}

#[inline]
pub(in super::super) fn prefetch_to_write(from: *const u8) {
    // SAFETY: a prefetch never faults; processors without this one execute it as a `nop`.
    unsafe {
        asm!("prefetchw [{0}]", in(reg) from, options(nostack, readonly, preserves_flags));
    }
}
