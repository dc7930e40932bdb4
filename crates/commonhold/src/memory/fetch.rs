//! Copies of large values by readers, which hold no lock: a value may be deleted, and its memory
//! freed to the system, while its reader is stopped in the middle of the copy.
//!
//! Touching such memory through the mapping would bring a page back permanently on a memory hold,
//! and raise SIGBUS if the file system has no room for it. So on memory holds the system copies
//! from the file. It copies zeros where there is no memory, and a stopped reader may continue at
//! any time. Between two pieces the reader checks whether the value still exists. It validates the
//! copy afterwards, as always (`map::engine::read`).
//!
//! Small values are copied through the mapping, where a system call would cost more than the copy.
//!
//! # Safety
//! A vector's spare bytes are counted as its own only when all of them have been copied.
#![allow(unsafe_code)]

use crate::memory::copy::{self, Byte};
use crate::steps::step;
use crate::sync::space::Space;
use std::mem::MaybeUninit;

/// Keys and values of at least this many bytes are large. A record without a large part lies in one
/// extent, together with its state word: half an extent less half of the longest header.
pub(crate) const LARGE: usize = (32 << 10) - 64;
/// Bytes copied between two checks.
const PIECE: usize = 256 << 10;
/// The same through the mapping: at most this much memory is brought back.
const MAPPED_PIECE: usize = 4 << 10;

/// Large bytes of a hold, and a check whether they are unchanged since the reader came.
pub(crate) struct Large<'a, F> {
    pub(crate) space: &'a Space,
    pub(crate) offset: u64,
    pub(crate) is_there: F,
}

impl<F: Fn() -> bool> Large<'_, F> {
    /// Appends `len` bytes. Once the value is gone, the remaining bytes are zero or arbitrary.
    #[cold]
    pub(crate) fn append(&self, len: usize, out: &mut Vec<u8>) {
        out.reserve(len);
        self.fill(&mut out.spare_capacity_mut()[..len]);
        // SAFETY: `fill` initialises all of them.
        unsafe { out.set_len(out.len() + len) };
    }

    /// Copies as many bytes as `out` has, in the same way.
    #[cold]
    pub(crate) fn read<B: Byte>(&self, out: &mut [B]) {
        let (start, len) = (out.as_mut_ptr().cast::<MaybeUninit<u8>>(), out.len());
        // SAFETY: a `B` is one byte; `fill` stores initialised bytes and nothing else, all of which
        // are values of it.
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

    /// Copies the first bytes and returns their number.
    fn fill_piece(&self, from: u64, out: &mut [MaybeUninit<u8>]) -> usize {
        let len = out.len().min(PIECE);
        // On a disk the system reclaims unused pages by itself, and touching them needs no room.
        if self.space.in_memory() && self.space.file().read_at(from, &mut out[..len]).is_ok() {
            return len;
        }
        let len = out.len().min(MAPPED_PIECE);
        // SAFETY: the existence of the bytes was checked when the record's lengths were read. If
        // they do not exist, `at` leads to a word of zeros at the end of the first page, and the
        // file continues after that.
        unsafe { copy::read(self.space.at(from, len as u64), &mut out[..len]) };
        len
    }
}
