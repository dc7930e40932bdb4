//! The ids of a directory, and the file of each id.
//!
//! Only regular files count, not the targets of symbolic links: a server refuses those by default.
//! Invariant: ids come in one order, whatever order the file system has.

use crate::workload::{Result, RunError};
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::fs::{self, DirEntry, FileType};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Bytes of an id where the layout fixes it.
pub const ZOTERO_BYTES: usize = 8;
/// The characters of such an id.
pub const ZOTERO_DIGITS: &[u8; 36] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// The layout of a directory.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Any files; an id is a path below the directory
    Tree,
    /// Folders whose names are 8 characters from A-Z and 0-9, each containing one .pdf; an id is a
    /// folder's name
    Zotero,
}

/// The files by their ids, and the number of entries left out.
#[derive(Default)]
pub struct Found {
    /// A path for each id.
    pub files: BTreeMap<Vec<u8>, PathBuf>,
    /// The number of entries in the directory that cannot be requested.
    pub left_out: u64,
}

impl Layout {
    /// Its name in the option.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Tree => "tree",
            Layout::Zotero => "zotero",
        }
    }

    /// Scans `directory`.
    pub fn find(self, directory: &Path) -> Result<Found> {
        let mut found = Found::default();
        match self {
            Layout::Tree => walk(directory, b"", &mut found)?,
            Layout::Zotero => folders(directory, &mut found)?,
        }
        Ok(found)
    }

    /// An id that could be one of this layout.
    pub fn invent(self, rng: &mut fastrand::Rng) -> Vec<u8> {
        let mut digits = |count| -> Vec<u8> {
            (0..count).map(|_| ZOTERO_DIGITS[rng.usize(..ZOTERO_DIGITS.len())]).collect()
        };
        match self {
            Layout::Tree => [b"unknown/", &digits(12)[..]].concat(),
            Layout::Zotero => digits(ZOTERO_BYTES),
        }
    }
}

fn walk(folder: &Path, id: &[u8], found: &mut Found) -> Result<()> {
    for (entry, kind) in entries(folder)? {
        let name = entry.file_name().into_vec();
        let id = if id.is_empty() { name } else { [id, b"/", &name].concat() };
        if kind.is_dir() {
            walk(&entry.path(), &id, found)?;
        } else if kind.is_file() {
            found.files.insert(id, entry.path());
        } else {
            found.left_out += 1;
        }
    }
    Ok(())
}

fn folders(directory: &Path, found: &mut Found) -> Result<()> {
    for (entry, kind) in entries(directory)? {
        let id = entry.file_name().into_vec();
        let named = id.len() == ZOTERO_BYTES && id.iter().all(|c| ZOTERO_DIGITS.contains(c));
        let file = if named && kind.is_dir() { only_pdf(&entry.path())? } else { None };
        match file {
            Some(path) => drop(found.files.insert(id, path)),
            None => found.left_out += 1,
        }
    }
    Ok(())
}

/// The one .pdf of a folder; `None` if there are none or several.
fn only_pdf(folder: &Path) -> Result<Option<PathBuf>> {
    let is_pdf = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "pdf");
    let files = entries(folder)?.into_iter().filter(|(_, kind)| kind.is_file());
    let mut files = files.map(|(entry, _)| entry.path()).filter(is_pdf);
    Ok(files.next().filter(|_| files.next().is_none()))
}

fn entries(folder: &Path) -> Result<Vec<(DirEntry, FileType)>> {
    let read = || -> std::io::Result<Vec<(DirEntry, FileType)>> {
        fs::read_dir(folder)?
            .map(|entry| entry.and_then(|entry| entry.file_type().map(|kind| (entry, kind))))
            .collect()
    };
    read().map_err(|e| RunError::new(format!("cannot read {}: {e}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        folder
    }

    fn ids(layout: Layout, folder: &tempfile::TempDir) -> (Vec<String>, u64) {
        let found = layout.find(folder.path()).unwrap();
        let text = |id: &Vec<u8>| String::from_utf8(id.clone()).unwrap();
        (found.files.keys().map(text).collect(), found.left_out)
    }

    #[test]
    fn a_trees_ids_are_paths_and_links_are_left_out() {
        let folder = folder(&["b/c/d.txt", "a.txt", "b/x"]);
        std::os::unix::fs::symlink("a.txt", folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("folder")).unwrap();
        let wanted = ["a.txt", "b/c/d.txt", "b/x"].map(str::to_owned).to_vec();
        assert_eq!(ids(Layout::Tree, &folder), (wanted, 2));
    }

    #[test]
    fn zoteros_ids_are_folders_with_one_pdf() {
        let folder = folder(&[
            "ABCD0123/paper.pdf",
            "ABCD0123/notes.txt",
            "TWOFILES/a.pdf",
            "TWOFILES/b.pdf",
            "abcd0123/paper.pdf",
            "SHORT/paper.pdf",
            "NOPAPER0/notes.txt",
            "PLAINFIL",
        ]);
        assert_eq!(ids(Layout::Zotero, &folder), (vec!["ABCD0123".to_owned()], 5));
    }

    #[test]
    fn invented_ids_could_be_real() {
        let mut rng = fastrand::Rng::with_seed(1);
        let id = Layout::Zotero.invent(&mut rng);
        assert!(id.len() == ZOTERO_BYTES && id.iter().all(|c| ZOTERO_DIGITS.contains(c)));
        assert!(Layout::Tree.invent(&mut rng).starts_with(b"unknown/"));
    }
}
