//! The contents of a log's block: a header, the rings' headers, the rings.
//!
//! Invariant: all of it lies inside the block. [`Layout::read`] checks that once; the geometry is
//! private memory from then on.

use crate::error::{Error, ErrorKind, Result};
use crate::log::line::ThreadInfo;
use crate::log::options::{LogOptions, Overflow};
use crate::memory::block::Block;
use crate::os::thread;
use crate::sync::owner::Owner;
use crate::sync::space::{Shared, Space};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The most rings of a log.
pub(crate) const MAX_RINGS: u32 = 4096;
/// Bytes of a ring.
pub(crate) const RING_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 30;

/// The log's header, 128 bytes.
#[repr(C)]
pub(crate) struct Header {
    /// Number of rings.
    pub(crate) rings: AtomicU32,
    /// 0: a full ring drops the new line; 1: it overwrites the oldest.
    pub(crate) overflow: AtomicU32,
    /// Bytes of each ring, a power of two.
    pub(crate) ring_bytes: AtomicU64,
    /// Lines of a level with a larger number are not accepted.
    pub(crate) level: AtomicU32,
    /// The owner that collects, 0 for nobody.
    pub(crate) collector: AtomicU32,
    /// The last number that was given to a thread.
    pub(crate) threads: AtomicU32,
    spare: AtomicU32,
    /// Lines for which no ring was free, and those that forked children dropped during a freeze.
    pub(crate) refused: AtomicU64,
    /// The collector's next step with a file; see [`rounds`](crate::log::rounds).
    pub(crate) round: AtomicU64,
    /// Where in which file it begins: device, inode, length, the path's hash.
    pub(crate) place: [AtomicU64; 4],
    spare2: [AtomicU64; 6],
}

/// A ring's header, 192 bytes: a line for the writer, one with its description, one for the
/// collector.
#[repr(C)]
pub(crate) struct RingHeader {
    /// The writer: owner | thread number << 32; 0 for nobody.
    pub(crate) tenant: AtomicU64,
    /// End of the committed lines. Positions count bytes from the log's beginning on.
    pub(crate) head: AtomicU64,
    /// Begin of the lines that are not overwritten; stored before they are.
    pub(crate) floor: AtomicU64,
    /// Sequence of the next line; lines that were dropped have one, too.
    pub(crate) next: AtomicU64,
    /// Lines that were dropped because the ring was full.
    pub(crate) dropped: AtomicU64,
    /// Lines that were overwritten and not collected.
    pub(crate) overwritten: AtomicU64,
    spare: [AtomicU64; 2],
    /// The description of the tenant: pid and tid (u32 each), 16 bytes of name.
    who: [AtomicU64; 3],
    spare2: [AtomicU64; 5],
    /// Begin of the lines that are not collected.
    pub(crate) tail: AtomicU64,
    /// Sequence of the line there, as far as the collector knows; 0 before the first collection.
    pub(crate) seen: AtomicU64,
    /// The values of tail and seen after the round that is written out.
    pub(crate) next_tail: AtomicU64,
    pub(crate) next_seen: AtomicU64,
    spare3: [AtomicU64; 4],
}

const _: () = assert!(size_of::<Header>() == 128 && size_of::<RingHeader>() == 192);

// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for Header {}
// SAFETY: atomics only.
#[allow(unsafe_code)]
unsafe impl Shared for RingHeader {}

const HEADER_BYTES: u64 = size_of::<Header>() as u64;
const RING_HEADER_BYTES: u64 = size_of::<RingHeader>() as u64;

impl RingHeader {
    /// Stores the description of the tenant, the calling thread: pid, tid, name, as a ring has
    /// them.
    pub(crate) fn introduce(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&std::process::id().to_le_bytes());
        bytes[4..8].copy_from_slice(&thread::number().to_le_bytes());
        bytes[8..].copy_from_slice(&thread::name());
        for (word, part) in self.who.iter().zip(bytes.chunks_exact(8)) {
            // Relaxed: display.
            word.store(u64::from_le_bytes(part.try_into().unwrap_or_default()), Ordering::Relaxed);
        }
        bytes
    }

    /// The description of the tenant.
    pub(crate) fn introduction(&self) -> ThreadInfo {
        let mut bytes = [0; 24];
        for (part, word) in bytes.chunks_exact_mut(8).zip(&self.who) {
            // Relaxed: display.
            part.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        ThreadInfo::read(&bytes)
    }
}

