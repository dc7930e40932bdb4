//! Creating a file atomically: it appears under its name complete, or not at all.
//!
//! Invariant: until [`Draft::commit`] the file has no name, or (where the file system cannot do
//! that) a temporary one that drop removes; commit never replaces a file that exists. A process
//! that is killed leaves nothing in the first case, and a file `.NAME.RANDOM.draft` in the second.
//!
//! # Safety
//! Unsafe only for libc calls with C strings of our own, and to adopt a descriptor that a call has
//! just returned.
#![allow(unsafe_code)]

use super::file::{c_path, checked, uninterrupted};
use super::place::random_bytes;
use crate::steps::fault;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Makes a file in a directory, given the final name; returns it and its temporary name if any.
type Create = fn(RawFd, &CStr) -> io::Result<(File, Option<CString>)>;

/// Permission bits without which not even the owner could open the hold again.
const OWNER: u32 = 0o600;

/// A file that is being prepared and does not bear its name yet.
pub(crate) struct Draft {
    file: File,
    /// The directory of the final name, held open so that nothing can be moved below us.
    directory: OwnedFd,
    name: CString,
    /// The name that the file bears meanwhile, if the file system insists on one.
    temporary: Option<CString>,
}

impl Draft {
    /// Begins an empty file that is to become `path`, with exactly the permission bits `mode`
    /// whatever the umask; they must let the owner read and write.
    pub(crate) fn new(path: &Path, mode: u32) -> io::Result<Draft> {
        Draft::begin(path, mode, create)
    }

    /// As [`Draft::new`], with a choice of how the file comes to be.
    pub(super) fn begin(path: &Path, mode: u32, create: Create) -> io::Result<Draft> {
        let mode = mode & 0o777;
        if mode & OWNER != OWNER {
            return Err(invalid(format!(
                "mode {mode:03o} would keep the owner out; it must include 600"
            )));
        }
        let name = path.file_name().filter(|_| !path.as_os_str().as_bytes().ends_with(b"/"));
        let name = name.ok_or_else(|| invalid(format!("{} names no file", path.display())))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = open_directory(&c_path(parent.unwrap_or(Path::new(".")))?)?;
        let name = c_path(Path::new(name))?;
        let (file, temporary) = create(directory.as_raw_fd(), &name)?;
        let draft = Draft { file, directory, name, temporary };
        uninterrupted(|| {
            fault!("draft.mode")?;
            // SAFETY: no memory is passed.
            checked(unsafe { libc::fchmod(draft.file.as_raw_fd(), mode) })
        })?;
        Ok(draft)
    }

    /// The file, open for reading and writing.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name. `AlreadyExists` if there is one; the draft is gone then.
    pub(crate) fn commit(self) -> io::Result<File> {
        // Before the name: once the file has it, nothing may fail.
        fault!("draft.duplicate")?;
        let file = self.file.try_clone()?;
        let directory = self.directory.as_raw_fd();
        match &self.temporary {
            // Drop removes the temporary name afterwards.
            Some(temporary) => link(directory, temporary, directory, &self.name, 0)?,
            None => self.link_nameless(directory)?,
        }
        Ok(file)
    }

    fn link_nameless(&self, directory: RawFd) -> io::Result<()> {
        let own = c_path(Path::new(&format!("/proc/self/fd/{}", self.file.as_raw_fd())))?;
        let flags = libc::AT_SYMLINK_FOLLOW;
        match link(libc::AT_FDCWD, &own, directory, &self.name, flags) {
            // No /proc. This form needs a privilege before Linux 6.10.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                link(self.file.as_raw_fd(), c"", directory, &self.name, libc::AT_EMPTY_PATH)
            }
            result => result,
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // SAFETY: the name is a C string that outlives the call.
            unsafe { libc::unlinkat(self.directory.as_raw_fd(), temporary.as_ptr(), 0) };
        }
    }
}

/// A new file in the directory: nameless, or under the temporary name that is returned too.
pub(super) fn create(directory: RawFd, name: &CStr) -> io::Result<(File, Option<CString>)> {
    match fault!("draft.nameless").and_then(|()| open_at(directory, c".", libc::O_TMPFILE)) {
        Ok(file) => Ok((file, None)),
        // What kernels and file systems that do not know O_TMPFILE answer.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT | libc::EINVAL)
            ) =>
        {
            create_named(directory, name)
        }
        Err(error) => Err(error),
    }
}

/// A new file in the directory under a temporary name derived from `name`.
pub(super) fn create_named(directory: RawFd, name: &CStr) -> io::Result<(File, Option<CString>)> {
    let random = u64::from_ne_bytes(random_bytes()?);
    let mut temporary = b".".to_vec();
    // File names end at 255 bytes, and the additions take 24.
    temporary.extend(name.to_bytes().iter().take(230));
    temporary.extend(format!(".{random:016x}.draft").bytes());
    let temporary = CString::new(temporary).map_err(io::Error::other)?;
    let file = open_at(directory, &temporary, libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW)?;
    Ok((file, Some(temporary)))
}

fn open_at(directory: RawFd, name: &CStr, how: libc::c_int) -> io::Result<File> {
    let flags = how | libc::O_RDWR | libc::O_CLOEXEC;
    let fd = uninterrupted(|| {
        fault!("draft.create")?;
        // SAFETY: the name is a C string that outlives the call.
        checked(unsafe { libc::openat(directory, name.as_ptr(), flags, OWNER) })
    })?;
    // SAFETY: the call has just returned this descriptor, nobody else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn open_directory(path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let fd = uninterrupted(|| {
        fault!("draft.directory")?;
        // SAFETY: the path is a C string that outlives the call.
        checked(unsafe { libc::open(path.as_ptr(), flags) })
    })?;
    // SAFETY: the call has just returned this descriptor, nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn link(
    from: RawFd,
    old: &CStr,
    directory: RawFd,
    new: &CStr,
    flags: libc::c_int,
) -> io::Result<()> {
    fault!("draft.link")?;
    // SAFETY: both names are C strings that outlive the call.
    checked(unsafe { libc::linkat(from, old.as_ptr(), directory, new.as_ptr(), flags) }).map(drop)
}

fn invalid(wrong: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, wrong)
}
