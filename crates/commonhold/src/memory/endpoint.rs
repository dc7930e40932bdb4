//! [`Endpoint`]: keeps a participant registered after its handle was closed.
//!
//! Producers and consumers of a channel and the collector of a log work outside of operations, in
//! the name of their participant. Its generation must not end meanwhile: what it has would pass to
//! others.

use crate::memory::arena::Arena;
use crate::sync::owner::Owner;
use std::sync::Arc;

/// While it lives, closing the handle does not end the registration. Dropping the last one of a
/// closed handle does.
pub(crate) struct Endpoint {
    arena: Arc<Arena>,
    pub(crate) owner: Owner,
}

impl Endpoint {
    /// For the participant `owner` of this process, inside an operation. The caller then looks
    /// whether the handle is still open, and drops the endpoint outside of any operation: that may
    /// end the registration, which waits for operations.
    pub(crate) fn take(arena: &Arc<Arena>, owner: Owner) -> Endpoint {
        arena.take_endpoint_slot();
        Endpoint { arena: Arc::clone(arena), owner }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // In a forked child, the parent's.
        if self.arena.current_owner() == Some(self.owner) {
            self.arena.release_endpoint_slot();
        }
    }
}
