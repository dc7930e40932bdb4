//! Lookups of one handle, counted where its threads do not collide.
//!
//! Each thread counts in one of a few lines, so that threads that read the same cache do not
//! contend for one line in every lookup. The sum is added to the map's counters when statistics are
//! read.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A power of two.
const LINES: usize = 16;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Misses, then hits.
#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; 2]);

/// The counters of one handle.
#[derive(Default)]
pub(crate) struct Lookups {
    lines: Box<[Line; LINES]>,
}

impl Lookups {
    #[inline]
    pub(crate) fn count(&self, hit: bool) {
        let mut line = LINE.with(Cell::get);
        if line >= LINES {
            line = begin();
        }
        // Relaxed: a statistic.
        self.lines[line].0[usize::from(hit)].fetch_add(1, Ordering::Relaxed);
    }

    /// Hits and misses since the last call.
    pub(crate) fn take(&self) -> (u64, u64) {
        self.sum(|count| count.swap(0, Ordering::Relaxed))
    }

    /// Hits and misses that have not been taken yet.
    pub(crate) fn pending(&self) -> (u64, u64) {
        self.sum(|count| count.load(Ordering::Relaxed))
    }

    fn sum(&self, read: impl Fn(&AtomicU64) -> u64) -> (u64, u64) {
        let add =
            |(hits, misses), line: &Line| (hits + read(&line.0[1]), misses + read(&line.0[0]));
        self.lines.iter().fold((0, 0), add)
    }
}

#[cold]
fn begin() -> usize {
    let line = THREADS.fetch_add(1, Ordering::Relaxed) % LINES;
    LINE.with(|own| own.set(line));
    line
}
