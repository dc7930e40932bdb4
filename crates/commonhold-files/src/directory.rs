//! A directory from which no path leads out: the kernel resolves every path below it.
//!
//! `openat2` with `RESOLVE_BENEATH` (Linux 5.6) refuses `..` above the directory, absolute symlinks
//! and those that lead out, whatever is renamed meanwhile. Without it, each part of a path is
//! opened by itself and no symlink is followed.
//!
//! An absolute symlink may lead to a place inside. If the kernel refuses a path, its destination is
//! determined without opening it, and named by a path below the directory. That path is then opened
//! as any other, so whatever is renamed meanwhile, it is a file inside that is opened.
//!
//! Only regular files are opened: the kind of a file is determined without opening it for reading,
//! because opening alone has an effect on devices and FIFOs.

use crate::stamp::Stamp;
use commonhold::fault;
use commonhold_io::fault_errno::errno;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// How often a path is tried that is renamed all the time.
const TRIES: usize = 16;

/// The symlinks that are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Those that lead to a place below the directory.
    #[default]
    Inside,
    /// All, also those that lead out.
    All,
}

/// An open directory; it stays the same one if it is renamed.
#[derive(Debug)]
pub struct Directory {
    /// The path at which it was opened.
    path: PathBuf,
    fd: OwnedFd,
    walk: Walk,
}

/// How paths are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// Below the directory, by the kernel.
    Beneath,
    /// Below the directory, part by part and without symlinks.
    Parts,
    /// Wherever symlinks lead.
    Anywhere,
}

impl Directory {
    /// # Errors
    /// Those of opening a directory.
    pub fn open(path: &Path, symlinks: Symlinks) -> io::Result<Directory> {
        let fd = open_itself(path)?;
        let walk = match symlinks {
            Symlinks::All => Walk::Anywhere,
            Symlinks::Inside if has_beneath(&fd)? => Walk::Beneath,
            Symlinks::Inside => Walk::Parts,
        };
        Ok(Directory { path: path.to_owned(), fd, walk })
    }

    /// The directory that has its path now, if that is another one. `None` also if there is none at
    /// the moment.
    ///
    /// # Errors
    /// `PermissionDenied`; those of the system that reveal nothing about the path.
    pub(crate) fn replacement(&self) -> io::Result<Option<Directory>> {
        let there = errno(fault!("files.stat-root")).and_then(|()| fs::stat(&self.path));
        let Some(there) = absent(there)? else { return Ok(None) };
        let this = stat_of(&self.fd)?;
        if (there.st_dev, there.st_ino) == (this.st_dev, this.st_ino) {
            return Ok(None);
        }
        let fd = absent(open_itself(&self.path))?;
        Ok(fd.map(|fd| Directory { path: self.path.clone(), fd, walk: self.walk }))
    }

    /// The version of a regular file; `None` if there is none.
    ///
    /// # Errors
    /// `PermissionDenied`; those of the system that reveal nothing about the file, such as too many
    /// open files.
    pub fn look(&self, path: &Path) -> io::Result<Option<Stamp>> {
        let Some(file) = absent(self.resolve(path, OFlags::PATH))? else { return Ok(None) };
        let stat = stat_of(&file)?;
        Ok(is_regular(&stat).then(|| Stamp::of(&stat)))
    }

    /// Opens a regular file for reading; `None` if there is none.
    ///
    /// # Errors
    /// As for [`look`](Self::look).
    pub fn open_file(&self, path: &Path) -> io::Result<Option<(OwnedFd, Stamp)>> {
        if self.look(path)?.is_none() {
            return Ok(None);
        }
        // Without waiting, in case it has become a FIFO.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let Some(file) = absent(self.resolve(path, flags))? else { return Ok(None) };
        let stat = stat_of(&file)?;
        Ok(is_regular(&stat).then(|| (file, Stamp::of(&stat))))
    }

    /// Whether the path leads to a directory, possibly through symlinks that are followed.
    ///
    /// # Errors
    /// As for [`look`](Self::look).
    pub(crate) fn is_directory(&self, path: &Path) -> io::Result<bool> {
        Ok(absent(self.resolve(path, OFlags::PATH | OFlags::DIRECTORY))?.is_some())
    }

    /// Device and inode of a directory, or of the one to which a symlink leads that is followed; by
    /// these a walk notices that it is in a loop. `None` if there is no such directory.
    ///
    /// # Errors
    /// As for [`look`](Self::look).
    pub(crate) fn directory_identity(&self, path: &Path) -> io::Result<Option<(u64, u64)>> {
        let path = or_itself(path);
        let found = absent(self.resolve(path, OFlags::PATH | OFlags::DIRECTORY))?;
        let Some(directory) = found else { return Ok(None) };
        let stat = stat_of(&directory)?;
        Ok(Some((stat.st_dev, stat.st_ino)))
    }

