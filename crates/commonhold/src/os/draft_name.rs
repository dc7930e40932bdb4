//! The temporary names of drafts, and removing abandoned drafts.
//!
//! A draft that will become `NAME` is called `.NAME.RANDOM.draft` in the same directory. Its maker
//! keeps an exclusive lock (`flock`) on it while it works on it. If a file with such a name can be
//! locked, its maker was killed, and the maker of the next draft removes it.
//!
//! Invariant: nobody removes a draft whose lock is held. A draft that its maker has not locked yet
//! may be removed at any time. The maker notices this once it has the lock, and creates another.
//!
//! # Safety
//! Unsafe only for libc calls with C strings of our own, and to adopt a descriptor that a call has
//! just returned.
#![allow(unsafe_code)]

use super::draft::open_at;
use super::file::{c_path, checked, has_no_locks, status, uninterrupted};
use super::location::random_bytes;
use crate::steps::fault;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The suffix of a temporary name.
const ENDING: &[u8] = b".draft";
/// Bytes kept of a name: file names are limited to 255 bytes, and the additions take 24.
const KEPT: usize = 230;
/// Digits of the random part.
const DIGITS: usize = 16;

/// A file's name and its directory.
#[derive(Debug)]
pub(super) struct Place {
    /// Held open so that a moved directory does not mislead us.
    pub(super) directory: OwnedFd,
    /// The path by which it was opened.
    parent: PathBuf,
    pub(super) name: CString,
}

impl Place {
    pub(super) fn of(path: &Path) -> io::Result<Place> {
        let name = path.file_name().filter(|_| !path.as_os_str().as_bytes().ends_with(b"/"));
        let name = name.ok_or_else(|| {
            let text = format!("{} names no file", path.display());
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).to_owned();
        let directory = open_directory(&c_path(&parent)?)?;
        Ok(Place { directory, parent, name: c_path(Path::new(name))? })
    }
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

/// A temporary name; dropping it removes it.
#[derive(Debug)]
pub(super) struct Temporary {
    directory: OwnedFd,
    name: CString,
    /// The name was renamed: nothing to remove.
    is_gone: bool,
}

impl Temporary {
    /// Takes charge of a name that was just created in the directory. After an error the name is
    /// removed.
    pub(super) fn new(place: &Place, name: CString) -> io::Result<Temporary> {
        match fault!("draft.duplicate").and_then(|()| place.directory.try_clone()) {
            Ok(directory) => Ok(Temporary { directory, name, is_gone: false }),
            Err(error) => {
                remove(&place.directory, &name);
                Err(error)
            }
        }
    }

    pub(super) fn name(&self) -> &CStr {
        &self.name
    }

    pub(super) fn file_name(&self) -> &OsStr {
        OsStr::from_bytes(self.name.to_bytes())
    }

    /// Renames the file. After an error the temporary name is still there.
    pub(super) fn rename(&mut self, to: &CStr, flags: libc::c_uint) -> io::Result<()> {
        rename(&self.directory, &self.name, to, flags)?;
        self.is_gone = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_gone {
            remove(&self.directory, &self.name);
        }
    }
}

/// Renames within a directory. With flags, uses a call that old kernels and file systems do not
/// know.
fn rename(directory: &OwnedFd, old: &CStr, new: &CStr, flags: libc::c_uint) -> io::Result<()> {
    fault!("draft.rename")?;
    let (directory, old, new) = (directory.as_raw_fd(), old.as_ptr(), new.as_ptr());
    let result = match flags {
        // SAFETY: both names are C strings that outlive the call.
        0 => unsafe { libc::renameat(directory, old, directory, new) }.into(),
        // SAFETY: as above.
        _ => unsafe { libc::syscall(libc::SYS_renameat2, directory, old, directory, new, flags) },
    };
    checked(result as libc::c_int).map(drop)
}

fn remove(directory: &OwnedFd, name: &CStr) {
    // SAFETY: the name is a C string that outlives the call.
    unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) };
}

/// A fresh temporary name for a file that will become `name`.
pub(super) fn new(name: &CStr) -> io::Result<CString> {
    let random = u64::from_ne_bytes(random_bytes()?);
    let mut fresh = beginning(name);
    fresh.extend(format!("{random:016x}").bytes());
    fresh.extend(ENDING);
    CString::new(fresh).map_err(io::Error::other)
}

fn beginning(name: &CStr) -> Vec<u8> {
    let mut text = b".".to_vec();
    text.extend(name.to_bytes().iter().take(KEPT));
    text.push(b'.');
    text
}

/// Whether `found` is a temporary name of a file that would become `name`.
fn is_of(found: &[u8], name: &CStr) -> bool {
    let rest = found.strip_prefix(&*beginning(name)).and_then(|rest| rest.strip_suffix(ENDING));
    rest.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Locks a draft for its maker. Nobody removes drafts where the file system has no such locks.
pub(super) fn lock(file: &File) -> io::Result<()> {
    match try_lock(file) {
        // The holder of the lock is about to remove the draft; the caller will notice.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) if has_no_locks(&error) => Ok(()),
        locked => locked,
    }
}

fn try_lock(file: &File) -> io::Result<()> {
    let locked = uninterrupted(|| {
        fault!("draft.lock")?;
        // SAFETY: no memory is passed.
        checked(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })
    });
    locked.map(drop)
}

/// Removes the drafts for `name` whose makers are dead. Drafts that cannot be removed stay.
pub(super) fn remove_left(place: &Place) {
    let listed = fault!("draft.list").and_then(|()| std::fs::read_dir(&place.parent));
    let Ok(entries) = listed else { return };
    for entry in entries.flatten() {
        let found = entry.file_name();
        if is_of(found.as_bytes(), &place.name)
            && let Ok(found) = CString::new(found.as_bytes())
        {
            remove_if_left(&place.directory, &found);
        }
    }
}

fn remove_if_left(directory: &OwnedFd, name: &CStr) {
    let how = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let Ok(file) = open_at(directory, name, how, 0) else { return };
    let is_regular = |found: libc::stat| found.st_mode & libc::S_IFMT == libc::S_IFREG;
    // While it is locked, the name cannot become another draft's.
    if status(file.as_raw_fd()).is_ok_and(is_regular) && try_lock(&file).is_ok() {
        remove(directory, name);
    }
}
