//! The sets of files that are served. Each has files of one size, except one set with many sizes.
//!
//! Contents depend on a seed alone, so every system serves the same bytes. All sets fit into the
//! page cache, and into the cache that `hold serve` has by default.

use anyhow::Result;

use super::client;
use crate::served::Ground;

/// Some files in a directory of their own.
pub struct Set {
    /// The name of its directory and of its phases.
    pub name: &'static str,
    /// The number of files.
    pub files: u64,
    /// Their sizes in bytes, in turn.
    pub sizes: &'static [u64],
    /// The exponent S: the file of rank K is requested in proportion to 1 / K^S. With 0, all files
    /// are requested equally often. Rank and size are independent.
    pub zipf: f64,
}

/// All sets.
pub static SETS: [Set; 5] = [
    Set { name: "1KiB", files: 64, sizes: &[1 << 10], zipf: 0.0 },
    Set { name: "16KiB", files: 64, sizes: &[16 << 10], zipf: 0.0 },
    Set { name: "128KiB", files: 64, sizes: &[128 << 10], zipf: 0.0 },
    Set { name: "1MiB", files: 16, sizes: &[1 << 20], zipf: 0.0 },
    Set { name: "mixed", files: 1000, sizes: &MIXED, zipf: 0.99 },
];

/// Many small files and few large ones: 1 KiB to 256 KiB, 38.8 KiB on average.
const MIXED: [u64; 10] =
    [1 << 10, 1 << 10, 2 << 10, 4 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10];

impl Set {
    /// The mean size of a file in bytes.
    pub fn mean_bytes(&self) -> u64 {
        self.sizes.iter().sum::<u64>() / self.sizes.len() as u64
    }

    /// Creates the files, up to a limit.
    pub fn make(&self, ground: &Ground, most: u64) -> Result<()> {
        let sizes: Vec<String> = self.sizes.iter().map(u64::to_string).collect();
        let count = self.files.min(most).to_string();
        let directory = ground.files.join(self.name);
        let words = ["--make", &count, "--sizes", &sizes.join(",")];
        client::files(&ground.program, &directory, words.map(str::to_owned))?;
        Ok(())
    }
}
