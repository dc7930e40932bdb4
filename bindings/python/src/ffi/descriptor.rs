//! File descriptors that Python gives.
//!
//! # Safety
//! A number is only lent for the moment in which it is copied; a wrong one is an error of the
//! system's.
#![allow(unsafe_code)]

use crate::convert::invalid;
use crate::errors::Answer;
use pyo3::prelude::*;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A duplicate of the descriptor that an object with `fileno()`, or a number, names.
pub fn copy(object: &Bound<'_, PyAny>) -> Answer<OwnedFd> {
    let number: i32 = match object.hasattr("fileno")? {
        true => object.call_method0("fileno")?.extract()?,
        false => object.extract()?,
    };
    if number < 0 {
        return Err(invalid(format!("{number} is not a file descriptor")));
    }
    // SAFETY: not negative; if it is not open, duplicating it fails.
    let lent = unsafe { BorrowedFd::borrow_raw(number) };
    let copy = lent.try_clone_to_owned();
    Ok(copy.map_err(PyErr::from)?)
}
