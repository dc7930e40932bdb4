//! Ids are paths, as in most web servers.

use super::Layout;
use crate::directory::Directory;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Device and inode of a directory.
type Identity = (u64, u64);

/// The greatest depth of directories that is followed.
const DEEPEST: usize = 64;

/// Ids are paths below the directory, without a slash in front. An id that ends with a slash, or is
/// empty, names a directory: it means the directory's index file, if there is to be one.
///
/// Files and directories whose names begin with a dot are hidden, except the directory
/// `.well-known` (RFC 8615) at the top.
#[derive(Debug)]
pub struct Tree {
    index: Option<Vec<u8>>,
    hidden: bool,
}

impl Tree {
    /// For a directory, the layout names the file `index` in it, or no file if `index` is `None`.
    /// The layout includes hidden files only if `hidden` is set.
    #[must_use]
    pub fn new(index: Option<&str>, hidden: bool) -> Tree {
        Tree { index: index.map(|name| name.as_bytes().to_vec()), hidden }
    }

    fn walk(
        &self,
        directory: &Directory,
        path: &Path,
        above: &mut Vec<Identity>,
        each: &mut dyn FnMut(&[u8], &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        // A symlink to a directory above it is a loop.
        let identity = directory.directory_identity(path)?;
        let Some(identity) = identity.filter(|identity| !above.contains(identity)) else {
            return Ok(());
        };
        let depth = above.len();
        above.push(identity);
        let mut names = directory.names(path)?;
        names.retain(|name| self.hidden || !is_hidden(depth, name.as_bytes()));
        names.sort();
        for name in names {
            let path = path.join(&name);
            match directory.look(&path)? {
                Some(_) => each(path.as_os_str().as_bytes(), &path)?,
                None if depth < DEEPEST => self.walk(directory, &path, above, each)?,
                None => {}
            }
        }
        above.pop();
        Ok(())
    }
}

/// Whether a name is hidden; `depth` is the number of directories above it.
fn is_hidden(depth: usize, name: &[u8]) -> bool {
    name.starts_with(b".") && !(depth == 0 && name == b".well-known")
}

impl Layout for Tree {
    fn id_len(&self) -> Option<usize> {
        None
    }

    fn id<'a>(&self, id: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let id = id.strip_prefix(b"/").unwrap_or(id);
        let (inside, is_directory) = match id.strip_suffix(b"/") {
            Some(inside) => (inside, true),
            None => (id, id.is_empty()),
        };
        // Names of nothing, of the same directory and of its parent are invalid; a NUL ends names.
        let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
        let mut names = inside.split(|&byte| byte == b'/').enumerate();
        let is_open = |depth, name| self.hidden || !is_hidden(depth, name);
        if !inside.is_empty() && !names.all(|(depth, name)| is_name(name) && is_open(depth, name)) {
            return None;
        }
        if !is_directory {
            return Some(Cow::Borrowed(id));
        }
        let index = self.index.as_ref()?;
        if inside.is_empty() && !id.is_empty() {
            return None;
        }
        Some(Cow::Owned([id, index].concat()))
    }

    fn find(&self, _: &Directory, id: &[u8]) -> io::Result<Option<PathBuf>> {
        Ok(Some(PathBuf::from(OsStr::from_bytes(id))))
    }

    fn each(
        &self,
        directory: &Directory,
        each: &mut dyn FnMut(&[u8], &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        self.walk(directory, Path::new(""), &mut Vec::new(), each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Option<String> {
        let tree = Tree::new(Some("index.html"), false);
        tree.id(text.as_bytes()).map(|id| String::from_utf8(id.into_owned()).unwrap())
    }

    #[test]
    fn ids_are_paths_below() {
        assert_eq!(id("/a/b.txt").as_deref(), Some("a/b.txt"));
        assert_eq!(id("a/b.txt").as_deref(), Some("a/b.txt"));
        assert_eq!(id("a/b..c/d.").as_deref(), Some("a/b..c/d."));
        for none in ["..", "/../x", "a/../b", "a/./b", "a//b", "//a", "//", "/./", "a\0b", "a/.."] {
            assert_eq!(id(none), None, "{none:?}");
        }
    }

    #[test]
    fn names_that_begin_with_a_dot_are_hidden() {
        let all = Tree::new(Some("index.html"), true);
        for hidden in [".a", "/.git/config", ".git/", "a/.b", "a/.b/c", "..b", "a/.well-known/b"] {
            assert_eq!(id(hidden), None, "{hidden:?}");
            assert!(all.id(hidden.as_bytes()).is_some(), "{hidden:?}");
        }
        for parent in ["..", "a/../b", "a/./b"] {
            assert_eq!(all.id(parent.as_bytes()), None, "{parent:?}");
        }
        assert_eq!(id("/.well-known/a").as_deref(), Some(".well-known/a"));
        assert_eq!(id("/.well-known/.a"), None);
    }

    #[test]
    fn a_directory_has_an_index_or_nothing() {
        assert_eq!(id("/").as_deref(), Some("index.html"));
        assert_eq!(id("").as_deref(), Some("index.html"));
        assert_eq!(id("/a/").as_deref(), Some("a/index.html"));
        assert_eq!(Tree::new(None, false).id(b"/a/"), None);
        assert_eq!(Tree::new(None, false).id(b"/"), None);
    }
}
