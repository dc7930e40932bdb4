//! The names of all faults of this crate, each with the errors that it can be; see
//! [`commonhold::steps`].
//!
//! The errors are those that the system documents for the call, and those that the crate treats
//! separately. `EINTR` stands only where the call itself is repeated here and not by the standard
//! library. `SHORT` is not an error: the call moves fewer bytes than requested.

use commonhold::Result;
use commonhold::steps::arm_fault_of;

/// Errors of making a socket, and of connecting to see whether a process listens.
const SOCKET: &[&str] = &["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS"];
/// Errors of starting a thread.
const THREAD: &[&str] = &["EAGAIN", "ENOMEM"];

/// The names of this crate's faults, with their errors.
pub const FAULTS: &[(&str, &[&str])] = &[
    // Where origins and file servers listen, and replicas connect to.
    ("listen.socket", SOCKET),
    ("listen.mode", &["EIO", "ENOMEM"]),
    ("listen.bind", &["EADDRINUSE", "EACCES", "ENOMEM", "ENOSPC", "EROFS"]),
    ("listen.listen", &["EADDRINUSE", "ENOBUFS"]),
    ("listen.look", SOCKET),
    ("listen.remove", &["EACCES", "EIO", "EROFS"]),
    ("connect.socket", SOCKET),
    ("connect.options", &["ENOMEM", "ENOBUFS"]),
    ("connect.resolve", &["EMFILE", "ENOMEM", "EIO"]),
    ("connect.connect", &["ECONNREFUSED", "EAGAIN", "ENOENT", "EACCES", "ETIMEDOUT", "ENOBUFS"]),
    // Loops over sockets; `EAGAIN` means that a socket is not ready, which is not a fault.
    ("event.epoll-create", &["EMFILE", "ENFILE", "ENOMEM"]),
    ("event.eventfd", &["EMFILE", "ENFILE", "ENOMEM"]),
    ("event.epoll-add", &["ENOMEM", "ENOSPC"]),
    ("event.epoll-wait", &["ENOMEM", "EINTR"]),
    ("event.nonblocking", &["ENOMEM", "EIO"]),
    ("event.accept", &["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EPERM", "ECONNABORTED", "EINTR"]),
    ("event.receive", &["ECONNRESET", "ENOMEM", "ETIMEDOUT", "EINTR"]),
    ("event.receive-bytes", &["SHORT"]),
    ("event.send", &["ECONNRESET", "EPIPE", "ENOBUFS", "ENOMEM", "EINTR"]),
    ("event.send-bytes", &["SHORT"]),
    ("event.sendfile", &["EIO", "ENOMEM", "ECONNRESET", "EPIPE", "EINTR"]),
    ("event.sendfile-bytes", &["SHORT"]),
    ("event.worker-thread", THREAD),
    // io_uring: creating and entering it, then the results of completions.
    ("ring.setup", &["ENOSYS", "EPERM", "ENOMEM", "EMFILE"]),
    ("ring.enter", &["EAGAIN", "EBUSY", "ENOMEM", "EINTR"]),
    ("ring.wake", &["ENOMEM"]),
    ("ring.accept", &["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]),
    ("ring.receive", &["ECONNRESET", "ENOMEM", "ETIMEDOUT"]),
    ("ring.receive-bytes", &["SHORT"]),
    ("ring.send", &["ECONNRESET", "EPIPE", "ENOBUFS", "ENOMEM"]),
    ("ring.send-bytes", &["SHORT"]),
];

/// Arms faults of this crate or of the library; see [`commonhold::steps`].
///
/// # Errors
/// `Invalid` if the text is malformed, or names no fault or none of its errors.
pub fn arm(spec: &str) -> Result<()> {
    arm_fault_of(FAULTS, spec)
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
