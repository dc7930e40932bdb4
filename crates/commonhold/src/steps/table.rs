//! The names of all faults, each with its possible errors.
//!
//! The errors are those that the system documents for the call and those that the library handles
//! specially. `SHORT` is not an error: the call transfers fewer bytes than asked for.

/// Replaces an error's number: fewer bytes than asked for.
pub(super) const SHORT: i32 = -1;

/// The errors by their names.
pub(super) const ERRORS: &[(&str, i32)] = &[
    ("EACCES", libc::EACCES),
    ("EADDRINUSE", libc::EADDRINUSE),
    ("EAGAIN", libc::EAGAIN),
    ("EBUSY", libc::EBUSY),
    ("ECONNABORTED", libc::ECONNABORTED),
    ("ECONNREFUSED", libc::ECONNREFUSED),
    ("ECONNRESET", libc::ECONNRESET),
    ("EDQUOT", libc::EDQUOT),
    ("EEXIST", libc::EEXIST),
    ("EFAULT", libc::EFAULT),
    ("EFBIG", libc::EFBIG),
    ("EINTR", libc::EINTR),
    ("EINVAL", libc::EINVAL),
    ("EIO", libc::EIO),
    ("EMFILE", libc::EMFILE),
    ("ENFILE", libc::ENFILE),
    ("ENODATA", libc::ENODATA),
    ("ENOENT", libc::ENOENT),
    ("ENOBUFS", libc::ENOBUFS),
    ("ENOLCK", libc::ENOLCK),
    ("ENOMEM", libc::ENOMEM),
    ("ENOSPC", libc::ENOSPC),
    ("ENOSYS", libc::ENOSYS),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("EPERM", libc::EPERM),
    ("EPIPE", libc::EPIPE),
    ("EROFS", libc::EROFS),
    ("ETIMEDOUT", libc::ETIMEDOUT),
    ("SHORT", SHORT),
];

/// Whether a system returns this error only occasionally. The caller repeats the call after it, so
/// a test must not make it last forever.
pub fn is_transient(error: &str) -> bool {
    matches!(error, "EINTR" | "EAGAIN" | "ECONNABORTED")
}

/// The errors of opening a file.
const OPENING: &[&str] = &["EMFILE", "ENFILE", "ENOMEM", "EACCES", "EINTR"];
/// The errors of changing a file's allocation.
const ROOM: &[&str] = &["ENOSPC", "EDQUOT", "EIO", "EINTR"];
/// The errors of a sync, also on disks and file systems that return errors of their own.
const LOST: &[&str] = &["EIO", "ENOSPC", "EDQUOT", "ENOMEM", "ENODATA", "ETIMEDOUT", "EINTR"];
/// The errors of taking a lock: from the recovery of its dead owner, or from the patience of a
/// wait.
const LOCK: &[&str] = &["EMFILE", "ENFILE", "EACCES", "ENOMEM", "ETIMEDOUT"];

