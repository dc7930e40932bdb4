//! Room on the stack for a value that is looked up. It is not filled before: that would take a
//! tenth of the lookup's time.
//!
//! # Safety
//! The library's `get_uninit` returns the length of the value. If the value fits, that many bytes
//! from the beginning of the room are initialized. No more than that is read.
#![allow(unsafe_code)]

use commonhold::map::Map;
use std::mem::MaybeUninit;

/// Values up to this length fit.
const SIZE: usize = 512;

/// See the module.
pub struct Scratch([MaybeUninit<u8>; SIZE]);

impl Scratch {
    #[inline]
    pub fn new() -> Scratch {
        Scratch([const { MaybeUninit::uninit() }; SIZE])
    }

    /// The value of a key, or else its length, if it does not fit.
    #[inline]
    pub fn look(
        &mut self,
        map: &Map,
        key: &[u8],
    ) -> commonhold::Result<Option<Result<&[u8], usize>>> {
        let Some(len) = map.get_uninit(key, &mut self.0)? else { return Ok(None) };
        let Some(value) = self.0.get(..len) else { return Ok(Some(Err(len))) };
        // SAFETY: see the module.
        Ok(Some(Ok(unsafe { std::slice::from_raw_parts(value.as_ptr().cast(), len) })))
    }
}

/// Copies the value of a key into `out`, as much of it as there is room for; returns its length.
pub fn look_into(map: &Map, key: &[u8], out: &mut [u8]) -> commonhold::Result<Option<usize>> {
    // SAFETY: both have the same layout, and `get_uninit` writes initialized bytes only.
    let out = unsafe { &mut *(std::ptr::from_mut(out) as *mut [MaybeUninit<u8>]) };
    map.get_uninit(key, out)
}
