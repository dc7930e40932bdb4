//! The one error type of the library.
//!
//! An [`Error`] names the thing, says what is wrong and tells the way out. Absence is never an
//! error (it is `Option::None`). [`ErrorKind`] is what programs branch on; its numbers are stable
//! and are the C codes.

use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

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
    /// What has this name was made with other options or is another kind of structure, or a value
    /// is not what the operation needs.
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
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: Box<str>,
    /// The name of the file or structure that it is about, if it is known.
    subject: Option<Box<str>>,
    /// The error of the operating system behind it.
    source: Option<Arc<io::Error>>,
    /// Where the lock lies that an operation gave up for, to wait for it and begin again.
    lock: Option<NonZeroU64>,
}

/// The result of a fallible operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error of `kind` with a message that names the thing, what is wrong, the way out.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = message.into().into_boxed_str();
        Error(Box::new(Inner { kind, message, subject: None, source: None, lock: None }))
    }

    /// The same, about a file or a structure.
    pub(crate) fn about(mut self, subject: impl fmt::Display) -> Error {
        self.0.subject = Some(subject.to_string().into_boxed_str());
        self
    }

    /// The same, with the error of the operating system behind it.
    pub(crate) fn caused_by(mut self, error: &io::Error) -> Error {
        self.0.source = Some(Arc::new(copy(error)));
        self
    }

    /// The same, of an operation that is to begin again when this lock is free.
    pub(crate) fn in_the_way(mut self, lock: u64) -> Error {
        self.0.lock = NonZeroU64::new(lock);
        self
    }

    /// Where the lock lies that is to be waited for before the operation begins again.
    #[inline]
    pub(crate) fn lock_in_the_way(&self) -> Option<u64> {
        self.0.lock.map(NonZeroU64::get)
    }

    /// What went wrong, for programs.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The path of the file or the name of the structure that the error is about, if it is known.
    pub fn subject(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }

    /// The number of the operating system's error (`errno`), if one is behind this error.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.0.source.as_ref()?.raw_os_error()
    }

    /// True if there was no room.
    pub fn is_full(&self) -> bool {
        self.0.kind == ErrorKind::Full
    }

    /// True if the hold or the map does not exist.
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound
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

/// The same error of the operating system, which cannot be cloned.
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
