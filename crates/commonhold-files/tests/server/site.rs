//! The served files, their database, and the contents of each.

use super::KEPT;
use commonhold_files::LayoutKind;
use commonhold_files::source::{Directory, Symlinks, import};
use commonhold_testing::support::Dice;
use commonhold_testing::support::test_dir::TestDir;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// More than a socket takes at once, and more than is read at once from a database.
pub const LARGE: usize = (300 << 10) + 7;
/// More than all buffers of a connection take.
pub const HUGE: usize = (1 << 20) + 1;

/// Names and lengths.
pub const FILES: [(&[u8], usize); 16] = [
    (b"empty.bin", 0),
    (b"one.txt", 1),
    (b"ten.txt", 10),
    (b"below.bin", KEPT as usize - 1),
    (b"limit.bin", KEPT as usize),
    (b"above.bin", KEPT as usize + 1),
    (b"large.bin", LARGE),
    (b"huge.bin", HUGE),
    (b"index.html", 700),
    (b"sub/index.html", 800),
    (b"sub/a b.txt", 20),
    (b"sub/q'uo\"te%.txt", 30),
    (b"sub/caf\xe9.txt", 40),
    (b"page.html", 5000),
    (b"style.css", 6000),
    (b"bare/file", 50),
];

/// Compressed companions, with how many seconds they are younger than their file.
pub const COMPRESSED: [(&[u8], usize, i64); 4] = [
    (b"page.html.br", 2000, 0),
    (b"page.html.gz", 2500, 5),
    (b"style.css.br", 2100, -5),
    (b"style.css.gz", 2600, 1),
];

/// The time of the last change of all files.
pub fn changed() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000)
}

/// The bytes of a file; no two have the same.
pub fn bytes(name: &[u8], len: usize) -> Vec<u8> {
    let seed = name.iter().fold(len as u64, |seed, &byte| seed * 31 % 1_000_003 + u64::from(byte));
    let mut dice = Dice::new(seed);
    let words = (0..len.div_ceil(8)).flat_map(|_| dice.roll().to_le_bytes());
    words.take(len).collect()
}

/// See the module.
pub struct Site {
    test_dir: TestDir,
}

impl Site {
    /// A directory, Zotero's storage, and a database of each.
    pub fn new() -> Site {
        let site = Site { test_dir: TestDir::memory() };
        let root = site.root();
        for (name, len) in FILES {
            put(&root, name, &bytes(name, len), 0);
        }
        for (name, len, younger) in COMPRESSED {
            put(&root, name, &bytes(name, len), younger);
        }
        let storage = site.test_dir.path("storage");
        put(&storage, b"ABCD1234/paper.pdf", &bytes(b"ABCD1234", 3000), 0);
        put(&storage, b"ABCD1234/notes.txt", b"not this", 0);
        put(&storage, b"00000000/b.pdf", b"nor this", 0);
        put(&storage, b"00000000/a.PDF", &bytes(b"00000000", LARGE), 0);
        put(&storage, b"NOTHING1/notes.txt", b"nor this", 0);
        site.import(&root, LayoutKind::Tree, "files.db");
        site.import(&storage, LayoutKind::Zotero, "storage.db");
        site
    }

    fn import(&self, from: &Path, layout: LayoutKind, to: &str) {
        database(from, layout, &self.test_dir.path(to));
    }

    pub fn root(&self) -> PathBuf {
        self.test_dir.path("root")
    }

    /// The place to serve, of these files.
    pub fn place(&self, is_database: bool) -> PathBuf {
        self.test_dir.path(if is_database { "files.db" } else { "root" })
    }

    /// The place to serve, of Zotero's.
    pub fn storage(&self, is_database: bool) -> PathBuf {
        self.test_dir.path(if is_database { "storage.db" } else { "storage" })
    }
}

/// Makes a database.
pub fn database(from: &Path, layout: LayoutKind, to: &Path) {
    let directory = Directory::open(from, Symlinks::Inside).unwrap();
    import(&directory, &*layout.layout(None, true), to, &mut |_, _| ()).unwrap();
}

/// Writes a file, in a directory that may not be there yet.
pub fn put(root: &Path, name: &[u8], contents: &[u8], younger: i64) {
    let path = root.join(OsStr::from_bytes(name));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, contents).unwrap();
    let time = match u64::try_from(younger) {
        Ok(seconds) => changed() + Duration::from_secs(seconds),
        Err(_) => changed() - Duration::from_secs(younger.unsigned_abs()),
    };
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
}