/// Owner and thread number in a tenant word.
pub(crate) fn tenant(owner: Owner, thread: u32) -> u64 {
    u64::from(owner.bits()) | u64::from(thread) << 32
}

/// The owner in a tenant word.
pub(crate) fn tenant_owner(word: u64) -> Option<Owner> {
    Owner::from_bits(word as u32)
}

/// The offsets of all parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Offset of the header.
    header: u64,
    /// Offset of the first ring.
    data: u64,
    pub(crate) rings: u32,
    pub(crate) ring_bytes: u64,
    pub(crate) overflow: Overflow,
    /// The longest line: a quarter of the ring.
    pub(crate) longest: usize,
}

fn front(rings: u32) -> u64 {
    (HEADER_BYTES + u64::from(rings) * RING_HEADER_BYTES).next_multiple_of(4096)
}

/// Bytes that a log with these options needs.
///
/// # Errors
/// `Invalid` for options that no log can have.
pub(crate) fn bytes(name: &str, options: &LogOptions) -> Result<u64> {
    let LogOptions { rings, ring_bytes, .. } = *options;
    if !(1..=MAX_RINGS).contains(&rings) || !RING_BYTES.contains(&ring_bytes) {
        let text = format!(
            "log '{name}': expected 1 to {MAX_RINGS} rings of 4 KiB to 1 GiB, got {rings} of \
             {ring_bytes} bytes"
        );
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    Ok(front(rings) + u64::from(rings) * ring_bytes)
}

/// Writes the header of a new log; everything else is zero.
pub(crate) fn fill(space: &Space, block: &Block, options: &LogOptions) {
    let header = space.view::<Header>(block.own());
    // Relaxed: nobody sees the log before its root is live.
    header.rings.store(options.rings, Ordering::Relaxed);
    header.overflow.store(options.overflow.code(), Ordering::Relaxed);
    header.ring_bytes.store(options.ring_bytes, Ordering::Relaxed);
    header.level.store(options.level.code(), Ordering::Relaxed);
}

impl Layout {
    /// # Errors
    /// `Damaged` if the header describes more than the block contains.
    pub(crate) fn read(space: &Space, block: &Block) -> Result<Layout> {
        if block.own_bytes() < HEADER_BYTES {
            return Err(block.damaged("its block is too short for a log"));
        }
        // Relaxed: written before the log's root was live, and never changed.
        let header = space.view::<Header>(block.own());
        let rings = header.rings.load(Ordering::Relaxed);
        let ring_bytes = header.ring_bytes.load(Ordering::Relaxed);
        let overflow = Overflow::from_code(header.overflow.load(Ordering::Relaxed));
        let sound = (1..=MAX_RINGS).contains(&rings)
            && RING_BYTES.contains(&ring_bytes)
            && ring_bytes.is_power_of_two()
            && front(rings) + u64::from(rings) * ring_bytes <= block.own_bytes();
        match overflow.filter(|_| sound) {
            Some(overflow) => {
                let (header, data) = (block.own(), block.own() + front(rings));
                let longest = (ring_bytes / 4).min(1 << 24) as usize - 64;
                Ok(Layout { header, data, rings, ring_bytes, overflow, longest })
            }
            None => Err(block.damaged("its header describes no log that fits its block")),
        }
    }

    pub(crate) fn header<'a>(&self, space: &'a Space) -> &'a Header {
        space.view(self.header)
    }

    /// The header of a ring, whose number is below [`Layout::rings`].
    #[inline]
    pub(crate) fn ring<'a>(&self, space: &'a Space, ring: u32) -> &'a RingHeader {
        debug_assert!(ring < self.rings);
        space.view(self.header + HEADER_BYTES + u64::from(ring) * RING_HEADER_BYTES)
    }

    /// Offset of a ring's first byte.
    #[inline]
    pub(crate) fn data(&self, ring: u32) -> u64 {
        self.data + u64::from(ring) * self.ring_bytes
    }
}
