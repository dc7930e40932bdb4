//! A call across the FFI boundary: no panic leaves it, and every error becomes a code and a
//! message.
//!
//! # Safety
//! `ErrorOut` is NULL or points to a `ch_error` of the caller's, as every declaration in the header
//! says. The attribute `no_mangle` is unsafe because two functions of one name would be one; all of
//! ours begin with `ch_`.
#![allow(unsafe_code)]

use crate::ffi::give::is_place;
use commonhold::{Error, ErrorKind, Result};
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `CH_PANIC`: a fault of the library itself.
const PANIC: c_int = 99;
/// Bytes of a message, with the NUL at its end.
const MESSAGE: usize = 508;

/// The answer of a successful call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// `CH_OK`.
    Done = 0,
    /// `CH_NONE`: nothing was there, or nothing was to be done.
    None = -1,
}

/// The result of a function of the C interface.
pub(crate) type Answer = Result<Said>;

/// [`Said::Done`] if `it` is so.
#[inline]
pub(crate) fn yes(it: bool) -> Said {
    if it { Said::Done } else { Said::None }
}

/// An argument that cannot be.
#[cold]
pub(crate) fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

/// `ch_error`.
#[repr(C)]
pub struct CError {
    code: c_int,
    message: [c_char; MESSAGE],
}

/// The place for a call's error; may be NULL.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct ErrorOut(*mut CError);

impl ErrorOut {
    #[cold]
    fn refuse(self, found: Error) -> c_int {
        self.tell(found.kind() as c_int, &found.to_string())
    }

    #[cold]
    fn panicked(self) -> c_int {
        let text = "a bug in Commonhold; standard error shows the details. Please report it";
        self.tell(PANIC, text)
    }

    #[cold]
    fn tell(self, code: c_int, text: &str) -> c_int {
        let mut end = text.len().min(MESSAGE - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut message = [0; MESSAGE];
        for (to, from) in message.iter_mut().zip(&text.as_bytes()[..end]) {
            // A NUL would end it.
            *to = if *from == 0 { b'?' } else { *from } as c_char;
        }
        if is_place(self.0) {
            // SAFETY: see the module.
            unsafe { self.0.write(CError { code, message }) }
        }
        code
    }
}

/// Runs a call. A number is all that leaves the part that may panic: the result of a call that
/// does well is never stored.
#[inline]
pub(crate) fn run(error: ErrorOut, call: impl FnOnce() -> Answer) -> c_int {
    let answer = || match call() {
        Ok(said) => said as c_int,
        Err(found) => error.refuse(found),
    };
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| error.panicked())
}

/// Runs a call that cannot tell of errors.
#[inline]
pub(crate) fn quietly<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(otherwise)
}

/// Makes functions that C can call: `fn name(parameters) { an Answer }`, which get a `ch_error *`
/// as their last parameter, and `fn name(parameters) -> type, or value_after_a_panic { that type
/// }`, which do not.
macro_rules! export {
    ($($(#[$about:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty, or $otherwise:expr,)? $body:block)*) => {
        $($crate::ffi::call::export_one! { [$(#[$about])*] $name ($($arg: $type),*) [$($out, $otherwise)?] $body })*
    };
}

macro_rules! export_one {
    ([$($about:tt)*] $name:ident ($($arg:ident: $type:ty),*) [] $body:block) => {
        $($about)*
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $type,)* error: $crate::ffi::ErrorOut) -> std::ffi::c_int {
            $crate::ffi::call::run(error, move || $body)
        }
    };
    ([$($about:tt)*] $name:ident ($($arg:ident: $type:ty),*) [$out:ty, $otherwise:expr] $body:block) => {
        $($about)*
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $type),*) -> $out {
            $crate::ffi::call::quietly($otherwise, move || $body)
        }
    };
}

pub(crate) use {export, export_one};
