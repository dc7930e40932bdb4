//! [`CallbackGate`]: callbacks of threads that may outlive the handle that they belong to.
//!
//! Invariant: after `close` has returned no callback runs, and none begins.

use std::sync::{PoisonError, RwLock};

/// Lets callbacks through until it is closed.
///
/// Dropping a handle leaves a thread behind that a stopped process blocks, or that has many
/// callbacks left. The data of the callbacks, such as a pointer of C, may be freed after the drop.
#[derive(Debug, Default)]
pub struct CallbackGate {
    is_closed: RwLock<bool>,
}

impl CallbackGate {
    /// Calls `callback`, unless the gate is closed.
    pub fn call(&self, callback: impl FnOnce()) {
        let is_closed = self.is_closed.read().unwrap_or_else(PoisonError::into_inner);
        if !*is_closed {
            callback();
        }
    }

    /// Waits for the callbacks that are running, and lets none through afterwards. A callback must
    /// not call this.
    pub fn close(&self) {
        *self.is_closed.write().unwrap_or_else(PoisonError::into_inner) = true;
    }
}
