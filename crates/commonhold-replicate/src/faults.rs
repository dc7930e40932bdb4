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
    // The file of a journal.
    ("journal.open", OPENING),
    ("journal.fstat", &["EIO", "ENOMEM"]),
    ("journal.read", &["EIO", "ENOMEM", "EINTR"]),
    ("journal.read-bytes", &["SHORT"]),
    ("journal.open-again", OPENING),
    ("journal.lock", &["ENOLCK", "EAGAIN", "EACCES"]),
    ("journal.ftruncate", &["EIO", "ENOSPC", "EPERM"]),
    ("journal.write", &["ENOSPC", "EDQUOT", "EIO", "EFBIG", "EINTR"]),
    ("journal.write-bytes", &["SHORT"]),
    ("journal.fdatasync", &["EIO", "ENOSPC", "EDQUOT"]),
    ("journal.stat", &["EIO", "ENOMEM", "EACCES"]),
    ("journal.open-directory", OPENING),
    ("journal.sync-directory", &["EIO", "ENOSPC", "EDQUOT", "EINVAL", "EROFS"]),
    ("journal.link", &["EPERM", "ENOSPC", "EROFS"]),
    ("journal.make-archive", &["EACCES", "ENOSPC", "EIO"]),
    ("journal.list-archive", &["EACCES", "EMFILE", "EIO"]),
    ("journal.seal", &["EPERM", "EACCES", "ENOSPC", "EIO"]),
    ("journal.remove-segment", &["EACCES", "EROFS", "EIO"]),
    ("journal.thread", THREAD),
    // Replicas and their origins.
    ("replica.eventfd", &["EMFILE", "ENFILE", "ENOMEM"]),
    ("replica.thread", THREAD),
    ("replica.connect-thread", THREAD),
    ("replica.poll", &["ENOMEM", "EINTR"]),
    ("replica.receive", &["ECONNRESET", "ENOMEM", "ETIMEDOUT", "EINTR", "EAGAIN"]),
    ("replica.receive-bytes", &["SHORT"]),
    ("replica.send", &["ECONNRESET", "EPIPE", "ENOBUFS", "EINTR", "EAGAIN"]),
    ("replica.send-bytes", &["SHORT"]),
    ("origin.thread", THREAD),
    ("origin.watch-thread", THREAD),
    ("origin.journal-thread", THREAD),
    ("secret.random", &["ENOSYS", "EPERM", "EINTR"]),
    ("secret.random-bytes", &["SHORT"]),
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
        assert!(arm("journal.write:ENFILE:once").is_err(), "not one of its errors");
    }
}
