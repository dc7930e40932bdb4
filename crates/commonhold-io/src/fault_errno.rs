//! A fault of a test as the error of a call of rustix.

use rustix::io::Errno;
use std::io;

/// Converts the result of `fault!` into the error of a call of rustix.
///
/// # Errors
/// The error of the fault, if there is one.
pub fn errno(struck: io::Result<()>) -> Result<(), Errno> {
    struck.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
