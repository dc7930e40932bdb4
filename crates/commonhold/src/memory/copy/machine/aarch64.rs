//! aarch64: Neon, which every processor that runs Linux has, for sixteen bytes at a time.
//!
//! # Safety
//! As in [`copy`](crate::memory::copy): the bytes accessed at the pointer are inside the mapped
//! file.
#![allow(unsafe_code)]

use std::arch::aarch64::uint8x16_t;
use std::arch::asm;

access!(load16, store16, uint8x16_t, "ldr {0:q}, [{1}]", "str {1:q}, [{0}]", vreg);
access!(load8, store8, u64, "ldr {0:x}, [{1}]", "str {1:x}, [{0}]", reg);
access!(load4, store4, u32, "ldr {0:w}, [{1}]", "str {1:w}, [{0}]", reg);
access!(load2, store2, u16, "ldrh {0:w}, [{1}]", "strh {1:w}, [{0}]", reg);
access!(load1, store1, u8, "ldrb {0:w}, [{1}]", "strb {1:w}, [{0}]", reg);

/// Bit `i` is set if the upper 24 bits of word `i` of twice 8 are `wanted`.
#[inline(always)]
pub(in super::super) unsafe fn upper_24_are(lines: [*const u8; 2], wanted: u32) -> u32 {
    // SAFETY: the caller's contract.
    let [low, high] = lines.map(|line| unsafe { upper_24_in(line, wanted) });
    low | high << 8
}

/// Bit `i` is set if word `i` of twice 8 is that of its line in `wanted`, in the bits of `mask`.
#[inline(always)]
pub(in super::super) unsafe fn words_are(
    lines: [*const u8; 2],
    wanted: [u64; 2],
    mask: u64,
) -> u32 {
    let in_line = |which: usize| {
        let is = |at: usize| {
            // SAFETY: the caller's contract.
            let word = unsafe { load8(lines[which].add(at * 8)) };
            u32::from((word ^ wanted[which]) & mask == 0) << at
        };
        (0..8).map(is).sum::<u32>()
    };
    in_line(0) | in_line(1) << 8
}

/// The same for the lower 32 bits of each word.
#[inline(always)]
pub(in super::super) unsafe fn lower_halves_are(
    lines: [*const u8; 2],
    wanted: [u32; 2],
    mask: u32,
) -> u32 {
    // SAFETY: the caller's contract.
    unsafe { words_are(lines, wanted.map(u64::from), mask.into()) }
}

#[inline(always)]
unsafe fn upper_24_in(from: *const u8, wanted: u32) -> u32 {
    use std::arch::aarch64::*;
    const BITS: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
    // SAFETY: the caller's contract; four plain loads, and one of a constant.
    unsafe {
        let load = |at: usize| vreinterpretq_u32_u8(load16(from.add(at)));
        // The upper halves of four words.
        let upper = |at| vuzp2q_u32(load(at), load(at + 16));
        let wanted = vdupq_n_u32(wanted);
        let are = |at| vmovn_u32(vceqq_u32(vshrq_n_u32::<8>(upper(at)), wanted));
        let all = vcombine_u16(are(0), are(32));
        u32::from(vaddvq_u16(vandq_u16(all, vld1q_u16(BITS.as_ptr()))))
    }
}

/// Copies at least 64 bytes.
#[inline(always)]
pub(super) unsafe fn copy_many(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract. The loop copies whole blocks of 64 bytes; after it, the last
    // 64 bytes are copied, some of them for the second time.
    unsafe {
        asm!("2:",
             "ldp {a:q}, {b:q}, [{from}]",
             "ldp {c:q}, {d:q}, [{from}, #32]",
             "stp {a:q}, {b:q}, [{to}]",
             "stp {c:q}, {d:q}, [{to}, #32]",
             "add {from}, {from}, #64",
             "add {to}, {to}, #64",
             "subs {left}, {left}, #64",
             "b.ne 2b",
             a = out(vreg) _, b = out(vreg) _, c = out(vreg) _, d = out(vreg) _,
             from = inout(reg) from => _, to = inout(reg) to => _,
             left = inout(reg) len & !63 => _,
             options(nostack));
        for at in [64, 48, 32, 16] {
            store16(to.add(len - at), load16(from.add(len - at)));
        }
    }
}

#[inline(always)]
pub(super) unsafe fn zero_many(to: *mut u8, len: usize) {
    let words = len & !7;
    // SAFETY: the caller's contract; all offsets stay within `len`.
    unsafe {
        (0..words).step_by(8).for_each(|at| store8(to.add(at), 0));
        (words..len).for_each(|at| store1(to.add(at), 0));
    }
}

#[inline]
pub(in super::super) fn prefetch(from: *const u8) {
    // SAFETY: a prefetch never faults.
    unsafe {
        asm!("prfm pldl1keep, [{0}]", in(reg) from, options(nostack, readonly, preserves_flags));
    }
}

#[inline]
pub(in super::super) fn prefetch_to_write(from: *const u8) {
    // SAFETY: as above.
    unsafe {
        asm!("prfm pstl1keep, [{0}]", in(reg) from, options(nostack, readonly, preserves_flags));
    }
}
