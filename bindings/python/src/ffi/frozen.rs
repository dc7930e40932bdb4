//! A freeze that keeps its hold alive.
//!
//! # Safety
//! A [`Freeze`] borrows from the hold, which is kept in the same value and dropped after it. It
//! belongs to the thread that made it. [`Python::detach`] calls back on the same thread, so the
//! result of [`patiently`] has not left that thread.
#![allow(unsafe_code)]

use crate::errors::Answer;
use crate::shared_hold::SharedHold;
use crate::waiting::patiently;
use commonhold::hold::Freeze;
use pyo3::prelude::*;
use std::sync::Arc;

/// A hold and its freeze; of the thread that made it.
pub struct Frozen {
    // The order matters: fields are dropped from the first on.
    freeze: Freeze<'static>,
    shared: Arc<SharedHold>,
}

struct SameThread<T>(T);

// SAFETY: made and used up in one function, around `patiently`.
unsafe impl<T> Send for SameThread<T> {}

impl Frozen {
    /// Waits, for other freezes and for writers, with the interpreter released.
    ///
    /// # Errors
    /// Those of freezing.
    pub fn new(py: Python<'_>, shared: &Arc<SharedHold>) -> Answer<Frozen> {
        let SameThread(frozen) =
            patiently(py, shared.patience, || Frozen::made(shared).map(SameThread))?;
        Ok(frozen)
    }

    fn made(shared: &Arc<SharedHold>) -> Answer<Frozen> {
        let shared = Arc::clone(shared);
        let freeze = shared.hold()?.freeze()?;
        // SAFETY: the borrowed value is behind the `Arc`, which lives longer.
        let freeze = unsafe { std::mem::transmute::<Freeze<'_>, Freeze<'static>>(freeze) };
        Ok(Frozen { freeze, shared })
    }

    /// Lets writers continue; returns the hold.
    pub fn thaw(self) -> Arc<SharedHold> {
        drop(self.freeze);
        self.shared
    }
}
