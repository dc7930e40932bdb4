//! Reused memory for copies. Lock-free: sending threads must not wait for each other.

use crossbeam_queue::ArrayQueue;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most free buffers.
const MOST: usize = 64;
/// The most bytes of all free buffers.
const MOST_BYTES: usize = 16 << 20;

/// Free buffers.
pub(super) struct Buffers {
    free: ArrayQueue<Vec<u8>>,
    /// The capacity of those in `free`, and of those that are about to be there.
    bytes: AtomicUsize,
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers { free: ArrayQueue::new(MOST), bytes: AtomicUsize::new(0) }
    }
}

impl Buffers {
    /// A buffer with any contents.
    pub(super) fn take(&self) -> Vec<u8> {
        let buffer = self.free.pop().unwrap_or_default();
        // Relaxed, here and below: a number on its own.
        self.bytes.fetch_sub(buffer.capacity(), Ordering::Relaxed);
        buffer
    }

    /// Keeps a buffer for reuse, if there is room.
    pub(super) fn give(&self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let before = self.bytes.fetch_add(capacity, Ordering::Relaxed);
        let fits = capacity > 0 && before.saturating_add(capacity) <= MOST_BYTES;
        if !fits || self.free.push(buffer).is_err() {
            self.bytes.fetch_sub(capacity, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_are_bounded() {
        let buffers = Buffers::default();
        assert_eq!(buffers.take().capacity(), 0);
        buffers.give(Vec::with_capacity(1000));
        assert!(buffers.take().capacity() >= 1000);
        buffers.give(Vec::with_capacity(MOST_BYTES + 1));
        assert_eq!(buffers.take().capacity(), 0);
        for _ in 0..2 * MOST {
            buffers.give(Vec::with_capacity(1000));
        }
        assert_eq!(buffers.free.len(), MOST);
        for _ in 0..2 * MOST {
            buffers.take();
        }
        assert_eq!(buffers.bytes.load(Ordering::Relaxed), 0);
    }
}