/// The names of all faults, with their errors.
pub const FAULTS: &[(&str, &[&str])] = &[
    // The hold file.
    ("os.open", OPENING),
    ("os.fstat", &["ENOMEM", "EIO"]),
    ("os.ftruncate", &["ENOSPC", "EDQUOT", "EIO", "EFBIG", "EPERM", "EINTR"]),
    ("os.fallocate", &["ENOSPC", "EDQUOT", "EIO", "EFBIG", "EOPNOTSUPP", "EINTR"]),
    ("os.punch", &["ENOSPC", "EIO", "EPERM", "EOPNOTSUPP", "EINTR"]),
    ("os.seek-data", &["EIO", "EINVAL"]),
    ("os.pread", &["EIO", "ENOMEM", "EAGAIN", "EINTR"]),
    ("os.pread-bytes", &["SHORT"]),
    ("os.fdatasync", LOST),
    ("os.statfs", &["EIO", "ENOMEM", "ENOSYS", "EINTR"]),
    ("os.boot-id", &["EMFILE", "ENFILE", "ENOMEM", "EACCES", "ENOENT"]),
    ("open.read", &["EIO", "EINTR", "EAGAIN"]),
    ("open.first-bytes", &["SHORT"]),
    ("create.duplicate", &["EMFILE", "ENFILE"]),
    ("list.directory", &["EMFILE", "ENFILE", "ENOMEM", "EACCES", "ENOENT"]),
    ("delete.read", &["EIO", "EINTR"]),
    ("delete.first-bytes", &["SHORT"]),
    ("delete.remove", &["EACCES", "EPERM", "EROFS", "EIO", "ENOENT"]),
    // Its locks.
    ("os.lock", &["ENOLCK", "ENOMEM", "EPERM", "EINTR", "EAGAIN", "EACCES"]),
    ("os.lock-question", &["ENOLCK", "ENOMEM", "EPERM"]),
    ("os.keep-lock", &["ENOMEM", "ENFILE", "EAGAIN", "EACCES"]),
    ("os.dont-fork", &["ENOMEM", "EAGAIN"]),
    ("os.wipe-on-fork", &["ENOMEM", "EAGAIN", "EINVAL"]),
    ("os.atfork", &["ENOMEM"]),
    // Its memory.
    ("os.map", &["ENOMEM", "ENFILE", "EAGAIN", "EACCES"]),
    ("os.map-anonymous", &["ENOMEM", "EAGAIN"]),
    ("os.populate", &["ENOMEM", "EFAULT", "ENOSPC", "EINVAL", "EIO", "EINTR", "EAGAIN"]),
    ("os.msync", LOST),
    // Waiting and waking.
    ("os.futex-wait", &["EINTR", "EAGAIN", "ETIMEDOUT"]),
    ("os.barrier", &["EPERM", "ENOSYS"]),
    ("os.barrier-register", &["EPERM", "ENOSYS"]),
    ("os.eventfd", &["EMFILE", "ENFILE", "ENOMEM"]),
    ("notifier.thread", &["EAGAIN", "ENOMEM"]),
    // Randomness.
    ("os.random", &["ENOSYS", "EPERM", "EINTR"]),
    ("os.random-bytes", &["SHORT"]),
    // Files that appear whole.
    ("draft.directory", OPENING),
    ("draft.nameless", &["ENOSPC", "EDQUOT", "EMFILE", "EACCES", "EROFS", "EOPNOTSUPP", "EINTR"]),
    ("draft.create", &["ENOSPC", "EDQUOT", "EMFILE", "EACCES", "EROFS", "EEXIST", "EINTR"]),
    ("draft.mode", &["EPERM", "EIO", "EROFS", "EINTR"]),
    ("draft.duplicate", &["EMFILE", "ENFILE"]),
    ("draft.lock", &["ENOLCK", "EOPNOTSUPP", "EINTR", "EAGAIN"]),
    ("draft.list", &["EMFILE", "ENFILE", "ENOMEM", "EACCES"]),
    ("draft.rename", &["EINVAL", "ENOSYS", "ENOSPC", "EDQUOT", "EIO", "EACCES", "EROFS", "ENOENT"]),
    ("draft.open-directory", OPENING),
    ("draft.sync-directory", &["EIO", "ENOSPC", "EDQUOT", "EINVAL", "EROFS", "EINTR"]),
    // Holds that are built without a name.
    ("draft.hold-read", &["EIO", "EINTR"]),
    ("draft.hold-write", &["EIO", "ENOSPC", "EDQUOT"]),
    ("draft.hold-sync", &["EIO", "ENOSPC", "EDQUOT"]),
    ("salvage.copy", ROOM),
    ("salvage.read", &["EIO"]),
    ("salvage.read-page", &["EIO"]),
    ("salvage.link", &["EEXIST", "ENOSPC", "EDQUOT", "EIO", "EACCES", "EPERM", "EROFS"]),
    ("draft.link", &["EEXIST", "ENOSPC", "EDQUOT", "EIO", "EACCES", "EPERM", "ENOENT"]),
    // The process that deletes a hold after its last user has gone.
    ("reaper.path", &["EACCES", "ENOENT", "ENOMEM"]),
    ("reaper.maps", &["EMFILE", "ENFILE", "ENOENT"]),
    ("reaper.clone", &["EAGAIN", "ENOMEM"]),
    ("reaper.wait", &["EINTR"]),
    // Locks in the hold, each taken as if somebody had held it, and acting for a dead participant.
    ("lock.whole", LOCK),
    ("lock.segment", LOCK),
    ("lock.directory", LOCK),
    ("lock.growth", LOCK),
    ("lock.stream", LOCK),
    ("recover.begin", &["EMFILE", "ENFILE", "ENOMEM", "EACCES"]),
    ("stream.frame", &["ENOMEM"]),
    // Backups.
    ("backup.duplicate", &["EMFILE", "ENFILE"]),
    ("backup.write", ROOM),
    ("backup.sync", &["EIO", "ENOSPC", "EDQUOT"]),
    ("backup.directory", &["EMFILE", "ENFILE", "ENOMEM"]),
    ("backup.stat", &["EIO", "ENOMEM", "EACCES"]),
    ("backup.look", &["EIO", "EMFILE", "EACCES"]),
    ("backup.rename", &["ENOSPC", "EIO", "EACCES", "ENOENT"]),
    // Files that collect logs.
    ("rotate.place", &["EIO", "ENOMEM"]),
    ("rotate.stat", &["EIO", "ENOMEM", "EACCES"]),
    ("rotate.remove", &["EACCES", "EIO", "EROFS"]),
    ("rotate.rename", &["ENOSPC", "EIO", "EACCES", "ENOENT"]),
    ("rotate.shorten", OPENING),
    ("rotate.open", OPENING),
    ("rotate.write", ROOM),
];
