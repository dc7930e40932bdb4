//! The work and the findings of one worker in one phase.

use super::latency::Latencies;
use super::{Result, RunError};

/// The work and the findings of a worker.
#[derive(Default)]
pub struct Tally {
    /// Operations as the workload counts them.
    pub operations: u64,
    /// Values that were not the expected ones.
    pub wrong: u64,
    /// Keys that should have been there.
    pub absent: u64,
    /// Nanoseconds of the operations that the workload times one by one, if requested.
    pub times: Option<Latencies>,
}

impl Tally {
    /// An empty one; `timed` requests single times.
    pub fn new(timed: bool) -> Tally {
        Tally { times: timed.then(Latencies::new), ..Tally::default() }
    }

    /// Verifies the answer.
    #[inline]
    pub fn check(&mut self, value: &[u8], expected: &[u8]) {
        self.wrong += u64::from(value != expected);
    }

    /// # Errors
    /// An error if a value was wrong or absent: then the speed means nothing.
    pub fn verdict(&self) -> Result<()> {
        if self.wrong == 0 && self.absent == 0 {
            return Ok(());
        }
        Err(RunError::new(format!(
            "{} values were wrong and {} keys absent: run `hold crashtest`",
            self.wrong, self.absent
        )))
    }

    /// Notes how long one thing took.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        if let Some(times) = &mut self.times {
            times.record(nanoseconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_value_is_an_error() {
        let mut tally = Tally::new(false);
        tally.check(b"one", b"one");
        assert!(tally.verdict().is_ok());
        tally.check(b"one", b"two");
        assert!(tally.verdict().unwrap_err().to_string().starts_with("1 values were wrong"));
    }
}
