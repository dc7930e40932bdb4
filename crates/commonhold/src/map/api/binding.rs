//! The map that a handle is bound to: the one it was opened for or, for a replica's map, the one
//! that has replaced it.
//!
//! A replica that starts again fills a shadow map, which then takes over the name of the old map
//! ([`crate::map::engine::shadow_map`]). Handles on the old one continue with the new one: the
//! first operation that finds its map gone looks the name up again.
//!
//! # Safety
//! `current` always points to a link that this binding created. Links are only added in front, and
//! are freed with the binding. A link that was current once therefore lives as long as the binding,
//! and an operation of another thread may finish with it. There is no lock, because a forked child
//! might find it held forever by a thread that it does not have.
#![allow(unsafe_code)]

use crate::error::{Error, ErrorKind, Result};
use crate::map::engine::bound::{self, Bound};
use crate::sync::space::Space;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The map to which a handle and its clones are bound.
pub(crate) struct Binding {
    current: AtomicPtr<Link>,
    owned: PhantomData<Bound>,
}

/// A few hundred bytes for each time that a replica has started again.
struct Link {
    bound: Bound,
    before: *mut Link,
}

impl Binding {
    pub(crate) fn new(bound: Bound) -> Binding {
        let first = Box::new(Link { bound, before: ptr::null_mut() });
        Binding { current: AtomicPtr::new(Box::into_raw(first)), owned: PhantomData }
    }

    /// Reads the map. Reads again if another map has replaced it meanwhile.
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
                Err(error) if self.was_replaced(space, bound, &error)? => {}
                result => return result,
            }
        }
    }

    /// True if the map that `error` reports as dropped was replaced by its shadow map, which is
    /// current now.
    #[cold]
    fn was_replaced(&self, space: &Space, gone: &Bound, error: &Error) -> Result<bool> {
        if error.kind() != ErrorKind::NotFound || !gone.replica || gone.is_current(space) {
            return Ok(false);
        }
        // Acquire, here and below, as in `deref`.
        let before = self.current.load(Ordering::Acquire);
        // SAFETY: one of this binding's, which lives as long as `self`.
        if !ptr::eq(unsafe { &raw const (*before).bound }, gone) {
            return Ok(true); // Another thread has found it.
        }
        let next = bound::open(space, &gone.name)?;
        let Some(next) = next.filter(|next| next.replica && next.mode == gone.mode) else {
            return Ok(false);
        };
        let bound = next.with_value_room(gone.value_room);
        let next = Box::into_raw(Box::new(Link { bound, before }));
        // Release: the link is complete for a reader that sees it.
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        if self.current.compare_exchange(before, next, success, failure).is_err() {
            // Another thread was faster.
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(next) });
        }
        Ok(true)
    }
}

impl Deref for Binding {
    type Target = Bound;

    #[inline]
    fn deref(&self) -> &Bound {
        // Acquire pairs with the release that made it current: it is complete.
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: one of this binding's, which lives as long as `self`.
        unsafe { &(*current).bound }
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        let mut next = *self.current.get_mut();
        while !next.is_null() {
            // SAFETY: created by `Box::into_raw`, freed only here, and nobody borrows from `self`
            // any more.
            let link = unsafe { Box::from_raw(next) };
            next = link.before;
        }
    }
}
