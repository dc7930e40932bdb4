//! The pointer that a caller gives with a callback, and gets back with each call of it.
//!
//! # Safety
//! It is never looked at. A callback that is called from other threads may be so, and whoever gives
//! it says so by giving it: the header names the functions.
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
