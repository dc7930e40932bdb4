//! A directory of one's own for holds, gone when the test ends.
//!
//! Memory holds live in `/dev/shm`, file holds below the build's own directory for tests.

use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The directory; children inherit its name, only the test that made it removes it.
pub struct TestDir {
    dir: TempDir,
}

impl TestDir {
    /// In memory.
    pub fn memory() -> TestDir {
        TestDir::below(Path::new("/dev/shm"))
    }

    /// On the file system that the project is built on.
    pub fn file() -> TestDir {
        // Cargo names the directory to test programs, but not to a library for tests.
        let program = std::env::current_exe().expect("the path of the test program");
        let folder = option_env!("CARGO_TARGET_TMPDIR").map(Path::new).or(program.parent());
        TestDir::below(folder.expect("a directory below target"))
    }

    fn below(parent: &Path) -> TestDir {
        let dir = tempfile::Builder::new()
            .prefix("commonhold-test-")
            .tempdir_in(parent)
            .unwrap_or_else(|e| panic!("a directory in {}: {e}", parent.display()));
        TestDir { dir }
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}
