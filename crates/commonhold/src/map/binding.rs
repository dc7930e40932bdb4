//! Which map a handle means: the one it was opened for or, if that is a replica's, the one that has taken its place.
//!
//! A replica that starts anew builds its map beside the old one, and the new one then takes the name over
//! ([`crate::map::succession`]). Handles on the old one go on with the new: the first operation that finds its map gone
//! looks the name up again.
//!
//! # Safety
//! `current` always points into one of `all`, which only grows: what was current once lives as long as the binding, so
//! that an operation of another thread may finish with it.
#![allow(unsafe_code)]

use crate::error::{Error, ErrorKind, Result};
use crate::map::bound::{self, Bound};
use crate::sync::space::Space;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

/// What a handle and its clones are bound to.
pub(crate) struct Binding {
    current: AtomicPtr<Bound>,
    /// Some hundred bytes for each time that a replica has begun anew.
    all: Mutex<Vec<Arc<Bound>>>,
}

impl Binding {
    pub(crate) fn new(bound: Bound) -> Binding {
        let bound = Arc::new(bound);
        Binding {
            current: AtomicPtr::new(Arc::as_ptr(&bound).cast_mut()),
            all: Mutex::new(vec![bound]),
        }
    }

    /// Reads the map; again, if another one has taken its place meanwhile.
    ///
    /// # Errors
    /// Those of `read`.
    #[inline]
    pub(crate) fn read<R>(
        &self,
        space: &Space,
        mut read: impl FnMut(&Bound) -> Result<R>,
    ) -> Result<R> {
        loop {
            let bound: &Bound = self;
            match read(bound) {
                Err(error) if self.goes_on(space, bound, &error)? => {}
                result => return result,
            }
        }
    }

    /// True if the map that `error` tells is gone has a successor, which is the current one now.
    #[cold]
    fn goes_on(&self, space: &Space, gone: &Bound, error: &Error) -> Result<bool> {
        if error.kind() != ErrorKind::NotFound || !gone.replica || gone.is_current(space) {
            return Ok(false);
        }
        let mut all = self.all.lock().unwrap_or_else(|e| e.into_inner());
        if !std::ptr::eq(&**self, gone) {
            return Ok(true); // Another thread has found it.
        }
        let next = bound::open(space, &gone.name)?;
        let Some(next) = next.filter(|next| next.replica && next.mode == gone.mode) else {
            return Ok(false);
        };
        let next = Arc::new(next.with_value_room(gone.value_room));
        self.current.store(Arc::as_ptr(&next).cast_mut(), Ordering::Release);
        all.push(next);
        Ok(true)
    }
}

impl Deref for Binding {
    type Target = Bound;

    #[inline]
    fn deref(&self) -> &Bound {
        // Acquire pairs with the release that made it current: it is whole.
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: one of `all`, which live as long as `self`.
        unsafe { &*current }
    }
}
