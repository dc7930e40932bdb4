//! The three clocks.
//!
//! - *Real time* can be set, by hand or by NTP, so nothing important depends on it while the system
//!   runs.
//! - *Monotonic time* runs at real time's speed and cannot be set. It stands still in suspend.
//! - *Boot time* is monotonic time that includes suspend. It starts with each boot. A time
//!   namespace may shift it; [`boottime_ms`] takes the shift back, so that all processes of a boot
//!   agree.
//!
//! # Safety
//! Unsafe only to call `clock_gettime` with a structure of our own.
#![allow(unsafe_code)]

#[cfg(feature = "steps")]
use crate::steps::shifts;
use std::sync::atomic::{AtomicI64, Ordering};

/// Milliseconds that this process's time namespace adds to boot time; see [`learn_namespace`].
static ADDED_MS: AtomicI64 = AtomicI64::new(0);

/// Milliseconds since 1970 by the system's clock, which may be set forward and back.
pub fn realtime_ms() -> u64 {
    let now = read(libc::CLOCK_REALTIME);
    // A clock before 1970 counts as 1970.
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let shown = seconds * 1000 + now.tv_nsec as u64 / 1_000_000;
    shown.saturating_add_signed(shifts::realtime_ms())
}

/// Nanoseconds since 1970 by the system's clock, which may be set forward and back.
#[inline]
pub(crate) fn realtime_ns() -> u64 {
    let now = read(libc::CLOCK_REALTIME);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds since some instant before the boot; never goes backwards within a process.
pub(crate) fn monotonic_ns() -> u64 {
    let now = read(libc::CLOCK_MONOTONIC);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Milliseconds since the boot, suspend included: the same in all processes of a boot. Nobody can
/// set it. Wraps around below 0, which only a shift can cause.
#[inline]
pub(crate) fn boottime_ms() -> u64 {
    let now = read(libc::CLOCK_BOOTTIME);
    let shown = now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000;
    // Relaxed: the number guards no memory.
    let added = ADDED_MS.load(Ordering::Relaxed).wrapping_sub(shifts::boottime_ms());
    shown.wrapping_sub(added as u64)
}

/// Learns what this process's time namespace adds to boot time. Called before a process uses a
/// hold, and again in a process that was forked into another namespace.
///
/// A process that has prepared another namespace for its children would read theirs instead of its
/// own; it keeps what it has learned.
pub(crate) fn learn_namespace() {
    // Kernels without such namespaces do not have the file.
    let text = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let added = added_ms(&text).unwrap_or(0);
    let link = |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}")).ok();
    if added != ADDED_MS.load(Ordering::Relaxed) && link("time") == link("time_for_children") {
        ADDED_MS.store(added, Ordering::Relaxed);
    }
}

/// The milliseconds in the line `boottime SECONDS NANOSECONDS`.
pub(super) fn added_ms(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.strip_prefix("boottime"))?;
    let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<i64>().ok());
    let (seconds, nanoseconds) = (numbers.next()??, numbers.next()??);
    seconds.checked_mul(1000)?.checked_add(nanoseconds / 1_000_000)
}

fn read(clock: libc::clockid_t) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours. The call cannot fail: all three clocks exist since Linux
    // 2.6.39.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now
}

#[cfg(not(feature = "steps"))]
mod shifts {
    #[inline]
    pub(super) fn realtime_ms() -> i64 {
        0
    }

    #[inline]
    pub(super) fn boottime_ms() -> i64 {
        0
    }
}
