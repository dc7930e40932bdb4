//! What only one thread at a time may use, and any thread may.
//!
//! # Safety
//! The value is reached through a guard alone, and there is one guard at a time: it is made by who stored `busy`, and
//! dropping it clears that.
#![allow(unsafe_code)]

use commonhold::{Error, ErrorKind, Result};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module.
pub(crate) struct Alone<T> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: see the module: no two threads reach the value at the same time.
unsafe impl<T: Send> Sync for Alone<T> {}

impl<T> Alone<T> {
    pub(crate) fn new(value: T) -> Alone<T> {
        Alone { busy: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// # Errors
    /// `Busy` if another thread is just using it, or a callback of this one.
    #[inline]
    pub(crate) fn lock(&self) -> Result<Guard<'_, T>> {
        // Acquire pairs with the release of the guard that was.
        if self.busy.swap(true, Ordering::Acquire) { Err(busy()) } else { Ok(Guard(self)) }
    }
}

#[cold]
fn busy() -> Error {
    let text =
        "another call is using this handle at this moment; it can be used by one thread at a time";
    Error::new(ErrorKind::Busy, text)
}

/// Who may use it now.
pub(crate) struct Guard<'a, T>(&'a Alone<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: see the module.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: see the module.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}
