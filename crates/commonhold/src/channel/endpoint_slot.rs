//! [`EndpointSlot`]: ties a producer or consumer to its participant.
//!
//! Sending and receiving do not enter a lane, which would cost as much as the message. A slot does
//! here what a lane does for other operations. The participant's generation does not end while it
//! has slots, even after the handle was closed, so it never stores into another participant's line.
//! A channel is not dropped while the dropper's own process has slots in it. A forked child gets an
//! error, because the slot is its parent's.

use crate::channel::bound::Bound;
use crate::error::{ErrorKind, Result};
use crate::memory::endpoint::Endpoint;
use crate::os::fork::ForkMark;
use crate::sync::owner::Owner;
use crate::sync::robust_lock::Peers;
use std::sync::Arc;

/// A producer's or consumer's slot.
pub(super) struct EndpointSlot {
    endpoint: Endpoint,
    pub(super) bound: Arc<Bound>,
    mark: ForkMark,
}

impl EndpointSlot {
    /// Takes a slot. `claim` claims what belongs to it, inside an operation on the channel.
    ///
    /// # Errors
    /// Those of `claim`; `ReadOnly`; `NotFound` if the channel was dropped.
    pub(super) fn take<T>(
        bound: &Arc<Bound>,
        claim: impl FnOnce(&EndpointSlot) -> Result<T>,
    ) -> Result<(EndpointSlot, T)> {
        let Some(attachment) = &bound.attachment else {
            let what = "this handle was opened read-only; open the hold for writing, or join as a \
                        lossy consumer";
            return Err(bound.error(ErrorKind::ReadOnly, what));
        };
        let mark = ForkMark::new().map_err(|e| {
            crate::error::Error::os(format!("channel '{}': detecting forks", bound.block.name), &e)
        })?;
        // Declared before the lane, and so dropped after it, also after a panic: the last slot of a
        // closed handle ends the registration, which waits for lanes.
        let slot;
        let lane = attachment.enter()?;
        let endpoint = Endpoint::take(&bound.arena, lane.me());
        slot = EndpointSlot { endpoint, bound: Arc::clone(bound), mark };
        bound.arena.ensure_open()?;
        let found = claim(&slot)?;
        drop(lane);
        Ok((slot, found))
    }

    #[inline]
    pub(super) fn owner(&self) -> Owner {
        self.endpoint.owner
    }

    /// True in a child that was forked after the slot was taken.
    #[inline]
    pub(super) fn is_inherited(&self) -> bool {
        self.mark.inherited()
    }

    /// # Errors
    /// `Closed` if the hold's handle was closed, or in a forked child.
    #[inline]
    pub(super) fn ensure(&self) -> Result<()> {
        if self.mark.inherited() {
            return Err(self.inherited());
        }
        self.bound.arena.ensure_open()
    }

    #[cold]
    fn inherited(&self) -> crate::error::Error {
        let what = "this producer or consumer belongs to the parent process; open another one in \
                    this process";
        self.bound.error(ErrorKind::Closed, what)
    }
}
