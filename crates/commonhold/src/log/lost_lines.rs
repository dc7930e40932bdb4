//! [`LostLines`]: lines that a forked child has dropped before it could attach itself to the log.
//!
//! Until then the log may be dropped at any time, so its own counter is out of reach. The child
//! adds the number to that counter as soon as it is attached.

use std::sync::atomic::{AtomicU64, Ordering};

/// The process in the upper half, and the number of its lines in the lower half. A count that was
/// copied by a fork names the parent.
#[derive(Default)]
pub(crate) struct LostLines(AtomicU64);

/// The word of this process without a line.
fn none() -> u64 {
    u64::from(std::process::id()) << 32
}

/// The number of lines that this process has lost, by a word.
fn count(word: u64) -> u64 {
    word.checked_sub(none()).filter(|count| count >> 32 == 0).unwrap_or(0)
}

impl LostLines {
    /// One more line is lost.
    #[cold]
    pub(crate) fn add(&self) {
        let more = |word| Some(none() + count(word) + 1);
        // Relaxed, here and below: a counter.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Takes the number of lines that this process has lost.
    pub(crate) fn take(&self) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            0 => 0,
            _ => count(self.0.swap(0, Ordering::Relaxed)),
        }
    }
}
