//! The chunks of a map's directory that a handle has looked at.
//!
//! A chunk does not move while its map lives, and no part of the file goes away. So a handle checks
//! the bounds of each chunk once. After that, an entry is found by its index alone.
//!
//! After the map was dropped, the memory of a chunk may serve another directory. An entry there
//! leads to a segment of another map. The operation finds out by the incarnation, which it checks
//! last.
//!
//! # Safety
//! A start is stored only after the bounds of its whole chunk were checked, and an index of the
//! chunk is accessed only through it.
#![allow(unsafe_code)]

use crate::map::root::{FIRST_BITS, Root};
use crate::memory::classes::EXTENT;
use crate::sync::space::Space;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// No chunk begins at an odd offset.
const UNKNOWN: u64 = 1;

/// By the highest set bit of an index: the offset of its chunk, less 4 bytes for each index below
/// the first one of the chunk. Indices below `2^FIRST_BITS` share a chunk.
pub(crate) struct ChunkCache([AtomicU64; 32]);

impl ChunkCache {
    pub(crate) fn new() -> ChunkCache {
        ChunkCache([const { AtomicU64::new(UNKNOWN) }; 32])
    }

    /// The entry with this index, which is below the directory's size. `None` if its chunk does not
    /// exist: the map is gone or damaged.
    #[inline(always)]
    pub(crate) fn entry<'a>(
        &self,
        space: &'a Space,
        root: &Root,
        index: u32,
    ) -> Option<&'a AtomicU32> {
        let top = (index | 1).ilog2();
        // Relaxed: a number. The entries are visible, because the directory's size was read before.
        let mut start = self.0[top as usize].load(Ordering::Relaxed);
        if start == UNKNOWN {
            start = self.look(space, root, top)?;
        }
        // SAFETY: `look` saw the whole chunk, and the index is one of the chunk's.
        Some(unsafe { space.half_there(start.wrapping_add(u64::from(index) * 4)) })
    }

    #[cold]
    fn look(&self, space: &Space, root: &Root, top: u32) -> Option<u64> {
        let (link, first, count) = match top.checked_sub(FIRST_BITS) {
            None => (&root.first_chunk, 0, 1 << FIRST_BITS),
            Some(number) => (root.chunks.get(number as usize)?, 1 << top, 1u64 << top),
        };
        let chunk = link.load(Ordering::Acquire);
        if chunk == 0 || !chunk.is_multiple_of(EXTENT) || !space.covers(chunk, count * 4) {
            return None;
        }
        let start = chunk.wrapping_sub(first * 4);
        self.0[top as usize].store(start, Ordering::Relaxed);
        Some(start)
    }
}
