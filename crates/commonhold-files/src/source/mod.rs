//! Sources: the places of files. Each is one file that implements [`Source`].

#[cfg(feature = "sqlite")]
mod sqlite;
mod tree;

pub use crate::coding::Coding;
pub use crate::directory::{Directory, Symlinks};
#[cfg(feature = "sqlite")]
pub use sqlite::{Database, import};
pub use tree::FileTree;

use super::stamp::{Stamp, mixed_numbers};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The versions under an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// The file's version.
    pub plain: Stamp,
    /// The versions of its companions, which are compressed and not older than the file: Brotli,
    /// then gzip.
    pub compressed: [Option<Stamp>; 2],
}

impl Found {
    /// A file without companions.
    #[must_use]
    pub fn alone(plain: Stamp) -> Found {
        Found { plain, compressed: [None; 2] }
    }

    /// The version of the contents in this coding.
    #[must_use]
    pub fn stamp(&self, coding: Coding) -> Option<Stamp> {
        match coding {
            Coding::Plain => Some(self.plain),
            Coding::Brotli => self.compressed[0],
            Coding::Gzip => self.compressed[1],
        }
    }

    /// All versions as one number.
    pub(crate) fn to_bits(self) -> u64 {
        let [brotli, gzip] = self.compressed.map(|stamp| stamp.map_or(0, Stamp::to_bits));
        mixed_numbers(&[self.plain.to_bits(), brotli, gzip])
    }
}

/// An open file.
pub struct Opened<H> {
    /// The handle for reading it.
    pub handle: H,
    /// Its version.
    pub stamp: Stamp,
    /// The end of its name, by which its type is known, without the coding's suffix.
    pub name: Vec<u8>,
}

/// A source of files. It belongs to one thread.
pub trait Source {
    /// An open file: its contents stay readable while the handle lives, also after its removal.
    type Handle: Clone;

    /// Switches to another directory or database, if there is one under the path now. Returns
    /// whether it did: then earlier looks no longer count.
    ///
    /// # Errors
    /// Those of opening it; then the old one stays.
    fn refresh(&self) -> io::Result<bool>;

    /// The versions under an id; `None` if it names nothing.
    ///
    /// # Errors
    /// Those of the system; `PermissionDenied` if it may not be read.
    fn look(&self, id: &[u8]) -> io::Result<Option<Found>>;

    /// Opens the file under an id, in one coding.
    ///
    /// # Errors
    /// As for [`look`](Self::look).
    fn open(&self, id: &[u8], coding: Coding) -> io::Result<Option<Opened<Self::Handle>>>;

    /// The present version of an open file, which changes when the file is written to.
    ///
    /// # Errors
    /// Those of the system.
    fn stamp(&self, handle: &Self::Handle) -> io::Result<Stamp>;

    /// Whether an id names a directory that has an id of its own, with a slash at the end.
    ///
    /// # Errors
    /// As for [`look`](Self::look).
    fn is_directory(&self, id: &[u8]) -> io::Result<bool>;

    /// Reads at most `most` bytes from `offset` on; none if the file ends before. May return fewer
    /// before the end.
    ///
    /// # Errors
    /// Those of the system.
    fn read(&self, handle: &Self::Handle, offset: u64, most: usize) -> io::Result<Vec<u8>>;

    /// The file that the kernel can send from, if there is one.
    fn file(handle: &Self::Handle) -> Option<Arc<OwnedFd>>;
}

/// The available sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// A directory; large files are sent by `sendfile`.
    #[default]
    Sendfile,
    /// A database that [`import`] made.
    Sqlite,
}

commonhold_io::named_choice!(SourceKind { Sendfile => "sendfile", Sqlite => "sqlite" });
