//! A limit on how long the calling thread waits for locks, whatever its handles allow.
//!
//! For bindings: an interpreter whose lock the thread holds must not stand still, and must process
//! signals in between. A binding therefore makes a call with little patience. After the error
//! `TimedOut`, which means that nothing was done, it makes the call again with more.

use std::cell::Cell;
use std::time::Duration;

/// A shorter limit would leave no time to recover anything.
const LEAST: Duration = Duration::from_millis(1);

thread_local! {
    /// Nanoseconds; `u64::MAX` for no limit.
    static LIMIT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Limits how long calls of this thread wait for a lock whose holder is alive. The shorter of this
/// limit and the hold's own [`lock_timeout`](crate::HoldOptions::lock_timeout) applies.
/// `Duration::MAX`, the initial value, means no limit. Returns the previous limit.
///
/// With `Duration::ZERO` calls wait for nobody. They also do not recover a dead participant as a
/// whole, which may take a while: such a call returns the error `TimedOut`, too, and has done
/// nothing.
pub fn limit_thread_patience(limit: Duration) -> Duration {
    let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let before = limit_thread_patience_ns(limit);
    if before == u64::MAX { Duration::MAX } else { Duration::from_nanos(before) }
}

/// The same in nanoseconds, for calls that are as short as the conversion; `u64::MAX` means no
/// limit.
#[inline]
pub fn limit_thread_patience_ns(limit: u64) -> u64 {
    LIMIT.with(|own| own.replace(limit))
}

/// Makes a call with at most this patience, and a little time to recover what the dead left.
pub(crate) fn with_patience<R>(time: Duration, call: impl FnOnce() -> R) -> R {
    /// The previous limit, restored even after a panic.
    struct Restored(u64);
    impl Drop for Restored {
        fn drop(&mut self) {
            LIMIT.with(|own| own.set(self.0));
        }
    }
    let before = LIMIT.with(Cell::get);
    let limit = u64::try_from(time.max(LEAST).as_nanos()).unwrap_or(u64::MAX);
    let _restored = Restored(before);
    LIMIT.with(|own| own.set(before.min(limit)));
    call()
}

/// A handle's patience within the thread's limit; `None` for unlimited.
pub(crate) fn limited(handle: Option<Duration>) -> Option<Duration> {
    let limit = LIMIT.with(Cell::get);
    let limit = (limit != u64::MAX).then(|| Duration::from_nanos(limit));
    handle.into_iter().chain(limit).min()
}

/// False if the thread's limit leaves no time to recover what a dead participant left.
pub(crate) fn may_recover() -> bool {
    LIMIT.with(Cell::get) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_patience_counts() {
        let some = Some(Duration::from_secs(1));
        assert_eq!((limited(None), limited(some)), (None, some));
        assert_eq!(limit_thread_patience(Duration::from_secs(2)), Duration::MAX);
        assert_eq!((limited(None), limited(some)), (Some(Duration::from_secs(2)), some));
        assert_eq!(limit_thread_patience(Duration::ZERO), Duration::from_secs(2));
        assert_eq!((limited(some), may_recover()), (Some(Duration::ZERO), false));
        assert_eq!(limit_thread_patience(Duration::MAX), Duration::ZERO);
        let three = Duration::from_secs(3);
        assert_eq!(with_patience(three, || limited(None)), Some(three));
        assert_eq!(with_patience(Duration::ZERO, || limited(some)), Some(LEAST));
        assert_eq!((limited(None), may_recover()), (None, true));
    }
}
