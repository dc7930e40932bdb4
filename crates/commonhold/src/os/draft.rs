//! Creating a file atomically: it appears under its name complete, or not at all.
//!
//! Invariant: until it is committed the file has no name, or a temporary one where the file system
//! requires a name. At every instant the final name leads to the previous file, if any, or to the
//! complete file. [`Draft::commit`] never replaces an existing file; [`Draft::replace`] replaces it
//! in one step.
//!
//! A process that is killed at any instruction leaves:
//!
//! - while the file is written: nothing if it is nameless, or the draft under its temporary name;
//! - in `commit`: nothing, or the draft's second name where the file system knows no
//!   `RENAME_NOREPLACE`;
//! - in `replace`: nothing, or, for a nameless file, the draft between two system calls, because a
//!   nameless file cannot take a name that is used.
//!
//! The name of an abandoned draft shows its purpose. The next draft that gets a temporary name for
//! the same purpose removes it; see [`super::draft_name`].
//!
//! # Safety
//! Unsafe only for libc calls with C strings of our own, and to adopt a descriptor that a call has
//! just returned.
#![allow(unsafe_code)]

use super::draft_name::{self, Place, Temporary};
use super::file::{c_path, checked, status, uninterrupted};
use crate::steps::{fault, step};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Creates a file in a directory, given the final name. Returns it and its temporary name, if any.
type Create = fn(&Place, u32) -> io::Result<(File, Option<Temporary>)>;

/// Permission bits without which not even the owner could open the hold again.
const OWNER: u32 = 0o600;
/// The permission bits that any new file of a command is given, less the umask.
const ANY: u32 = 0o666;

/// Removes what killed processes have left while they created, or replaced, the file at `path`.
pub(crate) fn remove_left(path: &Path) {
    if let Ok(place) = Place::of(path) {
        draft_name::remove_left(&place);
    }
}

/// A file that is being prepared and does not have its final name yet. Dropping it leaves nothing.
#[derive(Debug)]
pub struct Draft {
    file: File,
    /// The final location.
    place: Place,
    path: PathBuf,
    /// The file's name meanwhile, if the file system insists on one.
    temporary: Option<Temporary>,
}

/// A file that has its final name.
#[derive(Debug)]
#[must_use = "the name is not durable before the directory is"]
pub struct Placed {
    directory: OwnedFd,
    file: File,
}

impl Draft {
    /// Creates an empty file that will become `path`. It has exactly the permission bits `mode`,
    /// whatever the umask; they must let the owner read and write.
    ///
    /// # Errors
    /// `InvalidInput`; those of the system.
    pub fn new(path: &Path, mode: u32) -> io::Result<Draft> {
        Draft::begin(path, mode, create)
    }

    /// As [`Draft::new`], with the permissions of any new file: 666 less the umask.
    ///
    /// # Errors
    /// As [`Draft::new`].
    pub fn as_usual(path: &Path) -> io::Result<Draft> {
        Draft::prepare(path, ANY, create)
    }

    /// As [`Draft::new`], for content that can only be written through a path: the file has a
    /// temporary name.
    ///
    /// # Errors
    /// As [`Draft::new`].
    pub fn with_name(path: &Path, mode: u32) -> io::Result<Draft> {
        Draft::begin(path, mode, create_named)
    }

    /// As [`Draft::new`], with a choice of how the file is created.
    pub(super) fn begin(path: &Path, mode: u32, create: Create) -> io::Result<Draft> {
        let mode = mode & 0o777;
        if mode & OWNER != OWNER {
            return Err(invalid(format!(
                "expected a mode that includes 600, got {mode:03o}, which locks out the owner"
            )));
        }
        let draft = Draft::prepare(path, OWNER, create)?;
        uninterrupted(|| {
            fault!("draft.mode")?;
            // SAFETY: no memory is passed.
            checked(unsafe { libc::fchmod(draft.file.as_raw_fd(), mode) })
        })?;
        Ok(draft)
    }

    fn prepare(path: &Path, mode: u32, create: Create) -> io::Result<Draft> {
        let place = Place::of(path)?;
        let (file, temporary) = create(&place, mode)?;
        Ok(Draft { file, place, path: path.to_owned(), temporary })
    }

    /// The file, open for reading and writing.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether the file can be opened again through its descriptor. This needs /proc.
    pub(crate) fn is_reachable(&self) -> bool {
        is_in_proc(&self.file)
    }

