//! The source of the pairs: a file, a pipe or a terminal.
//!
//! Invariant: before a read has to wait, the pairs that were read until then are stored; a signal
//! ends the wait.

use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::interrupt::Interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IsTerminal, Read, stdin};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// A wait is a series of these. Between them a signal is noticed.
const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// An open source.
pub struct Input {
    file: File,
    /// Its name for messages.
    pub name: String,
    /// Its length, if it is a regular file.
    pub bytes: Option<u64>,
    /// Its path, if it has one.
    pub path: Option<PathBuf>,
}

impl Input {
    /// Opens the file at `path`; standard input if it is '-' or absent.
    pub fn open(path: Option<&Path>) -> Result<Input> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            let name = "standard input".to_owned();
            // A file of its own: the standard library's has a buffer that no poll sees.
            let owned = stdin().as_fd().try_clone_to_owned();
            let file = File::from(owned.map_err(|e| Failure::failed(format!("{name}: {e}")))?);
            return Ok(Input { file, name, bytes: None, path: None });
        };
        let name = path.display().to_string();
        let named = |e: io::Error| Failure::failed(format!("{name}: {e}"));
        let file = File::open(path).map_err(named)?;
        let metadata = file.metadata().map_err(named)?;
        if metadata.is_dir() {
            return Err(Failure::failed(format!("{name}: is a directory, not a file of pairs")));
        }
        let bytes = metadata.is_file().then_some(metadata.len());
        Ok(Input { file, name, bytes, path: Some(path.to_owned()) })
    }

    /// Whether a person types the pairs.
    pub fn is_terminal(&self) -> bool {
        self.file.is_terminal()
    }

    /// Its bytes; `before_wait` is called each time when there are none at the moment.
    pub fn reader<'a>(
        &'a self,
        interrupt: &'a Interrupt,
        before_wait: impl Fn() -> io::Result<()> + 'a,
    ) -> impl Read + 'a {
        InputReader { file: &self.file, interrupt, before_wait }
    }
}

struct InputReader<'a, F> {
    file: &'a File,
    interrupt: &'a Interrupt,
    before_wait: F,
}

impl<F: Fn() -> io::Result<()>> InputReader<'_, F> {
    /// Whether a read returns at once: bytes, the end or an error.
    fn is_ready(&self, within: &Timespec) -> io::Result<bool> {
        let mut asked = [PollFd::new(self.file, PollFlags::IN)];
        match poll(&mut asked, Some(within)) {
            Err(Errno::INTR) => Ok(false),
            ready => Ok(ready? > 0),
        }
    }

    fn wait(&self) -> io::Result<()> {
        if self.is_ready(&AT_ONCE)? {
            return Ok(());
        }
        (self.before_wait)()?;
        while !self.interrupt.came() && !self.is_ready(&STEP)? {}
        Ok(())
    }
}

impl<F: Fn() -> io::Result<()>> Read for InputReader<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        if self.interrupt.came() {
            // Not the end of the input, which would make a whole record of a half one.
            return Err(io::Error::other("stopped by a signal"));
        }
        self.file.read(buffer)
    }
}
