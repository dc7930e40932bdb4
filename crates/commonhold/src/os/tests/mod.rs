//! Tests of the operating system layer, with real child processes that are really killed.
//!
//! Children are forked, not executed: most tests check what a fork copies and what it does not.
//! Parent and child meet on a [`Stage`], a word in memory that both share.
//!
//! # Safety
//! Unsafe for the bare system calls under test, on memory of their own.
#![allow(unsafe_code)]

mod files;
mod forks;
mod locations;
mod locks;
mod reapers;

use super::file::HoldFile;
use super::futex;
use super::location::open_existing;
use std::fs::OpenOptions;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a condition may take until the test fails; a passing test takes less.
const PATIENCE: Duration = Duration::from_secs(60);
/// A child's exit code when the machine does not let it try.
const CANNOT_TRY: i32 = 77;

/// A directory of the test's own, deleted at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("hold-os-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A new file of `len` bytes, open for writing.
    fn hold(&self, name: &str, len: u64) -> HoldFile {
        let path = self.path(name);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(len).unwrap();
        HoldFile::new(file, path, true).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens an existing file for writing.
fn open(path: &Path) -> HoldFile {
    HoldFile::new(open_existing(path, true).unwrap(), path.to_path_buf(), true).unwrap()
}

/// Waits until the condition holds.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

/// A number that parent and children share; it only grows.
struct Stage(*mut AtomicU32);

impl Stage {
    fn new() -> Stage {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping disturbs nothing.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        Stage(page.cast())
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page lives as long as the object, and holds zeros at first.
        unsafe { &*self.0 }
    }

    fn reach(&self, stage: u32) {
        self.word().store(stage, Ordering::Release);
        futex::wake_one(self.word());
    }

    fn wait_for(&self, stage: u32) {
        let begin = Instant::now();
        loop {
            let now = self.word().load(Ordering::Acquire);
            if now >= stage {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "stage {stage} not reached");
            futex::wait(self.word(), now, Duration::from_secs(1));
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // SAFETY: our own page.
        unsafe { libc::munmap(self.0.cast(), 4096) };
    }
}

/// A forked child, killed at the latest when dropped.
pub(crate) struct Child(libc::pid_t);

impl Child {
    /// Forks a child that runs `work` and ends: with its result, or 101 if it panics.
    pub(crate) fn fork(work: impl FnOnce() -> i32) -> Child {
        // SAFETY: the child allocates, which glibc makes possible, and then ends without unwinding.
        match unsafe { libc::fork() } {
            -1 => panic!("{}", std::io::Error::last_os_error()),
            0 => {
                let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(101);
                // SAFETY: ends the process.
                unsafe { libc::_exit(code) }
            }
            pid => Child(pid),
        }
    }

    /// Kills the child and waits for its end.
    fn kill(mut self) {
        self.end();
    }

    /// Waits for the end of a child that SIGKILL ends.
    #[cfg(feature = "steps")]
    pub(crate) fn join_killed(mut self) {
        let mut status = 0;
        // SAFETY: our own child; the status is ours.
        assert_eq!(unsafe { libc::waitpid(self.0, &mut status, 0) }, self.0);
        self.0 = 0;
        assert!(libc::WIFSIGNALED(status), "child ended with {}", libc::WEXITSTATUS(status));
        assert_eq!(libc::WTERMSIG(status), libc::SIGKILL);
    }

    /// Waits for the end of the child and returns its exit code.
    fn join(mut self) -> i32 {
        let mut status = 0;
        // SAFETY: our own child; the status is ours.
        assert_eq!(unsafe { libc::waitpid(self.0, &mut status, 0) }, self.0);
        self.0 = 0;
        assert!(libc::WIFEXITED(status), "child died by signal {}", libc::WTERMSIG(status));
        libc::WEXITSTATUS(status)
    }

    /// The same; a child that does not end in time is killed.
    fn join_within(self, time: Duration) -> i32 {
        let begin = Instant::now();
        // SAFETY: the information is not asked for; the child stays waitable.
        let has_ended = || unsafe {
            let mut info = std::mem::zeroed::<libc::siginfo_t>();
            let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            libc::waitid(libc::P_PID, self.0 as libc::id_t, &mut info, how);
            info.si_pid() != 0
        };
        while !has_ended() {
            assert!(begin.elapsed() < time, "the child does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
        self.join()
    }

    fn end(&mut self) {
        if self.0 > 0 {
            // SAFETY: our own child, not waited for yet.
            unsafe {
                libc::kill(self.0, libc::SIGKILL);
                libc::waitpid(self.0, std::ptr::null_mut(), 0);
            }
            self.0 = 0;
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sleeps until killed.
fn sleep_for_ever() -> ! {
    loop {
        // SAFETY: the call only sleeps.
        unsafe { libc::pause() };
    }
}
