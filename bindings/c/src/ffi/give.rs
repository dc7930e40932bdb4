//! Places of the caller's for results.
//!
//! # Safety
//! The header requires that a place is NULL or points to enough values of its type, writable for
//! the duration of the call.
#![allow(unsafe_code)]

use crate::ffi::invalid;
use commonhold::Result;

/// A place for a result; NULL if the caller does not need it.
#[repr(transparent)]
pub struct Give<T>(*mut T);

impl<T: Copy> Give<T> {
    #[inline]
    pub(crate) fn set(&self, value: T) {
        if !self.0.is_null() && self.0.is_aligned() {
            // SAFETY: see the module.
            unsafe { self.0.write(value) }
        }
    }

    /// Its present value; only if it is [`needed`](Self::needed).
    pub(crate) fn get(&self) -> T {
        // SAFETY: see the module; of what the header says goes in and out, the caller has set it.
        unsafe { self.0.read() }
    }

    /// Checks in advance that there is a place for the result.
    ///
    /// # Errors
    /// `Invalid` if it has not.
    #[inline]
    pub(crate) fn needed(&self, what: &str) -> Result<()> {
        self.needed_many(what, 1)
    }

    /// The same, of an array.
    ///
    /// # Errors
    /// `Invalid` if it has not.
    #[inline]
    pub(crate) fn needed_many(&self, what: &str, count: usize) -> Result<()> {
        if count > 0 && (self.0.is_null() || !self.0.is_aligned()) {
            return Err(invalid(format!("the pointer for the {what} is NULL")));
        }
        Ok(())
    }

    /// Sets one of an array, which has more than `at` values.
    #[inline]
    pub(crate) fn set_at(&self, at: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: see the module.
            unsafe { self.0.add(at).write(value) }
        }
    }
}
