//! Layouts: how ids name files of a directory. Each is one file that implements [`Layout`].

mod tree;
mod zotero;

pub use tree::Tree;
pub use zotero::Zotero;

use crate::directory::Directory;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

/// How ids name files. A new layout implements this, in one file, and has a line in [`LayoutKind`].
pub trait Layout: Send + Sync {
    /// How long ids are, in bytes, if all are as long: then a client need not say where one ends.
    fn id_len(&self) -> Option<usize>;

    /// The id that is meant, if it can be one at all: no look at the directory is made for others.
    /// It is the name of the contents in caches, so two ids for one file should be one.
    fn id<'a>(&self, id: &'a [u8]) -> Option<Cow<'a, [u8]>>;

    /// Where the file is, as a path below the directory; `None` if there is none. It need not
    /// exist: who opens it finds out.
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

/// Which layout is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LayoutKind {
    /// [`Tree`].
    #[default]
    Tree,
    /// [`Zotero`].
    Zotero,
}

impl LayoutKind {
    /// The layout; `index` is the file that a directory is answered with, where the layout has
    /// directories.
    #[must_use]
    pub fn layout(self, index: Option<&str>) -> Box<dyn Layout> {
        match self {
            LayoutKind::Tree => Box::new(Tree::new(index)),
            LayoutKind::Zotero => Box::new(Zotero),
        }
    }
}

commonhold_io::named_choice!(LayoutKind { Tree => "tree", Zotero => "zotero" });
