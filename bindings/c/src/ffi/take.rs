//! Structures that the caller filled in: positions, elements, options.
//!
//! Options begin with their own size, so that a program and a library of different versions
//! understand each other: members that the program does not know yet have their defaults, and such
//! as the library does not know yet must have theirs, which is zero.
//!
//! # Safety
//! It is NULL or points to a value of its type, options to as many bytes as they say: the header
//! says so. Types that are taken are valid whatever their bytes are: numbers, pointers, and
//! function pointers that may be NULL. Options have no padding (the header's checks are in
//! `abi_tests`), so that each of their bytes is a member's.
#![allow(unsafe_code)]

use crate::ffi::give::is_place;
use crate::ffi::invalid;
use commonhold::{Error, Result};
use std::mem::MaybeUninit;

/// Any bytes are a value of it.
pub(crate) trait Plain: Copy {
    /// All zero: every default.
    const ZERO: Self;
}

/// A structure of options, which later versions add members to: the first is a `usize`, its size.
pub(crate) trait Growing: Plain {
    /// The macro of the header that initializes it.
    const INIT: &'static str;

    /// Bytes that have no meaning yet, and are zero therefore.
    fn reserved(&self) -> u32 {
        0
    }
}

/// A structure of the caller's.
#[repr(transparent)]
pub struct Take<T>(*const T);

impl<T: Plain> Take<T> {
    pub(crate) fn optional(&self) -> Result<Option<T>> {
        if self.0.is_null() { Ok(None) } else { self.needed("structure").map(Some) }
    }

    /// # Errors
    /// `Invalid` if it is NULL.
    #[inline]
    pub(crate) fn needed(&self, what: &str) -> Result<T> {
        if !is_place(self.0) {
            return Err(invalid(format!("the {what} is NULL")));
        }
        // SAFETY: see the module.
        Ok(unsafe { self.0.read() })
    }
}

/// More than any structure of options will ever have.
const MOST: usize = 1 << 16;

/// The size in a structure of options, if a structure of this type can have it.
fn believed<T: Growing>(options: *const T) -> Result<usize> {
    if !is_place(options) {
        return Err(invalid("the options are NULL"));
    }
    // SAFETY: see the module: it begins with its size.
    let size = unsafe { options.cast::<usize>().read() };
    let can_be =
        (size_of::<usize>()..=MOST).contains(&size) && size.is_multiple_of(align_of::<T>());
    if can_be { Ok(size) } else { Err(impossible(size, T::INIT)) }
}

#[cold]
fn impossible(size: usize, init: &str) -> Error {
    invalid(format!(
        "the size in the options is invalid: {size}; initialize them with {init}, which sets it"
    ))
}

#[cold]
fn unknown(size: usize, init: &str) -> Error {
    invalid(format!(
        "some of the options' {size} bytes are unknown to this version ({}) and not zero; \
         initialize them with {init}, or use a newer version",
        env!("CARGO_PKG_VERSION")
    ))
}

/// A structure of options; NULL for the defaults.
#[repr(transparent)]
pub struct Asked<T>(*const T);

impl<T> Clone for Asked<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Asked<T> {}

impl<T: Growing> Asked<T> {
    pub(crate) const NULL: Asked<T> = Asked(std::ptr::null());

    /// # Errors
    /// `Invalid` if its size is impossible, or it requests options that this version does not know.
    pub(crate) fn or_defaults(&self) -> Result<T> {
        if self.0.is_null() { Ok(T::ZERO) } else { self.needed() }
    }

    /// # Errors
    /// The same; `Invalid` if it is NULL.
    pub(crate) fn needed(&self) -> Result<T> {
        let size = believed(self.0)?;
        let known = size.min(size_of::<T>());
        let mut taken = MaybeUninit::new(T::ZERO);
        let from = self.0.cast::<u8>();
        // SAFETY: see the module: `size` bytes are readable. They replace at most the bytes of a
        // value whose type allows any bytes.
        let taken = unsafe {
            from.copy_to_nonoverlapping(taken.as_mut_ptr().cast(), known);
            taken.assume_init()
        };
        // SAFETY: as above.
        let others_are_zero = (known..size).all(|at| unsafe { from.add(at).read() } == 0);
        if others_are_zero && taken.reserved() == 0 {
            Ok(taken)
        } else {
            Err(unknown(size, T::INIT))
        }
    }
}

/// A place for options, which begins with its size in bytes.
#[repr(transparent)]
pub struct GiveOptions<T>(*mut T);

impl<T: Growing> GiveOptions<T> {
    /// # Errors
    /// `Invalid` if there is none, or its size is impossible.
    pub(crate) fn needed(&self) -> Result<usize> {
        believed(self.0)
    }

    /// Fills in the members that both sides know; what else the caller's has is zero.
    ///
    /// # Errors
    /// As [`needed`](Self::needed).
    pub(crate) fn set(&self, value: T) -> Result<()> {
        let (size, to) = (self.needed()?, self.0.cast::<u8>());
        let known = size.min(size_of::<T>());
        // SAFETY: see the module: `size` bytes are writable.
        unsafe {
            (&raw const value).cast::<u8>().copy_to_nonoverlapping(to, known);
            to.add(known).write_bytes(0, size - known);
            self.0.cast::<usize>().write(size);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonhold::ErrorKind;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Now {
        size: usize,
        first: u64,
        second: u64,
    }

    impl Plain for Now {
        const ZERO: Now = Now { size: 0, first: 0, second: 0 };
    }

    impl Growing for Now {
        const INIT: &'static str = "NOW_INIT";
    }

    /// A caller's structure of `WORDS` words, the first of which is its size.
    fn given(words: &[u64]) -> Result<Now> {
        Asked(words.as_ptr().cast::<Now>()).needed()
    }

    #[test]
    fn callers_of_other_versions_are_understood() {
        assert_eq!(given(&[24, 1, 2]).unwrap(), Now { size: 24, first: 1, second: 2 });
        assert_eq!(given(&[16, 1, 2]).unwrap(), Now { size: 16, first: 1, second: 0 });
        assert_eq!(given(&[8, 1, 2]).unwrap(), Now { size: 8, first: 0, second: 0 });
        assert_eq!(given(&[40, 1, 2, 0, 0]).unwrap(), Now { size: 40, first: 1, second: 2 });
        for unknown in [[40, 1, 2, 1, 0], [40, 1, 2, 0, 1 << 63]] {
            let error = given(&unknown).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("newer version"), "{error}");
        }
    }

    #[test]
    fn a_size_that_cannot_be_is_refused() {
        for size in [0, 4, 7, 17, 1 << 17, u64::MAX] {
            let error = given(&[size, 0, 0]).unwrap_err();
            assert!(error.to_string().contains("NOW_INIT"), "{error}");
        }
        assert!(Asked::<Now>(std::ptr::null()).needed().is_err());
        assert_eq!(Asked::<Now>(std::ptr::null()).or_defaults().unwrap(), Now::ZERO);
    }

    #[test]
    fn results_keep_to_the_callers_size() {
        let value = Now { size: 0, first: 1, second: 2 };
        for (words, expected) in [
            ([16, 7, 7, 7], [16, 1, 7, 7]),
            ([24, 7, 7, 7], [24, 1, 2, 7]),
            ([32, 7, 7, 7], [32, 1, 2, 0]),
        ] {
            let mut words: [u64; 4] = words;
            GiveOptions(words.as_mut_ptr().cast::<Now>()).set(value).unwrap();
            assert_eq!(words, expected);
        }
    }
}
