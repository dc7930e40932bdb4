//! Traces of requests as servers of files see them: some files are requested much more often than
//! others (Zipf), and now and then a client fetches everything once (a scan). The same seed makes
//! the same trace.

use commonhold_testing::support::{Dice, mix};

/// Files of a trace; those of scans come on top.
pub const FILES: u64 = 100_000;
/// Files that a scan fetches one after the other, and requests between two scans.
const SCAN: u64 = 10_000;
const BETWEEN: u64 = 30_000;

/// One kind of trace.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// The n-th most popular file is requested with a frequency of n to the power of minus this.
    pub exponent: f64,
    /// Whether there are scans.
    pub scans: bool,
}

impl Trace {
    /// All kinds.
    pub const ALL: [Trace; 6] = [
        Trace { exponent: 0.7, scans: false },
        Trace { exponent: 0.9, scans: false },
        Trace { exponent: 1.1, scans: false },
        Trace { exponent: 0.7, scans: true },
        Trace { exponent: 0.9, scans: true },
        Trace { exponent: 1.1, scans: true },
    ];

    /// The requested files, one after the other, without end.
    pub fn requests(self, seed: u64) -> Requests {
        let mut sum = 0.0;
        let weights = (1..=FILES).map(|rank| (rank as f64).powf(-self.exponent));
        let sums = weights.map(|weight| {
            sum += weight;
            sum
        });
        Requests { sums: sums.collect(), trace: self, dice: Dice::new(seed), made: 0, scanned: 0 }
    }
}

/// The requests of a trace.
pub struct Requests {
    /// The weights of all files up to each.
    sums: Vec<f64>,
    trace: Trace,
    dice: Dice,
    made: u64,
    scanned: u64,
}

impl Iterator for Requests {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.made += 1;
        if self.trace.scans && self.made % (SCAN + BETWEEN) > BETWEEN {
            // Every scan has other files.
            self.scanned += 1;
            return Some(FILES + self.scanned);
        }
        let all = self.sums[self.sums.len() - 1];
        let point = self.dice.roll() as f64 / u64::MAX as f64 * all;
        Some(self.sums.partition_point(|sum| *sum < point).min(self.sums.len() - 1) as u64)
    }
}

/// Bytes of the longest file.
pub const LONGEST: usize = 1600;

/// Bytes of a file: between 100 and 1,600, small ones more often, whatever the file's popularity.
pub fn len(file: u64) -> usize {
    let [one, other] = [mix(file) % 1500, mix(file + 1) % 1500];
    100 + one.min(other) as usize
}

/// The bytes of all files that are not of scans.
pub fn all_bytes() -> u64 {
    (0..FILES).map(|file| len(file) as u64).sum()
}
