//! Limits that keep hostile, slow and many peers from using up an origin's memory, places and log.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes of large pairs for all peers together that wait to be taken. A full sync reads no further
/// pairs beyond that; so there may be one more pair for each serving thread.
pub(crate) const PAIR_BYTES: usize = 64 << 20;
/// Pieces up to this size do not count: each peer may have one.
pub(crate) const FREE_BYTES: usize = 128 << 10;
/// Connections whose peers have not identified themselves yet. The oldest makes room for the next.
pub(crate) const MOST_JOINING: usize = 1024;
/// A peer that takes no byte for this long is disconnected, unless there is nothing to take.
pub(crate) const STALL_TIME: Duration = Duration::from_secs(30);
/// The same while its pairs take the room of others.
const PRESSED_TIME: Duration = Duration::from_secs(5);
/// The least bytes per second that a peer has to take, after the first [`STALL_TIME`].
const SLOWEST: u64 = 64 << 10;
/// Lines about peers that have not joined, at once, and per second.
const LINES: f64 = 1000.0;
const LINES_PER_SECOND: f64 = 20.0;

/// The deadlines of one send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendDeadline {
    /// The last progress.
    progress: Instant,
    /// All bytes must be taken.
    whole: Instant,
}

impl SendDeadline {
    pub(crate) fn new(now: Instant, bytes: usize) -> SendDeadline {
        let time = Duration::from_secs(bytes as u64 / SLOWEST);
        SendDeadline { progress: now, whole: now + STALL_TIME + time }
    }

    /// The peer has taken some bytes.
    pub(crate) fn progressed(self, now: Instant) -> SendDeadline {
        SendDeadline { progress: now, ..self }
    }

    /// Whether it is over. `presses` states that the bytes take the room of others.
    pub(crate) fn is_over(&self, now: Instant, presses: bool) -> bool {
        let stall = if presses { PRESSED_TIME } else { STALL_TIME };
        now > self.whole.min(self.progress + stall)
    }
}

/// The bytes of pairs that wait to be taken, of all peers.
#[derive(Debug, Default)]
pub(crate) struct PairBytes(AtomicUsize);

impl PairBytes {
    pub(crate) fn has_room(&self) -> bool {
        self.0.load(Ordering::Relaxed) < PAIR_BYTES
    }

    pub(crate) fn take(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// How many lines may still be written about peers that have not joined.
#[derive(Debug)]
pub(crate) struct LineLimit(Mutex<Lines>);

#[derive(Debug)]
struct Lines {
    left: f64,
    at: Instant,
    left_out: u64,
}

impl LineLimit {
    pub(crate) fn new() -> LineLimit {
        LineLimit(Mutex::new(Lines { left: LINES, at: Instant::now(), left_out: 0 }))
    }

    /// Whether one more line may be written, and how many were left out before it.
    pub(crate) fn allows(&self, now: Instant) -> Option<u64> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(lines.at).as_secs_f64();
        lines.left = (lines.left + passed * LINES_PER_SECOND).min(LINES);
        lines.at = lines.at.max(now);
        if lines.left < 1.0 {
            lines.left_out += 1;
            return None;
        }
        lines.left -= 1.0;
        Some(std::mem::take(&mut lines.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_limited_and_those_left_out_are_counted() {
        let (limit, now) = (LineLimit::new(), Instant::now());
        let written = (0..5000).filter(|_| limit.allows(now).is_some()).count();
        assert_eq!(written, LINES as usize);
        let later = now + Duration::from_secs(1);
        assert_eq!(limit.allows(later), Some(5000 - LINES as u64));
        let written = (0..5000).filter(|_| limit.allows(later).is_some()).count();
        assert!(written <= LINES_PER_SECOND as usize, "{written}");
    }

    #[test]
    fn a_send_must_progress_and_end() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let deadline = SendDeadline::new(now, 10 * SLOWEST as usize);
        assert!(!deadline.is_over(now + STALL_TIME, false));
        assert!(deadline.is_over(now + STALL_TIME + second, false));
        assert!(!deadline.is_over(now + second, true));
        assert!(deadline.is_over(now + PRESSED_TIME + second, true));
        // A byte now and then is not enough.
        let deadline = deadline.progressed(now + STALL_TIME);
        assert!(!deadline.is_over(now + STALL_TIME + 10 * second, false));
        assert!(deadline.is_over(now + STALL_TIME + 11 * second, false));
    }
}
