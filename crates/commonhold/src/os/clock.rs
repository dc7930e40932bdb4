//! The two clocks.
//!
//! Neither may be used alone for anything that must not go backwards across processes: the real
//! time clock can be set, and the monotonic one is shifted in a time namespace and starts anew with
//! each boot. What must be monotonic in the hold keeps its own maximum there.
//!
//! # Safety
//! Unsafe only to call `clock_gettime` with a structure of our own.
#![allow(unsafe_code)]

/// Milliseconds since 1970 by the system's clock, which may be set back.
pub(crate) fn realtime_ms() -> u64 {
    let now = read(libc::CLOCK_REALTIME);
    // A clock before 1970 counts as 1970.
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Nanoseconds since 1970 by the system's clock, which may be set back.
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

fn read(clock: libc::clockid_t) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours. The call cannot fail: both clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now
}
