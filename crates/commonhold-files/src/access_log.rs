//! The logs of requests: lines in a log of a hold, and in a file.
//!
//! Bytes from a client are escaped and appear between quotes, so no client can close the quotes and
//! forge the rest of the line.

mod format;
mod log_file;

pub use format::AccessLogFormat;
pub(crate) use log_file::LogFile;

use super::connection::Connection;
use super::peers::address_of;
use commonhold::log::{Log, LogLevel};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

/// A file that gets a line for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogFile {
    /// Its path. Lines are appended, and the file is created if it does not exist.
    pub path: PathBuf,
    /// The form of lines.
    pub format: AccessLogFormat,
}

/// The logs of a worker.
#[derive(Default)]
pub(crate) struct AccessLogs {
    /// The log of a hold.
    pub(crate) ring: Option<Log>,
    pub(crate) file: Option<LogFile>,
}

impl AccessLogs {
    pub(crate) fn is_on(&self) -> bool {
        self.ring.is_some() || self.file.is_some()
    }

    /// Writes an answer into the logs. `how`: the way in which it was not completed, if any.
    pub(crate) fn print<H>(
        &mut self,
        connection: &Connection<H>,
        (now, wall): (Instant, SystemTime),
        how: &str,
    ) {
        let Connection { peer, asked, answer, .. } = connection;
        let took = now.saturating_duration_since(answer.began);
        if let Some(log) = &self.ring {
            let (status, bytes, line) = (answer.status, answer.bytes, asked.line());
            let line = match asked.method.as_str() {
                "" => line,
                _ => {
                    let [referer, user_agent] = asked.origins();
                    format!("{line}\" \"{referer}\" \"{user_agent}")
                }
            };
            let us = took.as_micros();
            // If the log has no room, it drops the line and counts it.
            let _ = log.print(
                LogLevel::Info,
                format_args!("{peer} \"{line}\" {status} {bytes} {us}us{how}"),
            );
        }
        if let Some(file) = &mut self.file {
            let body_bytes = answer.bytes.saturating_sub(answer.head_bytes);
            let (status, is_complete) = (answer.status, how.is_empty());
            let line = format::Line { wall, peer, asked, status, body_bytes, took, is_complete };
            file.add(&line);
        }
    }

    /// Writes the lines that were added to the file.
    pub(crate) fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            file.flush();
        }
    }

    /// Opens the file again: it may have been renamed.
    pub(crate) fn reopen(&mut self) {
        if let Some(file) = &mut self.file {
            file.reopen();
        }
    }
}

/// The peer's address.
pub(crate) fn peer_of(socket: &OwnedFd) -> String {
    address_of(socket).map_or("-".into(), |address| address.to_string())
}
