//! Structures that the caller filled in: options.
//!
//! # Safety
//! It is NULL or points to a value of its type: the header says so. Types that are taken are valid whatever their bytes
//! are: numbers, pointers, and function pointers that may be NULL.
#![allow(unsafe_code)]

use crate::border::invalid;
use commonhold::Result;

/// Any bytes are a value of it.
pub(crate) trait Plain: Copy {
    /// All zero: every default.
    const ZERO: Self;
}

/// A structure of the caller's; NULL for the defaults.
#[repr(transparent)]
pub struct Take<T>(*const T);

impl<T: Plain> Take<T> {
    #[inline]
    pub(crate) fn or_defaults(&self) -> Result<T> {
        if self.0.is_null() { Ok(T::ZERO) } else { self.needed("structure of options") }
    }

    pub(crate) fn optional(&self) -> Result<Option<T>> {
        if self.0.is_null() { Ok(None) } else { self.needed("structure").map(Some) }
    }

    /// # Errors
    /// `Invalid` if it is NULL.
    #[inline]
    pub(crate) fn needed(&self, what: &str) -> Result<T> {
        if self.0.is_null() || !self.0.is_aligned() {
            return Err(invalid(format!("the {what} is NULL")));
        }
        // SAFETY: see the module.
        Ok(unsafe { self.0.read() })
    }
}
