//! Ids are paths, as in most web servers.

use super::Layout;
use crate::directory::Directory;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The greatest depth of directories that is followed; a loop of mounts ends here.
const DEEPEST: usize = 64;

/// Ids are paths below the directory, without a slash in front. An id that ends with a slash, or is
/// empty, names a directory: it means the directory's index file, if there is to be one.
#[derive(Debug)]
pub struct Tree {
    index: Option<Vec<u8>>,
}

impl Tree {
    /// Answers for directories with the file of this name in them; with `None`, not at all.
    #[must_use]
    pub fn new(index: Option<&str>) -> Tree {
        Tree { index: index.map(|name| name.as_bytes().to_vec()) }
    }
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
        if !inside.is_empty() && !inside.split(|&byte| byte == b'/').all(is_name) {
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
        walk(directory, Path::new(""), DEEPEST, each)
    }
}

fn walk(
    directory: &Directory,
    path: &Path,
    deeper: usize,
    each: &mut dyn FnMut(&[u8], &Path) -> io::Result<()>,
) -> io::Result<()> {
    let mut names = directory.names(path)?;
    names.sort();
    for name in names {
        let path = path.join(&name);
        match directory.look(&path)? {
            Some(_) => each(path.as_os_str().as_bytes(), &path)?,
            None if deeper > 0 && directory.is_directory_itself(&path)? => {
                walk(directory, &path, deeper - 1, each)?;
            }
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Option<String> {
        let tree = Tree::new(Some("index.html"));
        tree.id(text.as_bytes()).map(|id| String::from_utf8(id.into_owned()).unwrap())
    }

    #[test]
    fn ids_are_paths_below() {
        assert_eq!(id("/a/b.txt").as_deref(), Some("a/b.txt"));
        assert_eq!(id("a/b.txt").as_deref(), Some("a/b.txt"));
        assert_eq!(id("a/..b/.c").as_deref(), Some("a/..b/.c"));
        for none in ["..", "/../x", "a/../b", "a/./b", "a//b", "//a", "//", "/./", "a\0b", "a/.."] {
            assert_eq!(id(none), None, "{none:?}");
        }
    }

    #[test]
    fn a_directory_has_an_index_or_nothing() {
        assert_eq!(id("/").as_deref(), Some("index.html"));
        assert_eq!(id("").as_deref(), Some("index.html"));
        assert_eq!(id("/a/").as_deref(), Some("a/index.html"));
        assert_eq!(Tree::new(None).id(b"/a/"), None);
        assert_eq!(Tree::new(None).id(b"/"), None);
    }
}
