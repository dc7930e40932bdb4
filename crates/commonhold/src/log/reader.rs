//! [`LogReader`]: reads a log as it grows, with or without a collector.
//!
//! It leaves no trace: its cursors are its own. So no process waits for it, and lines that are
//! overwritten before it reads them show as a gap.

use crate::error::Result;
use crate::log::collect::HOLD_BACK;
use crate::log::handle::Log;
use crate::log::line::LogLine;
use crate::log::merge::{self, Merge};
use crate::os::clock;
use std::fmt;

/// Reads a log as it grows, merged by time; from [`Log::reader`]. A log can have any number of
/// readers, even with read-only handles and while a collector runs.
///
/// The first call returns the lines in the hold, collected or not; each later call returns the
/// lines that have arrived since. [`LogLine::lost`] counts lines that were overwritten in the
/// meantime.
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

    /// Returns the new lines that are at least 5 ms old, so that older lines of other threads can
    /// still come before them, as with the collector. Does not wait.
    ///
    /// # Errors
    /// `Closed`; `NotFound` if the log was dropped.
    pub fn poll(&mut self) -> Result<Vec<LogLine>> {
        let now_ns = clock::realtime_ns();
        self.read(now_ns, now_ns.saturating_sub(HOLD_BACK.as_nanos() as u64))
    }

    /// Returns all new lines, even those younger than 5 ms. Does not wait.
    ///
    /// # Errors
    /// As for [`poll`](LogReader::poll).
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
