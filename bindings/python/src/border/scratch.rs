//! Room on the stack for a value that is looked up. Nobody fills it before: that would take a tenth of the lookup's time.
//!
//! # Safety
//! The library's `get_to` only writes to the slice that it is given, from the slice's beginning, and says how long the value is: so many bytes are
//! written if the value fits. No more than that is read.
#![allow(unsafe_code)]

use commonhold::Map;
use std::hint::black_box;
use std::mem::MaybeUninit;

/// Values up to this length fit.
const SIZE: usize = 512;

/// See the module.
pub struct Scratch(MaybeUninit<[u8; SIZE]>);

impl Scratch {
    #[inline]
    pub fn new() -> Scratch {
        Scratch(MaybeUninit::uninit())
    }

    /// The value of a key, or else its length, if it does not fit.
    #[inline]
    pub fn look(
        &mut self,
        map: &Map,
        key: &[u8],
    ) -> commonhold::Result<Option<Result<&[u8], usize>>> {
        // SAFETY: it is this value's, as long as the result. What is in it is only written to, as far as it may be anything; and that is hidden
        // from the compiler, for which it is some bytes.
        let room =
            unsafe { std::slice::from_raw_parts_mut(black_box(self.0.as_mut_ptr()).cast(), SIZE) };
        let Some(len) = map.get_to(key, room)? else { return Ok(None) };
        Ok(Some(room.get(..len).ok_or(len)))
    }
}