    /// A path that leads to the file now: a temporary one if the file has any, else the final one.
    #[must_use]
    pub fn path_now(&self) -> PathBuf {
        match &self.temporary {
            Some(temporary) => self.path.with_file_name(temporary.file_name()),
            None => self.path.clone(),
        }
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// `AlreadyExists` if a file of that name exists. An error leaves nothing of the draft.
    pub fn commit(mut self) -> io::Result<Placed> {
        match self.temporary.take() {
            None => self.link_nameless(&self.place.name)?,
            Some(temporary) => self.rename_new(temporary)?,
        }
        step!("draft.committed");
        Ok(self.placed())
    }

    /// Gives the file its name. Replaces the file that has the name, if any, in one step.
    ///
    /// # Errors
    /// An error leaves nothing of the draft, and the name leads to the same file as before.
    pub fn replace(mut self) -> io::Result<Placed> {
        if self.temporary.is_none() {
            match self.link_nameless(&self.place.name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => return linked.map(|()| self.placed()),
            }
        }
        let mut temporary = match self.temporary.take() {
            Some(temporary) => temporary,
            None => self.link_for_a_moment()?,
        };
        temporary.rename(&self.place.name, 0)?;
        step!("draft.replaced");
        Ok(self.placed())
    }

    fn placed(self) -> Placed {
        Placed { directory: self.place.directory, file: self.file }
    }

    /// Renames the draft without replacing anything.
    fn rename_new(&self, mut temporary: Temporary) -> io::Result<()> {
        match temporary.rename(&self.place.name, libc::RENAME_NOREPLACE) {
            Err(error) if is_unknown(&error) => {
                let directory = self.place.directory.as_raw_fd();
                // Dropping `temporary` removes that name, whether this succeeds or not.
                link(directory, temporary.name(), directory, &self.place.name, 0)?;
                step!("draft.linked-twice");
                Ok(())
            }
            renamed => renamed,
        }
    }

    /// A name for the short time before the rename.
    fn link_for_a_moment(&self) -> io::Result<Temporary> {
        draft_name::remove_left(&self.place);
        // Locked before anybody can find it, so that nobody takes it for an abandoned one.
        draft_name::lock(&self.file)?;
        let name = draft_name::new(&self.place.name)?;
        self.link_nameless(&name)?;
        step!("draft.linked");
        Temporary::new(&self.place, name)
    }

    fn link_nameless(&self, name: &CStr) -> io::Result<()> {
        let own = own_path(&self.file)?;
        let directory = self.place.directory.as_raw_fd();
        link(libc::AT_FDCWD, &own, directory, name, libc::AT_SYMLINK_FOLLOW)
    }
}

impl Placed {
    /// The file. (Closing another descriptor of it would release this process's record locks on
    /// it.)
    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }

    /// Makes the name durable, as far as the file system supports that.
    ///
    /// # Errors
    /// Those of the system. The file exists and is complete, but a crash of the system may remove
    /// its name.
    pub fn sync(&self) -> io::Result<()> {
        let readable = || open_at(&self.directory, c".", libc::O_RDONLY | libc::O_DIRECTORY, 0);
        let directory = match fault!("draft.open-directory").and_then(|()| readable()) {
            // A process that may not read the directory can create names in it, but has to leave
            // the sync to the system.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            opened => opened?,
        };
        let synced = uninterrupted(|| {
            fault!("draft.sync-directory")?;
            // SAFETY: no memory is passed.
            checked(unsafe { libc::fsync(directory.as_raw_fd()) })
        });
        match synced {
            // The file system does not support syncing a directory.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EROFS)) => {
                Ok(())
            }
            synced => synced.map(drop),
        }
    }
}

/// A new file in the directory: nameless, or under a temporary name.
pub(super) fn create(place: &Place, mode: u32) -> io::Result<(File, Option<Temporary>)> {
    let nameless = || open_at(&place.directory, c".", libc::O_TMPFILE | libc::O_RDWR, mode);
    match fault!("draft.nameless").and_then(|()| nameless()) {
        // A file cannot be given a name without /proc.
        Ok(file) if is_in_proc(&file) => Ok((file, None)),
        Ok(_) => create_named(place, mode),
        // The errors of kernels and file systems that do not know O_TMPFILE.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT | libc::EINVAL)
            ) =>
        {
            create_named(place, mode)
        }
        Err(error) => Err(error),
    }
}

/// A new file in the directory under a temporary name derived from `name`.
pub(super) fn create_named(place: &Place, mode: u32) -> io::Result<(File, Option<Temporary>)> {
    draft_name::remove_left(place);
    loop {
        let fresh = draft_name::new(&place.name)?;
        let how = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let file = open_at(&place.directory, &fresh, how, mode)?;
        let temporary = Temporary::new(place, fresh)?;
        step!("draft.created");
        draft_name::lock(&file)?;
        // Not if another process took it for an abandoned one before it was locked.
        if status(file.as_raw_fd())?.st_nlink > 0 {
            return Ok((file, Some(temporary)));
        }
    }
}

fn own_path(file: &File) -> io::Result<CString> {
    c_path(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
}

/// Whether the path that links the file leads to it.
fn is_in_proc(file: &File) -> bool {
    let metadata = |path: &str| std::fs::metadata(path).ok();
    let found = metadata(&format!("/proc/self/fd/{}", file.as_raw_fd()));
    let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
    found.map(identity) == file.metadata().ok().map(identity)
}

/// Whether the error means that the system does not know the operation.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP))
}

pub(super) fn open_at(
    directory: &OwnedFd,
    name: &CStr,
    how: libc::c_int,
    mode: u32,
) -> io::Result<File> {
    let flags = how | libc::O_CLOEXEC;
    let fd = uninterrupted(|| {
        fault!("draft.create")?;
        // SAFETY: the name is a C string that outlives the call.
        checked(unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, mode) })
    })?;
    // SAFETY: the call has just returned this descriptor, nobody else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
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
