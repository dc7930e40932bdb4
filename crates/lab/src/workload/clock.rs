//! Time that all processes of one machine agree on: `CLOCK_MONOTONIC` in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the system's monotonic clock, the same in every process.
#[inline]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Spins until `start_ns`, so that processes begin within a fraction of a microsecond of each
/// other; sleeping would spread them by the scheduler's wake-up time.
pub fn spin_until(start_ns: u64) {
    while now_ns() < start_ns {
        std::hint::spin_loop();
    }
}

/// The cost of reading the clock here, in nanoseconds: the least of several rounds.
pub fn cost_ns() -> f64 {
    const LOOKS: u64 = 20_000;
    let round = || {
        let begin = now_ns();
        for _ in 0..LOOKS {
            std::hint::black_box(now_ns());
        }
        (now_ns() - begin) as f64 / LOOKS as f64
    };
    (0..5).map(|_| round()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_ends_after_the_start() {
        let start = now_ns() + 100_000;
        spin_until(start);
        assert!(now_ns() >= start);
    }
}
