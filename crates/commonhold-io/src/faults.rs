//! The names of all faults of this crate, each with the errors that it can be; see
//! [`commonhold::steps`].
//!
//! The errors are those that the system documents for the call, and those that the crate treats on
//! their own. `EINTR` stands only where the call itself is repeated here and not by the standard
//! library. `SHORT` is no error: fewer bytes than asked for.

use commonhold::Result;
use commonhold::steps::arm_fault_of;

/// What opening a file can fail with.
const OPENING: &[&str] = &["EMFILE", "ENFILE", "ENOMEM", "EACCES", "EIO"];
/// What making a socket, or connecting to see who is there, can fail with.
const SOCKET: &[&str] = &["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS"];
/// What starting a thread can fail with.
const THREAD: &[&str] = &["EAGAIN", "ENOMEM"];

/// The names of all faults, with their errors.
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
    ("journal.thread", THREAD),
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
    // Replicas and their origins.
    ("replica.eventfd", &["EMFILE", "ENFILE", "ENOMEM"]),
    ("replica.thread", THREAD),
    ("replica.poll", &["ENOMEM", "EINTR"]),
    ("replica.receive", &["ECONNRESET", "ENOMEM", "ETIMEDOUT", "EINTR", "EAGAIN"]),
    ("replica.receive-bytes", &["SHORT"]),
    ("replica.send", &["ECONNRESET", "EPIPE", "ENOBUFS", "EINTR", "EAGAIN"]),
    ("replica.send-bytes", &["SHORT"]),
    ("origin.thread", THREAD),
    ("origin.watch-thread", THREAD),
    ("secret.random", &["ENOSYS", "EPERM", "EINTR"]),
    ("secret.random-bytes", &["SHORT"]),
    // Loops over sockets; `EAGAIN` of a socket says that it is not ready, which is no fault.
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
    // io_uring: making and entering it, then what completions say.
    ("ring.setup", &["ENOSYS", "EPERM", "ENOMEM", "EMFILE"]),
    ("ring.enter", &["EAGAIN", "EBUSY", "ENOMEM", "EINTR"]),
    ("ring.wake", &["ENOMEM"]),
    ("ring.accept", &["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]),
    ("ring.receive", &["ECONNRESET", "ENOMEM", "ETIMEDOUT"]),
    ("ring.receive-bytes", &["SHORT"]),
    ("ring.send", &["ECONNRESET", "EPIPE", "ENOBUFS", "ENOMEM"]),
    ("ring.send-bytes", &["SHORT"]),
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
    ("files.names", &["EIO", "ENOMEM"]),
    ("files.pread", &["EIO", "ENOMEM", "EINTR"]),
    ("files.pread-bytes", &["SHORT"]),
    ("files.stat-database", &["EACCES", "EIO", "ENOENT"]),
    ("files.open-database", OPENING),
    ("files.query", &["EIO", "ENOMEM"]),
    ("files.chunk", &["EIO", "ENOMEM"]),
    ("files.duplicate", &["EMFILE", "ENFILE"]),
    ("files.thread", THREAD),
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
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    fn sources(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.append(&mut sources(&path));
            } else if !path.ends_with("faults.rs") {
                found.push(path);
            }
        }
        found
    }

    /// The names that stand in `fault!`, `errno_fault!` or `shortened!`.
    fn in_sources() -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let texts = sources(&root).into_iter().map(|path| std::fs::read_to_string(path).unwrap());
        let names = |text: String| {
            let parts = ["fault!(", "shortened!("].map(|start| {
                let parts = text.split(start).skip(1);
                let quoted =
                    parts.filter_map(|p| p.trim_start().strip_prefix('"')?.split_once('"'));
                quoted.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
            });
            parts.concat()
        };
        texts.flat_map(names).collect()
    }

    #[test]
    fn the_table_of_faults_and_the_sources_agree() {
        let listed: BTreeSet<_> = FAULTS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(listed.len(), FAULTS.len(), "a name is twice in the table");
        let found = in_sources();
        let unlisted: Vec<_> = found.difference(&listed).collect();
        assert!(unlisted.is_empty(), "not in the table: {unlisted:?}");
        let unused: Vec<_> = listed.difference(&found).collect();
        assert!(unused.is_empty(), "in the table, and nowhere else: {unused:?}");
        for (name, errors) in FAULTS {
            assert!(!errors.is_empty(), "{name} has no errors");
            for error in *errors {
                // Armed so late that no other test of this process passes it that often.
                let spec = format!("{name}:{error}:once:{}", u64::MAX);
                arm(&spec).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        arm("").unwrap();
        assert!(arm("journal.write:ENFILE:once").is_err(), "not one of its errors");
    }
}
