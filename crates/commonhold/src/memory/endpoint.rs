//! [`Endpoint`]: keeps a participant registered after its handle was closed.
//!
//! Producers and consumers of a channel and the collector of a log work outside of operations, in
//! the name of their participant. Its generation must not end in the meantime: other processes
//! would take over what the participant holds.

use crate::memory::arena::Arena;
use crate::sync::owner::Owner;
use std::sync::Arc;

/// While an endpoint lives, closing the handle does not end the registration. Dropping the last
/// endpoint of a closed handle ends it.
pub(crate) struct Endpoint {
    arena: Arc<Arena>,
    pub(crate) owner: Owner,
}

impl Endpoint {
    /// Takes an endpoint for the participant `owner` of this process, inside an operation. The
    /// caller then checks that the handle is still open, and drops the endpoint outside of any
    /// operation: the drop may end the registration, which waits for operations.
    pub(crate) fn take(arena: &Arc<Arena>, owner: Owner) -> Endpoint {
        arena.take_endpoint_slot();
        Endpoint { arena: Arc::clone(arena), owner }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // In a forked child, the endpoint belongs to the parent.
        if self.arena.current_owner() == Some(self.owner) {
            self.arena.release_endpoint_slot();
        }
    }
}
