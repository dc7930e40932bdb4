//! The location of a channel: checked once by a handle, and used from then on.

use crate::channel::layout::{Head, LINE_STEP, LINES, LINES_OFFSET, Line, RING_OFFSET};
use crate::channel::options::Peer;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::arena::Arena;
use crate::memory::attach::Attachment;
use crate::memory::block::Block;
use crate::memory::ring::Ring;
use crate::memory::roots;
use crate::sync::owner::Owner;
use crate::sync::participant;
use crate::sync::space::Space;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A channel as one handle sees it.
pub(super) struct Bound {
    pub(super) arena: Arc<Arena>,
    pub(super) block: Block,
    /// `None` for a handle that was opened read-only.
    pub(super) attachment: Option<Attachment>,
    pub(super) ring: Ring,
}

/// Bytes that a channel with a ring of this size needs.
pub(super) fn bytes(ring_bytes: u64) -> u64 {
    RING_OFFSET.saturating_add(ring_bytes)
}

/// Fills the (zeroed) block of a new channel.
pub(super) fn fill(space: &Space, block: &Block) {
    let ring_bytes = block.own_bytes() - RING_OFFSET;
    // Relaxed: the root's LIVE makes it visible.
    space.view::<Head>(block.own()).ring_bytes.store(ring_bytes, Ordering::Relaxed);
}

/// The head of the channel in this block; `None` if the block is too small for one.
pub(super) fn head<'a>(space: &'a Space, block: &Block) -> Option<&'a Head> {
    let sound = block.own_bytes() > RING_OFFSET && space.covers(block.own(), RING_OFFSET);
    sound.then(|| space.view(block.own()))
}

/// The cursor line with this number. The block must have a head.
pub(super) fn line<'a>(space: &'a Space, block: &Block, number: usize) -> &'a Line {
    let number = number.min(LINES - 1) as u64;
    space.view(block.own() + LINES_OFFSET + number * LINE_STEP)
}

impl Bound {
    /// # Errors
    /// `Damaged` if the block does not contain a channel.
    pub(super) fn new(
        arena: &Arc<Arena>,
        block: Block,
        attachment: Option<Attachment>,
    ) -> Result<Bound> {
        let space = &arena.space;
        let sizes = head(space, &block).map(|head| head.ring_bytes.load(Ordering::Relaxed));
        let sizes = sizes.filter(|size| bytes(*size) == block.own_bytes());
        let ring = sizes.and_then(|size| Ring::new(space, block.own() + RING_OFFSET, size));
        let Some(ring) = ring else { return Err(block.damaged("its ring has another size")) };
        Ok(Bound { arena: Arc::clone(arena), block, attachment, ring })
    }

    #[inline]
    pub(super) fn space(&self) -> &Space {
        &self.arena.space
    }

    #[inline]
    pub(super) fn head(&self) -> &Head {
        self.space().view(self.block.own())
    }

    #[inline]
    pub(super) fn line(&self, number: usize) -> &Line {
        line(self.space(), &self.block, number)
    }

    /// The longest message.
    #[inline]
    pub(super) fn most(&self) -> u64 {
        self.ring.size() / 4
    }

    /// True until the channel is dropped. A read-only handle must check this, because it is not
    /// registered anywhere.
    pub(super) fn is_current(&self) -> bool {
        let root = roots::root(self.space(), self.block.id);
        // Acquire: incremented before the block is freed.
        root.is_some_and(|root| root.incarnation.load(Ordering::Acquire) == self.block.incarnation)
    }

    pub(super) fn peer(&self, owner: Owner) -> Peer {
        Peer { slot: owner.slot(), pid: participant::pid(self.space(), owner.slot()) }
    }

    #[cold]
    pub(super) fn damaged(&self, what: &str, position: u64) -> Error {
        let text = format!(
            "channel '{}': {what} at position {position}; drop the channel and create it again",
            self.block.name
        );
        Error::new(ErrorKind::Damaged, text)
    }

    #[cold]
    pub(super) fn error(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("channel '{}': {what}", self.block.name))
    }
}
