//! Zotero's storage: a folder for each item, named by eight characters, with one PDF in it.

use super::Layout;
use crate::directory::Directory;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The length of an id in bytes.
const LEN: usize = 8;

/// Ids are the names of folders, eight characters of A-Z and 0-9; the file is the one `.pdf` in the
/// folder, the first by name if there are several.
#[derive(Debug)]
pub struct Zotero;

fn is_id(id: &[u8]) -> bool {
    id.len() == LEN && id.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

fn is_document(name: &OsString) -> bool {
    let name = name.as_bytes();
    name.len() > 4 && name[name.len() - 4..].eq_ignore_ascii_case(b".pdf")
}

impl Layout for Zotero {
    fn id_len(&self) -> Option<usize> {
        Some(LEN)
    }

    fn id<'a>(&self, id: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let id = id.strip_prefix(b"/").unwrap_or(id);
        is_id(id).then_some(Cow::Borrowed(id))
    }

    fn find(&self, directory: &Directory, id: &[u8]) -> io::Result<Option<PathBuf>> {
        let folder = Path::new(OsStr::from_bytes(id));
        let documents = directory.names(folder)?.into_iter().filter(is_document);
        Ok(documents.min().map(|name| folder.join(name)))
    }

    fn each(
        &self,
        directory: &Directory,
        each: &mut dyn FnMut(&[u8], &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut folders = directory.names(Path::new(""))?;
        folders.retain(|name| is_id(name.as_bytes()));
        folders.sort();
        for folder in folders {
            if let Some(path) = self.find(directory, folder.as_bytes())? {
                each(folder.as_bytes(), &path)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_eight_characters() {
        assert!(Zotero.id(b"/AB12CD34").is_some() && Zotero.id(b"AB12CD34").is_some());
        for none in [&b"ab12cd34"[..], b"AB12CD3", b"AB12CD345", b"AB12/D34", b"AB12CD3\n", b""] {
            assert!(Zotero.id(none).is_none());
        }
    }
}
