//! A log file, which all workers of a server append to.
//!
//! Each write has whole lines. The system appends it in one step, so lines of several workers do
//! not mix. Lines are collected while a worker handles events, and written once it has: a killed
//! worker loses the lines of the requests that it was handling.
//!
//! Invariant: a log that cannot be written never fails a request. Lines are dropped then.

use super::AccessLogFile;
use super::format::{AccessLogFormat, Line};
use crate::peers::Notice;
use commonhold::{fault, shortened};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Lines of more bytes together are written at once.
const MOST_COLLECTED: usize = 64 << 10;
/// The permissions of a new file: addresses of clients are not for everyone.
const MODE: u32 = 0o640;

/// See the module.
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    format: AccessLogFormat,
    collected: Vec<u8>,
    notice: Option<Notice>,
    /// The last write failed; the operator knows.
    is_failing: bool,
    /// The file ends within a line.
    is_torn: bool,
}

fn open(path: &Path) -> io::Result<File> {
    fault!("files.open-log")?;
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}

impl LogFile {
    /// # Errors
    /// Those of opening or creating it, with its path.
    pub(crate) fn open(of: &AccessLogFile, notice: Option<Notice>) -> io::Result<LogFile> {
        let AccessLogFile { path, format } = of.clone();
        let file = open(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("access log {}: {error}", path.display()))
        })?;
        let (collected, is_failing, is_torn) = (Vec::new(), false, false);
        Ok(LogFile { path, file, format, collected, notice, is_failing, is_torn })
    }

    /// Adds a line, which the next [`flush`](Self::flush) writes.
    pub(super) fn add(&mut self, line: &Line<'_>) {
        if self.is_torn && self.collected.is_empty() {
            self.collected.push(b'\n');
        }
        self.format.write(line, &mut self.collected);
        if self.collected.len() > MOST_COLLECTED {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        if self.collected.is_empty() {
            return;
        }
        let mut lines = mem::take(&mut self.collected);
        match self.write(&lines) {
            Ok(()) => (self.is_failing, self.is_torn) = (false, false),
            Err(error) => self.failed("write to", &error, "lines are lost"),
        }
        lines.clear();
        self.collected = lines;
    }

    fn write(&mut self, mut rest: &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            let len = shortened!("files.write-log-bytes", rest.len());
            let written = fault!("files.write-log").and_then(|()| self.file.write(&rest[..len]));
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => {
                    self.is_torn = rest[len - 1] != b'\n';
                    rest = &rest[len..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Continues in the file that has the path now; in the old one if there is an error.
    pub(super) fn reopen(&mut self) {
        self.flush();
        match open(&self.path) {
            Ok(file) => (self.file, self.is_torn) = (file, false),
            Err(error) => self.failed("reopen", &error, "the old file is used"),
        }
    }

    #[cold]
    fn failed(&mut self, doing: &str, error: &io::Error, so: &str) {
        let is_news = !mem::replace(&mut self.is_failing, true);
        if let Some(notice) = self.notice.as_ref().filter(|_| is_news) {
            let path = self.path.display();
            notice(&format!("cannot {doing} access log {path}: {error}; {so}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asked::Asked;
    use std::fs;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, UNIX_EPOCH};

    fn add(log: &mut LogFile, target: &str) {
        let asked = Asked::simple(target.as_bytes());
        let (peer, took, body_bytes) = ("-", Duration::ZERO, 1);
        let (wall, asked) = (UNIX_EPOCH, &asked);
        let line = Line { wall, peer, asked, status: 200, body_bytes, took, is_complete: true };
        log.add(&line);
    }

    #[test]
    fn a_renamed_file_gets_no_more_lines_after_a_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("log"), dir.path().join("old"));
        let of = AccessLogFile { path: path.clone(), format: AccessLogFormat::Clf };
        let mut log = LogFile::open(&of, None).unwrap();
        add(&mut log, "one");
        assert_eq!(fs::read(&path).unwrap(), b"", "it is collected");
        log.flush();
        fs::rename(&path, &old).unwrap();
        add(&mut log, "two");
        log.flush();
        add(&mut log, "three");
        log.reopen();
        add(&mut log, "four");
        log.flush();
        let lines = |path| fs::read_to_string(path).unwrap().lines().count();
        assert_eq!((lines(&old), lines(&path)), (3, 1));
    }

    #[test]
    fn a_full_disk_costs_lines_and_one_notice() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&said);
        let notice: Notice = Arc::new(move |text: &str| ear.lock().unwrap().push(text.to_owned()));
        let of = AccessLogFile { path: "/dev/full".into(), format: AccessLogFormat::Json };
        let mut log = LogFile::open(&of, Some(notice)).unwrap();
        for _ in 0..3 {
            add(&mut log, "lost");
            log.flush();
        }
        let said = said.lock().unwrap();
        assert!(said.len() == 1 && said[0].contains("/dev/full"), "{said:?}");
    }

    #[test]
    fn a_torn_line_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let of = AccessLogFile { path: path.clone(), format: AccessLogFormat::Clf };
        let mut log = LogFile::open(&of, None).unwrap();
        log.write(b"half a li").unwrap();
        add(&mut log, "whole");
        log.flush();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("half a li\n- - - [") && text.lines().count() == 2, "{text}");
    }
}
