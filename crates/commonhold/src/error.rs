//! The one error type of the library.
//!
//! An [`Error`] names the thing, says what is wrong and tells the way out. Absence is never an
//! error (it is `Option::None`). [`ErrorKind`] is what programs branch on; its numbers are stable
//! and are the C codes.

use std::fmt;
use std::num::NonZeroU64;

/// What went wrong, for programs. Numbers are stable across versions and languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum ErrorKind {
    /// The hold, or the map, queue, channel or log in it, does not exist.
    NotFound = 1,
    /// The hold exists already and was to be created.
    Exists = 2,
    /// No room: the size limit, the file system, a quota or the file size limit is reached. Nothing
    /// was lost; everything but growth still works.
    Full = 3,
    /// A key, value, message or line that is longer than the structure allows.
    TooLarge = 4,
    /// The handle is closed.
    Closed = 5,
    /// The handle was opened read-only, or the file may not be written.
    ReadOnly = 6,
    /// The operating system refused access.
    Permission = 7,
    /// The file is not a hold.
    NotAHold = 8,
    /// The file has a format that this version cannot read.
    Version = 9,
    /// The file is shorter than it says.
    Truncated = 10,
    /// The contents contradict themselves.
    Damaged = 11,
    /// The system stopped while the file hold was open; it needs `hold repair --salvage`.
    Unclean = 12,
    /// Somebody else uses what must be used alone.
    Busy = 13,
    /// The file system cannot carry a hold (network, FUSE, overlay).
    Unsupported = 14,
    /// A name, option or argument is not valid.
    Invalid = 15,
    /// What has this name was made with other options or is another kind of structure, or a value is not what the
    /// operation needs.
    Mismatch = 16,
    /// An operation was started inside another one on the same thread.
    Reentrant = 17,
    /// The time given ran out; the text names who was waited for, if that is known.
    TimedOut = 18,
    /// Every participant slot is taken by a living process.
    TooManyParticipants = 19,
    /// Another operating system error.
    Io = 20,
    /// A follower was too slow: what comes next in the stream is overwritten.
    Lapped = 21,
}

/// An error of any operation of this library.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: Box<str>,
    /// Where the lock lies that an operation gave up for, to wait for it and begin again.
    lock: Option<NonZeroU64>,
}

/// The result of a fallible operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Makes an error of `kind` with a message that names the thing, what is wrong, the way out.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into().into_boxed_str(), lock: None }
    }

    /// The same, of an operation that is to begin again when this lock is free.
    pub(crate) fn in_the_way(self, lock: u64) -> Error {
        Error { lock: NonZeroU64::new(lock), ..self }
    }

    /// Where the lock lies that is to be waited for before the operation begins again.
    #[inline]
    pub(crate) fn lock_in_the_way(&self) -> Option<u64> {
        self.lock.map(NonZeroU64::get)
    }

    /// What went wrong, for programs.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// True if there was no room.
    pub fn is_full(&self) -> bool {
        self.kind == ErrorKind::Full
    }

    /// True if the hold or the map does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }

    /// Turns an operating system error on `thing` into one of ours.
    pub(crate) fn os(thing: impl fmt::Display, error: &std::io::Error) -> Error {
        use std::io::ErrorKind as Os;
        let kind = match error.kind() {
            Os::NotFound => ErrorKind::NotFound,
            Os::AlreadyExists => ErrorKind::Exists,
            Os::PermissionDenied => ErrorKind::Permission,
            Os::StorageFull | Os::QuotaExceeded | Os::FileTooLarge => ErrorKind::Full,
            Os::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            Os::InvalidInput => ErrorKind::Invalid,
            _ => ErrorKind::Io,
        };
        Error::new(kind, format!("{thing}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

impl std::error::Error for Error {}
