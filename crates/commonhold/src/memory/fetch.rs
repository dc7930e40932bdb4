//! Copies of large values by readers, who have nothing locked: a value may be deleted, and its
//! memory given back to the system, while its reader is stopped in the middle of the copy.
//!
//! To touch such memory through the mapping would bring a page back for good on a memory hold, and
//! raise SIGBUS if the file system has no room for it. So there the system copies, from the file:
//! where there is no memory it copies zeros, and a stopped reader may wake up at any time. Between
//! two pieces the reader looks whether the value is still there. What it copied is judged
//! afterwards, as ever (`map::read`).
//!
//! Small values are copied through the mapping, where a call to the system would cost more than the
//! copy.
//!
//! # Safety
//! A vector's spare bytes are counted as its own only when all of them have been copied.
#![allow(unsafe_code)]

use crate::memory::copy::{self, Byte};
use crate::steps::step;
use crate::sync::space::Space;
use std::mem::MaybeUninit;

/// From so many bytes on a value is large. Records of that length have extents of their own.
pub(crate) const LARGE: usize = 32 << 10;
/// Bytes between two looks.
const PIECE: usize = 256 << 10;
/// The same through the mapping: what is brought back at most.
const MAPPED_PIECE: usize = 4 << 10;

/// Large bytes of a hold, and whether they are still what they were when the reader came.
pub(crate) struct Large<'a, F> {
    pub(crate) space: &'a Space,
    pub(crate) offset: u64,
    pub(crate) is_there: F,
}

impl<F: Fn() -> bool> Large<'_, F> {
    /// Appends `len` bytes; zeros, or anything, from where on they were not there any more.
    #[cold]
    pub(crate) fn append(&self, len: usize, out: &mut Vec<u8>) {
        out.reserve(len);
        self.fill(&mut out.spare_capacity_mut()[..len]);
        // SAFETY: `fill` initialises all of them.
        unsafe { out.set_len(out.len() + len) };
    }

    /// Copies as many bytes as `out` has, likewise.
    #[cold]
    pub(crate) fn read<B: Byte>(&self, out: &mut [B]) {
        let (start, len) = (out.as_mut_ptr().cast::<MaybeUninit<u8>>(), out.len());
        // SAFETY: a `B` is one byte; `fill` stores initialised bytes and nothing else, all of which are
        // values of it.
        self.fill(unsafe { std::slice::from_raw_parts_mut(start, len) });
    }

    /// True if the bytes equal these.
    #[cold]
    pub(crate) fn equals(&self, bytes: &[u8]) -> bool {
        let mut copied = Vec::new();
        self.append(bytes.len(), &mut copied);
        copied == bytes
    }

    fn fill(&self, out: &mut [MaybeUninit<u8>]) {
        let mut done = 0;
        while done < out.len() {
            step!("read.piece");
            if !(self.is_there)() {
                out[done..].fill(MaybeUninit::new(0));
                return;
            }
            done += self.fill_piece(self.offset + done as u64, &mut out[done..]);
        }
    }

    /// Copies the first bytes; returns how many.
    fn fill_piece(&self, from: u64, out: &mut [MaybeUninit<u8>]) -> usize {
        let len = out.len().min(PIECE);
        // On a disk pages that nobody needs go again by themselves, and touching them needs no
        // room.
        if self.space.in_memory() && self.space.file().read_at(from, &mut out[..len]).is_ok() {
            return len;
        }
        let len = out.len().min(MAPPED_PIECE);
        // SAFETY: that they exist was checked when the record's lengths were read; if not, `at` leads to
        // a word of zeros at the end of the first page, behind which the file goes on.
        unsafe { copy::read(self.space.at(from, len as u64), &mut out[..len]) };
        len
    }
}
