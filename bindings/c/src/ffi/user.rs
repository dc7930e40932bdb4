//! The pointer that a caller gives with a callback, and gets back with each call of it.
//!
//! # Safety
//! It is never dereferenced. For a callback that other threads call, the caller promises that it
//! may be used there: the header names the functions.
#![allow(unsafe_code)]

use std::ffi::c_void;

/// See the module.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct User(*mut c_void);

// SAFETY: see the module.
unsafe impl Send for User {}
// SAFETY: see the module.
unsafe impl Sync for User {}

impl User {
    pub(crate) const NONE: User = User(std::ptr::null_mut());
}
