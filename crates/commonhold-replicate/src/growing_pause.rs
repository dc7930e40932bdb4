//! The pauses between attempts that fail: each is twice as long as the one before, up to a limit.

use std::time::Duration;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrowingPause {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl GrowingPause {
    pub(crate) fn new(first: Duration, longest: Duration) -> GrowingPause {
        GrowingPause { first, longest, next: first }
    }

    /// The pause after an attempt that has failed.
    pub(crate) fn after_failure(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause
    }

    /// An attempt has succeeded: the next pause is short again.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let mut pause = GrowingPause::new(Duration::from_secs(2), Duration::from_secs(10));
        let mut seconds = || pause.after_failure().as_secs();
        assert_eq!([(); 5].map(|()| seconds()), [2, 4, 8, 10, 10]);
        pause.reset();
        assert_eq!(pause.after_failure().as_secs(), 2);
    }
}
