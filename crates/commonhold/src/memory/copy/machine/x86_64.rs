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

/// Bit `i` is set if the upper 24 bits of word `i` of 8 are `wanted`.
#[inline(always)]
pub(in super::super) unsafe fn upper_24_are(from: *const u8, wanted: u32) -> u32 {
    use std::arch::x86_64::*;
    // SAFETY: the caller's contract; four plain loads. Every x86-64 has the other instructions.
    unsafe {
        let load = |at: usize| _mm_castsi128_ps(load16(from.add(at)));
        // The upper halves of four words.
        let upper = |at| _mm_shuffle_ps::<0b11_01_11_01>(load(at), load(at + 16));
        let wanted = _mm_set1_epi32(wanted as i32);
        let are = |at| _mm_cmpeq_epi32(_mm_srli_epi32::<8>(_mm_castps_si128(upper(at))), wanted);
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
