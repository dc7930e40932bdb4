//! Clocks that run ahead or behind: the amount that a test adds to the clocks of this process and
//! of the children that it forks later.

use std::sync::atomic::{AtomicI64, Ordering};

static REALTIME_MS: AtomicI64 = AtomicI64::new(0);
static BOOTTIME_MS: AtomicI64 = AtomicI64::new(0);

/// Sets real time ahead by this many milliseconds, or behind if negative.
pub fn set_realtime_ms(by: i64) {
    REALTIME_MS.store(by, Ordering::SeqCst);
}

/// Sets boot time ahead by this many milliseconds, or behind if negative.
pub fn set_boottime_ms(by: i64) {
    BOOTTIME_MS.store(by, Ordering::SeqCst);
}

pub(crate) fn realtime_ms() -> i64 {
    REALTIME_MS.load(Ordering::SeqCst)
}

pub(crate) fn boottime_ms() -> i64 {
    BOOTTIME_MS.load(Ordering::SeqCst)
}
