//! A fault of a test as the error of a call of rustix.

use rustix::io::Errno;
use std::io;

/// What `fault!` gives, as a call of rustix would give it.
///
/// # Errors
/// The error that the fault is; without one there is none.
pub fn errno(struck: io::Result<()>) -> Result<(), Errno> {
    struck.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
