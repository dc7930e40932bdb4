//! Commonhold for C. `include/commonhold.h` is the documentation of everything here; this is how it
//! comes about.
//!
//! | what | where |
//! |---|---|
//! | the FFI boundary: C's parameters become safe Rust, errors codes; all unsafe code | [`ffi`] |
//! | the hold as a whole | [`hold`] |
//! | maps, lists, following | [`map`] |
//! | queues | [`queue`] |
//! | channels | [`channel`] |
//! | logs | [`log`] |
//! | origins, replicas, journals | [`net`] |
//! | versions, codes, buffers, positions | [`basics`] |
//!
//! A function here is three lines or so: take the arguments, call the library, give the results. A
//! function that the library has and this crate has not is a gap; `abi_tests` proves that
//! header and exports are the same.

#[macro_use]
mod ffi;
mod basics;
mod channel;
mod hold;
mod log;
mod map;
mod net;
mod queue;

#[cfg(test)]
mod abi_tests;
