//! One open hold, shared by all that was made from it.

use crate::errors::{Answer, Failure, error};
use crate::waiting::{Hurried, Patience, patiently};
use commonhold::{ErrorKind, Hold};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The hold, and whether it is closed.
///
/// While views of its memory exist (pins), closing it only refuses later calls; the end of the last
/// pin closes it. So an element stays in flight as long as an array of numpy shows it.
///
/// Everything that came from a hold has its shared, and releases it last: so the registration
/// ends where this is dropped.
pub struct SharedHold {
    hold: Hurried<Hold>,
    closed: AtomicBool,
    pins: AtomicUsize,
    /// The hold's `lock_timeout`.
    pub patience: Option<Duration>,
}

impl SharedHold {
    pub fn new(hold: Hold, patience: Option<Duration>) -> Arc<SharedHold> {
        let (closed, pins) = (AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(SharedHold { hold: Hurried::new(hold), closed, pins, patience })
    }

    /// # Errors
    /// `Closed`.
    #[inline]
    pub fn ensure(&self) -> Answer<()> {
        // Relaxed: who needs an order has the interpreter's lock.
        if self.closed.load(Ordering::Relaxed) { Err(self.closed()) } else { Ok(()) }
    }

    #[cold]
    fn closed(&self) -> Failure {
        let text = format!("{}: this handle is closed; open it again", self.hold.path().display());
        error(ErrorKind::Closed, text)
    }

    /// # Errors
    /// `Closed`.
    #[inline]
    pub fn hold(&self) -> Answer<&Hold> {
        self.ensure()?;
        Ok(&self.hold)
    }

    /// Does something with the hold that may have to wait for a lock; a signal ends the waiting.
    ///
    /// # Errors
    /// `Closed`; those of `act`.
    pub fn act<T: Send>(
        &self,
        py: Python<'_>,
        act: impl Fn(&Hold) -> commonhold::Result<T> + Sync,
    ) -> Answer<T> {
        let hold = self.hold()?;
        patiently(py, self.patience, || Ok(act(hold)?))
    }

    /// The hold, though it may be closed: it knows its own name.
    pub fn name_of(&self) -> &Hold {
        &self.hold
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub fn close(&self, py: Python<'_>) {
        if !self.closed.swap(true, Ordering::SeqCst) && self.pins.load(Ordering::SeqCst) == 0 {
            py.detach(|| self.end(Patience::some()));
        }
    }

    /// The next process that opens the hold recovers the work of dead ones that this patience does
    /// not suffice for.
    fn end(&self, _patience: Patience) {
        // Closed already: by another handle's clone.
        let _ = Hold::clone(&self.hold).close();
    }

    /// # Errors
    /// `Closed`.
    pub fn pin(&self) -> Answer<()> {
        self.ensure()?;
        self.pins.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    pub fn unpin(&self) {
        if self.pins.fetch_sub(1, Ordering::SeqCst) == 1 && self.closed.load(Ordering::SeqCst) {
            self.end(Patience::none());
        }
    }
}
