//! [`LogReader`]: reads a log as it grows, beside the collector or without one.
//!
//! It leaves no trace: its cursors are its own. So nothing waits for it, and what is overwritten before it comes to read
//! it shows as a gap.

use crate::error::Result;
use crate::log::collect::HOLD_BACK;
use crate::log::handle::Log;
use crate::log::line::LogLine;
use crate::log::merge::{self, Merge};
use crate::os::clock;
use std::fmt;

/// Reads a log as it grows, merged by time; from [`Log::reader`]. Any number may, also through read-only handles, and
/// while somebody collects.
///
/// The first call gives what is in the hold, collected or not; each later one what has come since. What was overwritten
/// meanwhile is told by [`LogLine::lost`].
pub struct LogReader {
    log: Log,
    merge: Merge,
}

impl fmt::Debug for LogReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogReader").field("log", &self.log).finish_non_exhaustive()
    }
}

impl LogReader {
    pub(crate) fn new(log: &Log) -> Result<LogReader> {
        log.inner.ensure_there()?;
        let merge = merge::from_the_oldest(log.inner.space(), &log.inner.layout);
        log.inner.ensure_there()?;
        Ok(LogReader { log: log.clone(), merge })
    }

    /// The lines that have come and are old enough: 5 ms, so that older ones of other threads can still come before
    /// them, as with the collector. Does not wait.
    ///
    /// # Errors
    /// `Closed`; `NotFound` if the log was dropped.
    pub fn poll(&mut self) -> Result<Vec<LogLine>> {
        let now_ns = clock::realtime_ns();
        self.read(now_ns, now_ns.saturating_sub(HOLD_BACK.as_nanos() as u64))
    }

    /// All lines that have come, however young.
    ///
    /// # Errors
    /// As [`poll`](LogReader::poll).
    pub fn finish(&mut self) -> Result<Vec<LogLine>> {
        self.read(clock::realtime_ns(), u64::MAX)
    }

    fn read(&mut self, now_ns: u64, until_ns: u64) -> Result<Vec<LogLine>> {
        let inner = &self.log.inner;
        inner.ensure_there()?;
        let lines = self.merge.gather(inner.space(), &inner.layout, now_ns, until_ns);
        inner.ensure_there()?;
        Ok(lines)
    }
}
