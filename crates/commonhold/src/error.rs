//! The one error type of the library.
//!
//! The message of an [`Error`] names the thing that failed, states what is wrong and suggests a way
//! out. Absence is never an error (it is `Option::None`). Programs branch on [`ErrorKind`], whose
//! numbers are stable and serve as the C error codes.

use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

/// The kind of an error, for programs to branch on. The numbers are stable across versions and
/// languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum ErrorKind {
    /// The hold, or the map, queue, channel or log in it, does not exist.
    NotFound = 1,
    /// The hold or structure to be created already exists.
    Exists = 2,
    /// There is no room: the size limit, the file system, a quota or the file size limit has been
    /// reached. Nothing was lost, and operations that need no more memory still work.
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
    /// The file is shorter than its header says.
    Truncated = 10,
    /// The contents of the file contradict each other.
    Damaged = 11,
    /// The system crashed or stopped while the file hold was open; run `hold repair --salvage`.
    Unclean = 12,
    /// Something that must be used exclusively is in use.
    Busy = 13,
    /// The file system does not support holds (network, FUSE, overlay).
    Unsupported = 14,
    /// A name, option or argument is not valid.
    Invalid = 15,
    /// The structure with this name has other options or is of another kind, or a value has the
    /// wrong form for the operation.
    Mismatch = 16,
    /// An operation was started inside another one on the same thread.
    Reentrant = 17,
    /// The time limit was reached. The message names the process that was waited for, if it is
    /// known.
    TimedOut = 18,
    /// Living processes occupy all participant slots.
    TooManyParticipants = 19,
    /// Another operating system error.
    Io = 20,
    /// A follower was too slow: the next change in the stream has been overwritten.
    Lapped = 21,
    /// A replica's contents are older than the reader allows.
    Stale = 22,
}

/// An error of any operation of this library.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: Box<str>,
    /// The name of the file or structure that the error is about, if it is known.
    subject: Option<Box<str>>,
    /// The operating system's error that caused this one.
    source: Option<Arc<io::Error>>,
    /// The offset of the lock because of which an operation ended, to wait for it and run the
    /// operation again.
    lock: Option<NonZeroU64>,
}

/// The result of a fallible operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error of `kind`. The message names the object, the problem and the remedy.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = message.into().into_boxed_str();
        Error(Box::new(Inner { kind, message, subject: None, source: None, lock: None }))
    }

    /// The same error, about a file or a structure.
    pub(crate) fn about(mut self, subject: impl fmt::Display) -> Error {
        self.0.subject = Some(subject.to_string().into_boxed_str());
        self
    }

    /// The same error, with the operating system's error that caused it.
    pub(crate) fn caused_by(mut self, error: &io::Error) -> Error {
        self.0.source = Some(Arc::new(copy(error)));
        self
    }

    /// The same error, for an operation that runs again when this lock is free.
    pub(crate) fn in_the_way(mut self, lock: u64) -> Error {
        self.0.lock = NonZeroU64::new(lock);
        self
    }

    /// The offset of the lock to wait for before the operation runs again.
    #[inline]
    pub(crate) fn lock_in_the_way(&self) -> Option<u64> {
        self.0.lock.map(NonZeroU64::get)
    }

    /// The kind of the error, for programs to branch on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The path of the file or the name of the structure that the error is about, if it is known.
    pub fn subject(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }

    /// The number (`errno`) of the operating system's error that caused this one, if there is one.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.0.source.as_ref()?.raw_os_error()
    }

    /// True if there is no room ([`ErrorKind::Full`]).
    pub fn is_full(&self) -> bool {
        self.0.kind == ErrorKind::Full
    }

    /// True if the hold or the structure does not exist ([`ErrorKind::NotFound`]).
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound
    }

    /// Converts an operating system's error about `thing`.
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
        Error::new(kind, format!("{thing}: {error}")).about(thing).caused_by(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// A copy of an operating system's error, which cannot be cloned.
fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    /// 24 is EMFILE.
    #[test]
    fn an_error_of_the_system_keeps_its_number_and_its_subject() {
        let error = Error::os("/some/file", &io::Error::from_raw_os_error(24));
        assert_eq!((error.kind(), error.subject()), (ErrorKind::Io, Some("/some/file")));
        assert_eq!(error.raw_os_error(), Some(24));
        assert!(error.source().unwrap().to_string().contains("open files"));
        let other = Error::os("x", &io::Error::other("a wrapped one"));
        assert_eq!(other.raw_os_error(), None);
        assert_eq!(other.source().unwrap().to_string(), "a wrapped one");
        assert!(Error::new(ErrorKind::Full, "full").source().is_none());
        assert_eq!(size_of::<Result<()>>(), 8);
    }
}
