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

use crate::map::layout::root::{FIRST_BITS, Root};
use crate::memory::classes::EXTENT;
use crate::sync::space::Space;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// By the highest set bit of an index: the address of its chunk, less 4 bytes for each index below
/// the first one of the chunk; null if it has not been looked at. Indices below `2^FIRST_BITS`
/// share a chunk.
pub(crate) struct ChunkCache([AtomicPtr<AtomicU32>; 32]);

impl ChunkCache {
    pub(crate) fn new() -> ChunkCache {
        ChunkCache([const { AtomicPtr::new(ptr::null_mut()) }; 32])
    }

    /// The contents of the entry with this index, which is below the directory's size. Acquire
    /// pairs with the release of the entry: the segment is visible. `None` if its chunk does not
    /// exist: the map is gone or damaged.
    #[inline(always)]
    pub(crate) fn load(&self, space: &Space, root: &Root, index: u32) -> Option<u32> {
        let entry = self.address(space, root, index)?;
        // SAFETY: as in `entry`.
        Some(unsafe { &*entry }.load(Ordering::Acquire))
    }

    /// The same entry itself.
    #[inline(always)]
    pub(crate) fn entry<'a>(
        &self,
        space: &'a Space,
        root: &Root,
        index: u32,
    ) -> Option<&'a AtomicU32> {
        let entry = self.address(space, root, index)?;
        // SAFETY: the entry exists, and the mapping lives as long as the space.
        Some(unsafe { &*entry })
    }

    /// The address of the entry. `look` saw the whole chunk, and the index is one of the chunk's.
    #[inline(always)]
    fn address(&self, space: &Space, root: &Root, index: u32) -> Option<*mut AtomicU32> {
        let top = (index | 1).ilog2();
        // Relaxed: an address. The entries are visible, because the directory's size was read
        // before.
        let mut start = self.0[top as usize].load(Ordering::Relaxed);
        if start.is_null() {
            start = self.look(space, root, top)?;
        }
        Some(start.wrapping_add(index as usize))
    }

    #[cold]
    #[inline(never)]
    fn look(&self, space: &Space, root: &Root, top: u32) -> Option<*mut AtomicU32> {
        let (link, first, count) = match top.checked_sub(FIRST_BITS) {
            None => (&root.first_chunk, 0, 1 << FIRST_BITS),
            Some(number) => (root.chunks.get(number as usize)?, 1 << top, 1u64 << top),
        };
        let chunk = link.load(Ordering::Acquire);
        if chunk == 0 || !chunk.is_multiple_of(EXTENT) {
            return None;
        }
        let start = space.reach(chunk, count * 4)?.cast::<AtomicU32>().wrapping_sub(first);
        self.0[top as usize].store(start, Ordering::Relaxed);
        Some(start)
    }
}
