//! Places of the caller's for results.
//!
//! # Safety
//! The header requires that a place is NULL or points to enough values of its type, writable for
//! the duration of the call.
#![allow(unsafe_code)]

use crate::ffi::invalid;
use commonhold::Result;

/// Whether a value of the type can be there: the address is aligned and not NULL. One comparison.
#[inline(always)]
pub(crate) fn is_place<T>(address: *const T) -> bool {
    let bits = align_of::<T>().trailing_zeros();
    // The bits that are 0 if it is aligned become the highest; NULL becomes the highest number.
    address.addr().rotate_right(bits).wrapping_sub(1) < usize::MAX >> bits
}

/// A place for a result; NULL if the caller does not need it.
#[repr(transparent)]
pub struct Give<T>(*mut T);

impl<T: Copy> Give<T> {
    #[inline]
    pub(crate) fn set(&self, value: T) {
        if is_place(self.0) {
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
        if count > 0 && !is_place(self.0) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_aligned_and_not_null() {
        for (address, of_one, of_eight) in [
            (0, false, false),
            (1, true, false),
            (4, true, false),
            (8, true, true),
            (12, true, false),
        ] {
            assert_eq!(is_place(std::ptr::without_provenance::<u8>(address)), of_one);
            assert_eq!(is_place(std::ptr::without_provenance::<u64>(address)), of_eight);
        }
        for (address, of_eight) in [(usize::MAX, false), (usize::MAX - 7, true), (1 << 63, true)] {
            assert_eq!(is_place(std::ptr::without_provenance::<u64>(address)), of_eight);
        }
    }
}
