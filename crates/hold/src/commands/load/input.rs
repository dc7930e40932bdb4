//! The source of the pairs: a file, a pipe or a terminal.
//!
//! Invariant: before a read waits, all pairs read so far are stored. A signal ends the wait.

use commonhold_terminal::failure::{Failure, Result};
use commonhold_terminal::interrupt::Interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IsTerminal, Read, stdin};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// A wait is a series of steps of this length. Between two steps, the reader notices a signal.
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
            // Not the standard library's handle: `poll` does not see the bytes in its buffer.
            let owned = stdin().as_fd().try_clone_to_owned();
            let file = File::from(owned.map_err(|e| Failure::failed(format!("{name}: {e}")))?);
            return Ok(Input { file, name, bytes: None, path: None });
        };
        let name = path.display().to_string();
        let named = |e: io::Error| Failure::failed(format!("{name}: {e}"));
        let file = File::open(path).map_err(named)?;
        let metadata = file.metadata().map_err(named)?;
        if metadata.is_dir() {
            return Err(Failure::failed(format!(
                "{name}: expected a file of pairs, got a directory"
            )));
        }
        let bytes = metadata.is_file().then_some(metadata.len());
        Ok(Input { file, name, bytes, path: Some(path.to_owned()) })
    }

    /// Whether a person types the pairs.
    pub fn is_terminal(&self) -> bool {
        self.file.is_terminal()
    }

    /// A reader of its bytes, which calls `before_wait` whenever no bytes are available yet.
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
    /// Whether a read would return at once, with bytes, the end or an error.
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
            // An end of input here would make a partial record look complete.
            return Err(io::Error::other("stopped by a signal"));
        }
        self.file.read(buffer)
    }
}
