//! Maps over the network.
//!
//! | idea | file |
//! |---|---|
//! | the writable side | [`origin`] |
//! | the reading side; comparing the two | [`replica`] |
//! | a map's changes in a file | [`journal`] |
//!
//! All of them have threads of their own, which a forked child has not. So there they are
//! [`Native`]: in another process than their own nothing of them is touched, and giving them back
//! gives nothing back.

pub(crate) mod journal;
pub(crate) mod origin;
pub(crate) mod replica;

use crate::ffi::invalid;
use commonhold::Result;
use std::mem::ManuallyDrop;

/// A value that belongs to the process that created it.
pub(crate) struct Native<T> {
    value: ManuallyDrop<T>,
    pid: u32,
}

impl<T> Native<T> {
    fn new(value: T) -> Native<T> {
        Native { value: ManuallyDrop::new(value), pid: std::process::id() }
    }

    /// # Errors
    /// `Invalid` in a forked child.
    fn get(&self) -> Result<&T> {
        if self.pid == std::process::id() {
            return Ok(&self.value);
        }
        Err(invalid(
            "this handle belongs to the parent process, where its threads run; open another one \
             in this process",
        ))
    }

    /// Its contents, in its own process.
    fn into_inner(self) -> Option<T> {
        (self.pid == std::process::id()).then(|| ManuallyDrop::into_inner(self.value))
    }
}
