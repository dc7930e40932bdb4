//! Files of a directory, by a layout.

use super::directory::{Directory, last_name};
use super::{Coding, Found, Opened, Source};
use crate::files::layout::Layout;
use crate::files::stamp::Stamp;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a directory.
pub struct FileTree {
    directory: Arc<Directory>,
    layout: Arc<dyn Layout>,
}

impl FileTree {
    /// What the layout finds in the directory.
    #[must_use]
    pub fn new(directory: Arc<Directory>, layout: Arc<dyn Layout>) -> FileTree {
        FileTree { directory, layout }
    }

    /// The file beside, unless it is older.
    fn beside(&self, path: &Path, coding: Coding, plain: &Stamp) -> io::Result<Option<Stamp>> {
        let stamp = self.directory.look(&coded(path, coding))?;
        Ok(stamp.filter(|stamp| stamp.modified_ns >= plain.modified_ns))
    }
}

fn coded(path: &Path, coding: Coding) -> PathBuf {
    let mut path = path.to_owned().into_os_string();
    path.push(coding.suffix());
    path.into()
}

impl Source for FileTree {
    type Handle = Arc<OwnedFd>;

    fn look(&self, id: &[u8]) -> io::Result<Option<Found>> {
        let Some(path) = self.layout.find(&self.directory, id)? else { return Ok(None) };
        let Some(plain) = self.directory.look(&path)? else { return Ok(None) };
        let [brotli, gzip] = Coding::BESIDE;
        let beside = [self.beside(&path, brotli, &plain)?, self.beside(&path, gzip, &plain)?];
        Ok(Some(Found { plain, beside }))
    }

    fn open(&self, id: &[u8], coding: Coding) -> io::Result<Option<Opened<Arc<OwnedFd>>>> {
        let Some(path) = self.layout.find(&self.directory, id)? else { return Ok(None) };
        let opened = self.directory.open_file(&coded(&path, coding))?;
        Ok(opened.map(|(fd, stamp)| Opened { handle: fd.into(), stamp, name: last_name(&path) }))
    }

    fn is_directory(&self, id: &[u8]) -> bool {
        let path = self.layout.find(&self.directory, id);
        path.is_ok_and(|path| path.is_some_and(|path| self.directory.is_directory(&path)))
    }

    fn read(&self, handle: &Arc<OwnedFd>, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(most);
        while bytes.len() < most {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(handle, spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // There may have been more room than was asked for.
        bytes.truncate(most);
        Ok(bytes)
    }

    fn file(handle: &Arc<OwnedFd>) -> Option<Arc<OwnedFd>> {
        Some(Arc::clone(handle))
    }
}
