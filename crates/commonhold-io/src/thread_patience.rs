//! A limit for how long a thread waits for locks during one call.
//!
//! For work that a thread does in passing: it must not wait long for a process that its main work
//! does not need.

use commonhold::raw::limit_thread_patience;
use std::time::Duration;

/// Runs `call`, during which this thread waits for locks no longer than `limit`. A shorter limit of
/// the thread stays in force.
pub fn with_patience<R>(limit: Duration, call: impl FnOnce() -> R) -> R {
    let before = limit_thread_patience(limit);
    let _restored = Restored(before);
    if before < limit {
        limit_thread_patience(before);
    }
    call()
}

/// Restores the limit that the thread had, also after a panic.
struct Restored(Duration);

impl Drop for Restored {
    fn drop(&mut self) {
        limit_thread_patience(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_limit_counts_and_the_one_before_returns() {
        let [short, long] = [1, 2].map(Duration::from_secs);
        let limit = || {
            let found = limit_thread_patience(Duration::MAX);
            limit_thread_patience(found);
            found
        };
        with_patience(long, || {
            assert_eq!(limit(), long);
            with_patience(short, || assert_eq!(limit(), short));
            assert_eq!(with_patience(Duration::MAX, limit), long);
            let panics = || with_patience(short, || panic!("on purpose"));
            std::panic::catch_unwind(panics).unwrap_err();
            assert_eq!(limit(), long);
        });
        assert_eq!(limit(), Duration::MAX);
    }
}
