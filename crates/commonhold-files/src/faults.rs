//! The names of all faults of this crate, each with the errors that it can be; see
//! [`commonhold::steps`].
//!
//! The errors are those that the system documents for the call, and those that the crate treats
//! separately. `EINTR` stands only where the call itself is repeated here and not by the standard
//! library. `SHORT` is not an error: the call moves fewer bytes than requested.

use commonhold::Result;
use commonhold::steps::arm_fault_of;

/// Errors of opening a file.
const OPENING: &[&str] = &["EMFILE", "ENFILE", "ENOMEM", "EACCES", "EIO"];
/// Errors of starting a thread.
const THREAD: &[&str] = &["EAGAIN", "ENOMEM"];

/// The names of this crate's faults, with their errors.
pub const FAULTS: &[(&str, &[&str])] = &[
    // File servers: the directory or the database, and the threads.
    ("files.open-root", OPENING),
    ("files.stat-root", &["EACCES", "EIO", "ENOMEM"]),
    ("files.openat", OPENING),
    (
        "files.openat2",
        &["EMFILE", "ENFILE", "ENOMEM", "EACCES", "EIO", "ENOSYS", "EAGAIN", "EINTR"],
    ),
    ("files.fstat", &["EIO", "ENOMEM"]),
    ("files.fstat-open", &["EIO", "ENOMEM"]),
    ("files.readlink", &["EACCES", "EIO", "ENOMEM"]),
    ("files.names", &["EIO", "ENOMEM"]),
    ("files.pread", &["EIO", "ENOMEM", "EINTR"]),
    ("files.pread-bytes", &["SHORT"]),
    ("files.stat-database", &["EACCES", "EIO", "ENOENT"]),
    ("files.open-database", OPENING),
    ("files.query", &["EIO", "ENOMEM"]),
    ("files.chunk", &["EIO", "ENOMEM"]),
    ("files.open-log", OPENING),
    ("files.write-log", &["ENOSPC", "EIO", "EINTR"]),
    ("files.write-log-bytes", &["SHORT"]),
    ("files.duplicate", &["EMFILE", "ENFILE"]),
    ("files.thread", THREAD),
];

/// This crate's faults and those of `commonhold-io`.
pub fn all() -> Vec<(&'static str, &'static [&'static str])> {
    [commonhold_io::faults::FAULTS, FAULTS].concat()
}

/// Arms faults of this crate, of `commonhold-io` or of the library; see [`commonhold::steps`].
///
/// # Errors
/// `Invalid` if the text is malformed, or names no fault or none of its errors.
pub fn arm(spec: &str) -> Result<()> {
    arm_fault_of(&all(), spec)
}

#[cfg(test)]
mod tests {
    use super::{FAULTS, arm};
    use commonhold_testing::fault_table::agrees_with_sources;

    #[test]
    fn the_table_of_faults_and_the_sources_agree() {
        agrees_with_sources(FAULTS, env!("CARGO_MANIFEST_DIR"), arm);
    }
}
