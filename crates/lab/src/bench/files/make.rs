//! A directory for tests: files of given sizes with contents that depend on a seed alone.

use super::layout::{Layout, ZOTERO_BYTES, ZOTERO_DIGITS};
use crate::workload::{Result, RunError, random::Permutation};
use indicatif::ProgressBar;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Files of one folder of a tree.
const EACH_FOLDER: u64 = 256;

/// The files that were created.
pub struct Made {
    /// How many files.
    pub files: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// Makes `count` files in `directory`, of the `sizes` in turn. It must be empty, or not exist.
pub fn make(
    directory: &Path,
    layout: Layout,
    count: u64,
    sizes: &[u64],
    seed: u64,
    progress: &ProgressBar,
) -> Result<Made> {
    let failed = |path: &Path, e| RunError::new(format!("cannot create {}: {e}", path.display()));
    fs::create_dir_all(directory).map_err(|e| failed(directory, e))?;
    if fs::read_dir(directory).map_err(|e| failed(directory, e))?.next().is_some() {
        let text =
            format!("{} is not empty; --make needs a new or empty directory", directory.display());
        return Err(RunError::new(text));
    }
    progress.set_length(count);
    let mut bytes = 0;
    for (number, size) in (0..count).zip(sizes.iter().cycle()) {
        let path = directory.join(name(layout, number, seed));
        let seed = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        write(&path, *size, seed).map_err(|e| failed(&path, e))?;
        bytes += size;
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(Made { files: count, bytes })
}

fn name(layout: Layout, number: u64, seed: u64) -> PathBuf {
    match layout {
        Layout::Tree => PathBuf::from(format!("{:04}/{number:06}.bin", number / EACH_FOLDER)),
        Layout::Zotero => {
            let digits = ZOTERO_DIGITS.len() as u64;
            let all = digits.pow(ZOTERO_BYTES as u32);
            let mut rest = Permutation::new(all, seed).at(number % all);
            let mut id = String::new();
            for _ in 0..ZOTERO_BYTES {
                id.push(char::from(ZOTERO_DIGITS[(rest % digits) as usize]));
                rest /= digits;
            }
            PathBuf::from(id).join("document.pdf")
        }
    }
}

fn write(path: &Path, size: u64, seed: u64) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut file = BufWriter::with_capacity(1 << 18, File::create_new(path)?);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut left = size;
    while left > 0 {
        let word = rng.u64(..).to_le_bytes();
        let piece = left.min(word.len() as u64);
        file.write_all(&word[..piece as usize])?;
        left -= piece;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids and contents.
    type Files = Vec<(Vec<u8>, Vec<u8>)>;

    fn made(layout: Layout) -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        let made = make(folder.path(), layout, 7, &[0, 10, 1000], 5, &ProgressBar::hidden());
        let made = made.unwrap();
        assert_eq!((made.files, made.bytes), (7, 2 * 1010));
        let found = layout.find(folder.path()).unwrap();
        assert_eq!(found.left_out, 0);
        let read = |(id, path): (Vec<u8>, PathBuf)| (id, fs::read(path).unwrap());
        (folder, found.files.into_iter().map(read).collect())
    }

    #[test]
    fn the_same_is_made_again() {
        for layout in [Layout::Tree, Layout::Zotero] {
            let (folder, files) = made(layout);
            assert_eq!(files.len(), 7);
            assert_eq!(files, made(layout).1);
            let again = make(folder.path(), layout, 1, &[1], 5, &ProgressBar::hidden());
            assert!(again.err().unwrap().to_string().contains("is not empty"));
        }
    }

    #[test]
    fn files_of_one_size_differ() {
        let (_ground, files) = made(Layout::Tree);
        let long: Vec<_> = files.iter().filter(|(_, bytes)| bytes.len() == 1000).collect();
        assert_eq!(long.len(), 2);
        assert_ne!(long[0].1, long[1].1);
    }
}