    /// The names in a directory, in no order; none if there is no such directory.
    ///
    /// # Errors
    /// As for [`look`](Self::look).
    pub fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let path = or_itself(path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let Some(fd) = absent(self.resolve(path, flags))? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        fault!("files.names")?;
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        Ok(names)
    }

    fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        match self.walk {
            Walk::Anywhere => retry_on_intr(|| open_at(self.fd.as_fd(), path, flags)),
            Walk::Parts => by_parts(self.fd.as_fd(), path, flags),
            Walk::Beneath => match self.resolve_beneath(path, flags) {
                Err(Errno::XDEV) => self.resolve_beneath(&self.inside(path, flags)?, flags),
                other => other,
            },
        }
    }

    fn resolve_beneath(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        for _ in 0..TRIES {
            match beneath(&self.fd, path, flags) {
                // A part of the path was renamed: the kernel cannot determine where it leads.
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    /// The path below the directory of the place to which a path leads through symlinks that the
    /// kernel refuses. `XDEV` if the place is not below, or is none.
    fn inside(&self, path: &Path, flags: OFlags) -> Result<PathBuf, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | (flags & OFlags::NOFOLLOW);
        let there = retry_on_intr(|| open_at(self.fd.as_fd(), path, flags)).map_err(outside)?;
        let (there, root) = (real_path(&there)?, real_path(&self.fd)?);
        let below = there.strip_prefix(&root).map_err(|_| Errno::XDEV)?;
        Ok(or_itself(below).to_owned())
    }
}

/// A path below a directory; the empty one names the directory itself.
fn or_itself(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// The present path of an open file.
fn real_path(file: &OwnedFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    errno(fault!("files.readlink"))?;
    Ok(OsString::from_vec(fs::readlink(link, Vec::new())?.into_bytes()).into())
}

/// Errors that would reveal something about a place outside become `XDEV`.
fn outside(error: Errno) -> Errno {
    match error {
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO => error,
        _ => Errno::XDEV,
    }
}

fn open_itself(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retry_on_intr(|| {
        errno(fault!("files.open-root"))?;
        fs::open(path, flags, Mode::empty())
    })
}

fn stat_of(file: &OwnedFd) -> Result<Stat, Errno> {
    errno(fault!("files.fstat"))?;
    fs::fstat(file)
}

fn open_at(
    directory: BorrowedFd<'_>,
    name: impl rustix::path::Arg,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    errno(fault!("files.openat"))?;
    fs::openat(directory, name, flags, Mode::empty())
}

fn beneath(directory: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    errno(fault!("files.openat2"))?;
    fs::openat2(directory, path, flags, Mode::empty(), resolve)
}

/// Whether the kernel can resolve below a directory.
///
/// # Errors
/// Those that do not answer that, such as a lack of descriptors.
fn has_beneath(directory: &OwnedFd) -> io::Result<bool> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match retry_on_intr(|| beneath(directory, Path::new("."), flags)) {
        // Only a call that resolves finds that it lacks permission, or that something was renamed.
        Ok(_) | Err(Errno::ACCESS | Errno::AGAIN) => Ok(true),
        // Too old, or refused by a filter of system calls.
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn by_parts(directory: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let names: Vec<&OsStr> = path.components().filter_map(name).collect::<Result<_, _>>()?;
    let Some((last, above)) = names.split_last() else {
        return retry_on_intr(|| open_at(directory, ".", flags));
    };
    let mut at: Option<OwnedFd> = None;
    let steps = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for name in above {
        let from = at.as_ref().map_or(directory, AsFd::as_fd);
        at = Some(retry_on_intr(|| open_at(from, *name, steps))?);
    }
    let from = at.as_ref().map_or(directory, AsFd::as_fd);
    // By path alone a symlink would be opened itself; it is not a regular file then.
    retry_on_intr(|| open_at(from, *last, flags | OFlags::NOFOLLOW))
}

fn name(part: Component<'_>) -> Option<Result<&OsStr, Errno>> {
    match part {
        Component::Normal(name) => Some(Ok(name)),
        Component::CurDir => None,
        _ => Some(Err(Errno::XDEV)),
    }
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Errors that mean that there is no such file become `None`.
fn absent<T>(resolved: Result<T, Errno>) -> io::Result<Option<T>> {
    match resolved {
        Ok(found) => Ok(Some(found)),
        // XDEV and LOOP: it would lead out. NXIO: a FIFO or a device without another end. INVAL:
        // not a name for this file system.
        Err(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NAMETOOLONG
            | Errno::NXIO
            | Errno::INVAL,
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The identity of the file that a path names, with symlinks followed; for files outside a served
/// directory.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))] // Databases ask.
pub(crate) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fault!("files.stat-database")?;
    let stat = fs::statat(fs::CWD, path, AtFlags::empty())?;
    Ok((stat.st_dev, stat.st_ino))
}

/// The last name of a path.
pub(crate) fn last_name(path: &Path) -> Vec<u8> {
    path.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn served(walk: Walk) -> (tempfile::TempDir, Directory) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("sub/file"), "file").unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink(dir.path().join("secret"), root.join("absolute")).unwrap();
        symlink("sub/file", root.join("inside")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let mut directory = Directory::open(&root, Symlinks::Inside).unwrap();
        directory.walk = walk;
        (dir, directory)
    }

    #[test]
    fn nothing_leads_out() {
        for walk in [Walk::Beneath, Walk::Parts] {
            let (_dir, directory) = served(walk);
            assert!(directory.open_file(Path::new("sub/file")).unwrap().is_some());
            for path in ["../secret", "sub/../../secret", "/etc/passwd", "out", "absolute", "loop"]
            {
                assert!(directory.look(Path::new(path)).unwrap().is_none(), "{walk:?} {path}");
                assert!(directory.open_file(Path::new(path)).unwrap().is_none(), "{path}");
            }
        }
    }

    #[test]
    fn symlinks_inside_are_followed_where_the_kernel_can_tell() {
        let (_dir, directory) = served(Walk::Beneath);
        assert!(directory.open_file(Path::new("inside")).unwrap().is_some());
        let (_dir, directory) = served(Walk::Parts);
        assert!(directory.open_file(Path::new("inside")).unwrap().is_none());
        let (_dir, directory) = served(Walk::Anywhere);
        assert!(directory.open_file(Path::new("out")).unwrap().is_some());
    }

    #[test]
    fn absolute_symlinks_may_lead_inside() {
        let (dir, directory) = served(Walk::Beneath);
        let root = dir.path().join("root");
        symlink(dir.path().join("root"), dir.path().join("alias")).unwrap();
        for (name, to) in [
            ("to-file", root.join("sub/file")),
            ("to-directory", root.join("sub")),
            ("by-alias", dir.path().join("alias/sub/file")),
            ("out-and-in", PathBuf::from("../root/sub/file")),
            ("to-link", root.join("inside")),
        ] {
            symlink(to, root.join(name)).unwrap();
        }
        symlink(&root, root.join("to-root")).unwrap();
        for path in ["to-file", "to-directory/file", "by-alias", "out-and-in", "to-link"] {
            assert!(directory.open_file(Path::new(path)).unwrap().is_some(), "{path}");
        }
        assert!(directory.open_file(Path::new("to-root/to-root/sub/file")).unwrap().is_some());
        let itself = directory.directory_identity(Path::new("")).unwrap();
        assert!(itself.is_some());
        assert_eq!(directory.directory_identity(Path::new("to-root")).unwrap(), itself);
        for path in ["to-root/out", "to-root/absolute", "to-directory/../../secret"] {
            assert!(directory.look(Path::new(path)).unwrap().is_none(), "{path}");
        }
        // The directory below another name has the beginning of its path, and is not below it.
        std::fs::create_dir(dir.path().join("root-2")).unwrap();
        std::fs::write(dir.path().join("root-2/file"), "secret").unwrap();
        symlink(dir.path().join("root-2/file"), root.join("similar")).unwrap();
        assert!(directory.look(Path::new("similar")).unwrap().is_none());
    }

    #[test]
    fn another_directory_under_the_path_is_its_replacement() {
        let (dir, directory) = served(Walk::Parts);
        let (root, old) = (dir.path().join("root"), dir.path().join("old"));
        assert!(directory.replacement().unwrap().is_none(), "it is the same one");
        std::fs::rename(&root, &old).unwrap();
        assert!(directory.replacement().unwrap().is_none(), "nothing is there");
        std::fs::write(&root, "a file").unwrap();
        assert!(directory.replacement().unwrap().is_none(), "no directory is there");
        std::fs::remove_file(&root).unwrap();
        symlink("old", &root).unwrap();
        assert!(directory.replacement().unwrap().is_none(), "it is the same one by another path");
        std::fs::remove_file(&root).unwrap();
        std::fs::create_dir(&root).unwrap();
        let replacement = directory.replacement().unwrap().expect("another one is there");
        assert_eq!(replacement.walk, Walk::Parts);
        assert!(replacement.look(Path::new("sub/file")).unwrap().is_none());
        assert!(replacement.replacement().unwrap().is_none());
    }

    #[test]
    fn only_regular_files_are_files() {
        let (dir, directory) = served(Walk::Beneath);
        let fifo = dir.path().join("root/fifo");
        fs::mknodat(fs::CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in ["fifo", "sub", ".", "absent", "sub/file/x"] {
            assert!(directory.open_file(Path::new(path)).unwrap().is_none(), "{path}");
        }
    }
}
