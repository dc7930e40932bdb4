//! Maps over the network.
//!
//! | idea | file |
//! |---|---|
//! | the writable side | [`origin`] |
//! | the reading side; comparing the two | [`replica`] |
//! | a map's changes in a file | [`journal`] |
//! | all maps of a hold: the writable side | [`hold_origin`] |
//! | all maps of a hold: the reading side | [`hold_replica`] |
//!
//! All of them have threads of their own, which a forked child has not. So there they are
//! [`Native`]: in another process than their own nothing of them is touched, and giving them back
//! gives nothing back.

pub(crate) mod hold_origin;
pub(crate) mod hold_replica;
pub(crate) mod journal;
pub(crate) mod origin;
pub(crate) mod replica;

use crate::ffi::{Many, Name, invalid};
use commonhold::Result;
use commonhold::raw::process_number;
use commonhold_replicate::Compression;
use std::mem::ManuallyDrop;

/// `ch_compression`.
///
/// # Errors
/// `Invalid` for a number that is none.
fn compression(number: u32) -> Result<Compression> {
    match number {
        0 => Ok(Compression::Auto),
        1 => Ok(Compression::Always),
        2 => Ok(Compression::Never),
        other => Err(invalid(format!(
            "expected a ch_compression (0, 1 or 2) as the compression, got {other}"
        ))),
    }
}

/// Patterns of the names of maps.
///
/// # Errors
/// `Invalid` for one that is not text.
fn patterns(all: Many<Name>, count: usize) -> Result<Vec<String>> {
    Ok(all.texts(count)?.into_iter().map(str::to_owned).collect())
}

/// A value that belongs to the process that created it.
pub(crate) struct Native<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> Native<T> {
    fn new(value: T) -> Native<T> {
        Native { value: ManuallyDrop::new(value), process: process_number() }
    }

    /// # Errors
    /// `Invalid` in a forked child.
    fn get(&self) -> Result<&T> {
        if self.process == process_number() {
            return Ok(&self.value);
        }
        Err(invalid(
            "this handle belongs to the parent process, where its threads run; open another one \
             in this process",
        ))
    }

    /// Its contents, in its own process.
    fn into_inner(self) -> Option<T> {
        (self.process == process_number()).then(|| ManuallyDrop::into_inner(self.value))
    }
}
