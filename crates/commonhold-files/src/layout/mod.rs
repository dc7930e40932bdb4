//! Layouts: how ids name files of a directory. Each is one file that implements [`Layout`].

mod tree;
mod zotero;

pub use tree::Tree;
pub use zotero::Zotero;

use crate::directory::Directory;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

/// The meaning of ids. A new layout implements this, in one file, and has a line in [`LayoutKind`].
pub trait Layout: Send + Sync {
    /// The length of ids in bytes, if all have the same: then a client need not mark the end of
    /// one.
    fn id_len(&self) -> Option<usize>;

    /// The canonical id, if the bytes can be an id at all: for other bytes the directory is not
    /// searched. It names the contents in caches, so two ids for one file should have one canonical
    /// id.
    fn id<'a>(&self, id: &'a [u8]) -> Option<Cow<'a, [u8]>>;

    /// The path of the file below the directory; `None` if there is none. The file need not exist:
    /// the opening detects that.
    ///
    /// # Errors
    /// Those of reading directories.
    fn find(&self, directory: &Directory, id: &[u8]) -> io::Result<Option<PathBuf>>;

    /// Calls `each` with the id and the path of every file there is.
    ///
    /// # Errors
    /// Those of reading directories, and of `each`.
    fn each(
        &self,
        directory: &Directory,
        each: &mut dyn FnMut(&[u8], &Path) -> io::Result<()>,
    ) -> io::Result<()>;
}

/// The available layouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LayoutKind {
    /// [`Tree`].
    #[default]
    Tree,
    /// [`Zotero`].
    Zotero,
}

impl LayoutKind {
    /// The layout. If it has directories, `index` is the file that is sent for a directory, and
    /// `hidden` includes files and directories whose names begin with a dot.
    #[must_use]
    pub fn layout(self, index: Option<&str>, hidden: bool) -> Box<dyn Layout> {
        match self {
            LayoutKind::Tree => Box::new(Tree::new(index, hidden)),
            LayoutKind::Zotero => Box::new(Zotero),
        }
    }
}

commonhold_io::named_choice!(LayoutKind { Tree => "tree", Zotero => "zotero" });
