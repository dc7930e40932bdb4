//! A damaged file of a journal keeps a second name, so that the next file does not destroy it.

use crate::journal::file::identity_at;
use commonhold::{Error, ErrorKind, Result};
use std::io;
use std::path::{Path, PathBuf};

/// The most damaged files of one journal.
const MOST: u32 = 100;

/// Gives the file at this path a second name, which is free or this file's already, and returns it:
/// the path with `.damaged`, or `.damaged-2` and so on.
///
/// # Errors
/// `Damaged`, with the reason why there is no such name.
pub(crate) fn keep_damaged(path: &Path) -> Result<PathBuf> {
    for number in 1..=MOST {
        let mut name = path.as_os_str().to_owned();
        name.push(".damaged");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let kept = PathBuf::from(name);
        match commonhold::fault!("journal.link").and_then(|()| std::fs::hard_link(path, &kept)) {
            Ok(()) => return Ok(kept),
            // An earlier journal was ended before it had a new file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_same(path, &kept) => {
                return Ok(kept);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot_keep(path, &error.to_string())),
        }
    }
    Err(cannot_keep(path, &format!("{MOST} damaged files are kept already")))
}

/// Whether both names are the same file's.
fn is_same(path: &Path, kept: &Path) -> bool {
    matches!((identity_at(path), identity_at(kept)), (Ok(its), Ok(own)) if its == own)
}

#[cold]
fn cannot_keep(path: &Path, why: &str) -> Error {
    let text = format!(
        "{}: this journal is damaged, and cannot be kept under another name: {why}; move it away \
         and start the journal again",
        path.display()
    );
    Error::new(ErrorKind::Damaged, text)
}
