//! Handles: `ch_map *` and its relatives in C.
//!
//! Each begins with a word that says of what kind it is, so that NULL, and a handle of another
//! kind, are errors.
//!
//! # Safety
//! A handle that C gives is NULL or one that it was given and has not freed, of whatever kind: the
//! header says so. All kinds begin with the word, so it may be read of each; the rest is only
//! touched if the word is right.
#![allow(unsafe_code)]

use crate::ffi::give::is_place;
use crate::ffi::invalid;
use commonhold::Result;
use std::sync::atomic::{AtomicU64, Ordering};

/// The contents of a handle. Several threads may use it at the same time.
pub(crate) trait Kind: Send + Sync + 'static {
    /// The word.
    const TAG: u64;
    /// Its name in messages.
    const NAME: &'static str;
}

/// Gives kinds their words and names.
macro_rules! kinds {
    ($($type:ty = $tag:literal, $name:literal;)*) => {
        $(impl $crate::ffi::Kind for $type {
            const TAG: u64 = u64::from_le_bytes(*$tag);
            const NAME: &'static str = $name;
        })*
    };
}
pub(crate) use kinds;

#[repr(C)]
pub struct Handle<T> {
    tag: AtomicU64,
    value: T,
}

/// A handle that is used.
#[repr(transparent)]
pub struct Ref<T>(*const Handle<T>);

impl<T: Kind> Ref<T> {
    /// # Errors
    /// `Invalid` if it is NULL or of another kind.
    #[inline]
    pub(crate) fn get(&self) -> Result<&T> {
        if is_one::<T>(self.0) {
            // SAFETY: see the module.
            return Ok(unsafe { &(*self.0).value });
        }
        Err(wrong(T::NAME, self.0.is_null()))
    }
}

#[inline]
fn is_one<T: Kind>(handle: *const Handle<T>) -> bool {
    // SAFETY: see the module. Relaxed: it is stored before anybody has the handle.
    is_place(handle) && unsafe { (*handle).tag.load(Ordering::Relaxed) } == T::TAG
}

#[cold]
fn wrong(name: &str, is_null: bool) -> commonhold::Error {
    invalid(match is_null {
        true => format!("the {name} is NULL"),
        false => format!("the handle given as the {name} is invalid or of another kind"),
    })
}

/// A handle that is given back; NULL is nothing to give back.
#[repr(transparent)]
pub struct Owned<T>(*mut Handle<T>);

impl<T: Kind> Owned<T> {
    /// Its contents.
    pub(crate) fn take(self) -> Option<T> {
        if !is_one::<T>(self.0) {
            return None;
        }
        // SAFETY: see the module: it was made by `NewHandle::put`, and the caller gives it up.
        let handle = unsafe { Box::from_raw(self.0) };
        handle.tag.store(0, Ordering::Relaxed);
        Some(handle.value)
    }

    /// # Errors
    /// As [`take`](Self::take), with `Invalid` for none.
    pub(crate) fn take_or_refuse(self) -> Result<T> {
        let is_null = self.0.is_null();
        self.take().ok_or_else(|| wrong(T::NAME, is_null))
    }
}

/// The place for a new handle; NULL until there is one.
#[repr(transparent)]
pub struct NewHandle<T>(*mut *mut Handle<T>);

impl<T: Kind> NewHandle<T> {
    /// Checks in advance that there is a place for the handle.
    ///
    /// # Errors
    /// `Invalid` if it has not.
    pub(crate) fn ready(self) -> Result<Place<T>> {
        if !is_place(self.0) {
            return Err(invalid(format!("the pointer for the {} is NULL", T::NAME)));
        }
        // SAFETY: see the module; the header says that it points to a pointer.
        unsafe { self.0.write(std::ptr::null_mut()) };
        Ok(Place(self.0))
    }
}

/// A place for a handle.
pub(crate) struct Place<T>(*mut *mut Handle<T>);

impl<T: Kind> Place<T> {
    pub(crate) fn put(self, value: T) {
        let handle = Box::new(Handle { tag: AtomicU64::new(T::TAG), value });
        // SAFETY: as in `ready`.
        unsafe { self.0.write(Box::into_raw(handle)) }
    }
}
