//! Files of a directory, by a layout.

use super::{Coding, Found, Opened, Source};
use crate::directory::{Directory, last_name};
use crate::layout::Layout;
use crate::stamp::Stamp;
use commonhold::{fault, shortened};
use commonhold_io::fault_errno::errno;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a directory.
pub struct FileTree {
    directory: RefCell<Arc<Directory>>,
    layout: Arc<dyn Layout>,
}

impl FileTree {
    /// The files that the layout finds in the directory.
    #[must_use]
    pub fn new(directory: Arc<Directory>, layout: Arc<dyn Layout>) -> FileTree {
        FileTree { directory: RefCell::new(directory), layout }
    }
}

/// A compressed companion of a file, unless it is older.
fn compressed(
    directory: &Directory,
    path: &Path,
    coding: Coding,
    plain: &Stamp,
) -> io::Result<Option<Stamp>> {
    let stamp = directory.look(&coded(path, coding))?;
    Ok(stamp.filter(|stamp| stamp.modified_ns >= plain.modified_ns))
}

fn coded(path: &Path, coding: Coding) -> PathBuf {
    let mut path = path.to_owned().into_os_string();
    path.push(coding.suffix());
    path.into()
}

impl Source for FileTree {
    type Handle = Arc<OwnedFd>;

    fn refresh(&self) -> io::Result<bool> {
        let replacement = self.directory.borrow().replacement()?;
        let is_another = replacement.is_some();
        if let Some(replacement) = replacement {
            *self.directory.borrow_mut() = Arc::new(replacement);
        }
        Ok(is_another)
    }

    fn look(&self, id: &[u8]) -> io::Result<Option<Found>> {
        let directory = self.directory.borrow();
        let Some(path) = self.layout.find(&directory, id)? else { return Ok(None) };
        let Some(plain) = directory.look(&path)? else { return Ok(None) };
        let compressed = |coding| compressed(&directory, &path, coding, &plain);
        let [brotli, gzip] = Coding::COMPRESSED;
        Ok(Some(Found { plain, compressed: [compressed(brotli)?, compressed(gzip)?] }))
    }

    fn open(&self, id: &[u8], coding: Coding) -> io::Result<Option<Opened<Arc<OwnedFd>>>> {
        let directory = self.directory.borrow();
        let Some(path) = self.layout.find(&directory, id)? else { return Ok(None) };
        let opened = directory.open_file(&coded(&path, coding))?;
        Ok(opened.map(|(fd, stamp)| Opened { handle: fd.into(), stamp, name: last_name(&path) }))
    }

    fn stamp(&self, handle: &Arc<OwnedFd>) -> io::Result<Stamp> {
        Stamp::of_open(handle)
    }

    fn is_directory(&self, id: &[u8]) -> io::Result<bool> {
        let directory = self.directory.borrow();
        let path = self.layout.find(&directory, id)?;
        path.map_or(Ok(false), |path| directory.is_directory(&path))
    }

    fn read(&self, handle: &Arc<OwnedFd>, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < most {
            let at = offset + bytes.len() as u64;
            // The memory for all of it, allocated once.
            bytes.reserve_exact(shortened!("files.pread-bytes", most - bytes.len()));
            let read = errno(fault!("files.pread"))
                .and_then(|()| rustix::io::pread(handle, spare_capacity(&mut bytes), at));
            match read {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // There may have been more room than requested.
        bytes.truncate(most);
        Ok(bytes)
    }

    fn file(handle: &Arc<OwnedFd>) -> Option<Arc<OwnedFd>> {
        Some(Arc::clone(handle))
    }
}
