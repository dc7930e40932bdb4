//! One open hold, shared by all that was made from it.

use crate::errors::{Answer, Failure, error};
use commonhold::{ErrorKind, Hold};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The hold, and whether it is closed.
///
/// While somebody looks at its memory (a pin), closing it only refuses what comes; the last pin's end closes it. So an element in
/// hand stays in hand as long as an array of numpy shows it.
pub struct Tie {
    hold: Hold,
    closed: AtomicBool,
    pins: AtomicUsize,
}

impl Tie {
    pub fn new(hold: Hold) -> Arc<Tie> {
        Arc::new(Tie { hold, closed: AtomicBool::new(false), pins: AtomicUsize::new(0) })
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

    /// The hold, though it may be closed: it knows its own name.
    pub fn name_of(&self) -> &Hold {
        &self.hold
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub fn close(&self, py: Python<'_>) {
        if !self.closed.swap(true, Ordering::SeqCst) && self.pins.load(Ordering::SeqCst) == 0 {
            py.detach(|| self.end());
        }
    }

    fn end(&self) {
        // Closed already: by another handle's clone.
        let _ = self.hold.clone().close();
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
            self.end();
        }
    }
}
