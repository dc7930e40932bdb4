//! Real child processes with a watchdog, and memory shared with them.
//!
//! A [`Child`] is a forked process that runs one closure and leaves by `_exit`: nothing of the parent
//! is unwound or dropped in it. A panic in the closure comes back as text. Nobody waits for ever: a
//! child that does not end in time is killed and the test fails, naming it. A [`Board`] is a page of
//! words that parent and children share, for start signals, counters and records of what happened.
//!
//! # Safety
//! `fork` in a test binary with threads: the child has only the forking thread, allocates through
//! glibc (whose `fork` leaves its allocator usable), takes no lock of std's that another thread of the
//! test binary may hold (it does not print; its panics go past the hook), and ends by `_exit`.
//! Board memory is only seen as atomics.
#![allow(unsafe_code)]

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::cell::RefCell;
use std::io::{Read, Write};
use std::ops::Deref;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// How long anything may take before it counts as hanging.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It ran to its end.
    Well,
    /// A panic, or an exit code of its own.
    Badly(String),
    /// A signal.
    By(Signal),
    /// It did not end in time and was killed.
    Hung,
}

/// A forked process that runs one closure.
pub struct Child {
    name: String,
    pid: Pid,
    text: std::fs::File,
    ended: Option<End>,
}

/// The child must not inherit a reading that another thread has begun.
#[cfg(feature = "steps")]
fn read_environment() {
    commonhold::steps::read_environment();
    commonhold::steps::read_faults_of_environment();
}

/// One fork at a time: what a child inherits is then never somebody else's half-made pipe.
static FORKING: Mutex<()> = Mutex::new(());
static IN_CHILD: AtomicBool = AtomicBool::new(false);
thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Child {
    /// Forks; the child runs `body` and ends.
    pub fn run(name: impl Into<String>, body: impl FnOnce()) -> Child {
        keep_panic_texts();
        #[cfg(feature = "steps")]
        read_environment();
        let guard = FORKING.lock().unwrap_or_else(|e| e.into_inner());
        let (text, theirs) = nix::unistd::pipe().expect("a pipe");
        // SAFETY: see the module's contract.
        match unsafe { libc::fork() } {
            -1 => panic!("fork: {}", std::io::Error::last_os_error()),
            0 => {
                drop(guard);
                run_child(theirs.into_raw_fd(), body)
            }
            pid => {
                // Before anybody else forks: a stranger would keep it open.
                drop(theirs);
                drop(guard);
                let text = std::fs::File::from(text);
                Child { name: name.into(), pid: Pid::from_raw(pid), text, ended: None }
            }
        }
    }

    /// The process's number.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Sends a signal, unless the child has been waited for.
    pub fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            // It may have ended meanwhile; its number stays its own until it is waited for.
            let _ = kill(self.pid, signal);
        }
    }

    /// Waits for the end; kills the child if that takes longer than [`PATIENCE`].
    pub fn wait(&mut self) -> End {
        self.wait_for(PATIENCE)
    }

    /// Waits for the end; kills the child after `limit`.
    pub fn wait_for(&mut self, limit: Duration) -> End {
        if let Some(end) = &self.ended {
            return end.clone();
        }
        let late = Instant::now() + limit;
        loop {
            match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)).expect("waitpid") {
                WaitStatus::StillAlive if Instant::now() > late => return self.hung(),
                WaitStatus::StillAlive => pause(),
                status => return self.ended(status),
            }
        }
    }

    /// Waits until the child is stopped (true) or has ended (false).
    pub fn wait_stopped(&mut self) -> bool {
        let late = Instant::now() + PATIENCE;
        loop {
            let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
            match waitpid(self.pid, Some(flags)).expect("waitpid") {
                WaitStatus::StillAlive if Instant::now() > late => {
                    self.hung();
                    panic!("{} neither stopped nor ended", self.name);
                }
                WaitStatus::StillAlive => pause(),
                WaitStatus::Stopped(..) => return true,
                status => {
                    self.ended(status);
                    return false;
                }
            }
        }
    }

    /// True once it has ended (or is no child of ours); does not wait for it.
    pub fn is_gone(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with(['Z', 'X']))
    }

    /// Waits and fails the test unless the child ran to its end.
    #[track_caller]
    pub fn finish(mut self) {
        let end = self.wait();
        assert_eq!(end, End::Well, "child '{}'", self.name);
    }

    /// Kills the child and waits for it.
    pub fn slay(mut self) -> End {
        self.signal(Signal::SIGKILL);
        self.wait()
    }

    fn hung(&mut self) -> End {
        if let Ok(stack) = std::fs::read_to_string(format!("/proc/{}/stack", self.pid)) {
            eprintln!("'{}' hangs; kernel stack:\n{stack}", self.name);
        }
        if std::env::var_os("COMMONHOLD_KEEP_HUNG").is_some() {
            eprintln!("'{}' hangs: pid {}; attach a debugger", self.name, self.pid);
            std::thread::sleep(Duration::from_secs(600));
        }
        self.signal(Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
        self.ended = Some(End::Hung);
        End::Hung
    }

    fn ended(&mut self, status: WaitStatus) -> End {
        let end = match status {
            WaitStatus::Exited(_, 0) => End::Well,
            WaitStatus::Exited(_, code) => {
                let mut text = String::new();
                let _ = self.text.read_to_string(&mut text);
                End::Badly(format!("exit {code}: {text}"))
            }
            WaitStatus::Signaled(_, signal, _) => End::By(signal),
            other => panic!("'{}': {other:?}", self.name),
        };
        self.ended = Some(end.clone());
        end
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.signal(Signal::SIGKILL);
            let _ = waitpid(self.pid, None);
        }
    }
}

fn run_child(text: i32, body: impl FnOnce()) -> ! {
    IN_CHILD.store(true, Ordering::SeqCst);
    // SAFETY: plain system calls. The signal covers a test binary that is killed itself.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let code = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(()) => 0,
        Err(_) => {
            // SAFETY: the pipe's end is ours and is still open, or the write fails harmlessly.
            let mut pipe = unsafe { std::fs::File::from_raw_fd(text) };
            let _ = LAST_PANIC.with(|t| pipe.write_all(t.borrow().as_bytes()));
            std::mem::forget(pipe);
            101
        }
    };
    // SAFETY: ends the process without running the parent's exit handlers.
    unsafe { libc::_exit(code) }
}

/// Panics in children go to their parent; elsewhere they go the ordinary way.
fn keep_panic_texts() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let ordinary = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IN_CHILD.load(Ordering::SeqCst) {
                LAST_PANIC.with(|t| *t.borrow_mut() = info.to_string());
            } else {
                ordinary(info);
            }
        }));
    });
}

/// Gives way for a moment inside a loop that awaits a condition.
pub fn pause() {
    std::thread::sleep(Duration::from_micros(200));
}

/// Waits until `condition` holds; fails the test, naming what, after [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    until_within(PATIENCE, what, condition);
}

/// The same, for what takes long on a busy machine.
pub fn until_within(time: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let late = Instant::now() + time;
    while !condition() {
        assert!(Instant::now() < late, "waited in vain until {what}");
        pause();
    }
}

/// Nanoseconds since some moment that is the same for all processes.
pub fn now_ns() -> u64 {
    use nix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Ends the whole test binary if it is not dropped in time: for what runs in the test's own process.
pub struct Watchdog {
    done: std::sync::Arc<AtomicBool>,
}

impl Watchdog {
    /// Watches until dropped.
    pub fn new(name: &'static str, limit: Duration) -> Watchdog {
        let done = std::sync::Arc::new(AtomicBool::new(false));
        let theirs = done.clone();
        std::thread::spawn(move || {
            let late = Instant::now() + limit;
            while !theirs.load(Ordering::SeqCst) {
                if Instant::now() > late {
                    eprintln!("'{name}' hangs; giving up");
                    std::process::abort();
                }
                std::thread::park_timeout(Duration::from_millis(100));
            }
        });
        Watchdog { done }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::SeqCst);
    }
}

/// Words shared with the children forked after it was made.
pub struct Board {
    words: *mut AtomicU64,
    len: usize,
}

// SAFETY: atomics only.
unsafe impl Send for Board {}
// SAFETY: atomics only.
unsafe impl Sync for Board {}

impl Board {
    /// `len` words, all zero.
    pub fn new(len: usize) -> Board {
        Board { words: share(len.max(1) * 8).cast(), len }
    }

    /// Reads a word.
    pub fn get(&self, index: usize) -> u64 {
        self[index].load(Ordering::SeqCst)
    }

    /// Writes a word.
    pub fn put(&self, index: usize, value: u64) {
        self[index].store(value, Ordering::SeqCst);
    }

    /// Adds to a word; the sum.
    pub fn count(&self, index: usize, by: u64) -> u64 {
        self[index].fetch_add(by, Ordering::SeqCst) + by
    }
}

impl Deref for Board {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has `len` aligned words and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.words, self.len) }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: our own mapping, no reference into it is left.
        unsafe { libc::munmap(self.words.cast(), self.len.max(1) * 8) };
    }
}

fn share(bytes: usize) -> *mut libc::c_void {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh anonymous mapping.
    let memory = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, access, kind | libc::MAP_NORESERVE, -1, 0)
    };
    assert_ne!(memory, libc::MAP_FAILED, "shared memory: {}", std::io::Error::last_os_error());
    memory
}

/// Zeros that take no memory: for values as large as the limit.
pub struct Zeros {
    start: *mut u8,
    len: usize,
}

impl Zeros {
    /// `len` zero bytes.
    pub fn new(len: usize) -> Zeros {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping, only read.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, kind, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED, "zeros: {}", std::io::Error::last_os_error());
        Zeros { start: memory.cast(), len }
    }
}

impl Deref for Zeros {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: mapped, readable, never written, lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for Zeros {
    fn drop(&mut self) {
        // SAFETY: our own mapping, no reference into it is left.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// A child is killed when its parent dies, unless it calls this.
pub fn outlive_parent() {
    // SAFETY: a plain system call.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
}

/// Closes every descriptor of this process above the standard ones, as daemons do. For a [`Child`].
pub fn close_everything() {
    // SAFETY: a child process that uses no file of its own afterwards.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
}

/// What fork handlers do not see: a child made by the bare system call. Runs `body` in it.
pub fn bare_clone(body: impl FnOnce()) -> i32 {
    keep_panic_texts();
    let _guard = FORKING.lock().unwrap_or_else(|e| e.into_inner());
    // SAFETY: as fork, without a new stack; the child leaves by `_exit`. For callers that are the only
    // thread of their process (a [`Child`]), so no lock is held by a thread that is not copied.
    match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
        -1 => panic!("clone: {}", std::io::Error::last_os_error()),
        0 => run_child(libc::STDERR_FILENO, body),
        pid => pid as i32,
    }
}

/// Forks in the middle of a call, and returns in both processes: the child's id, and 0 in the child,
/// which ends by [`end_here`].
pub fn fork_here() -> i32 {
    keep_panic_texts();
    let _guard = FORKING.lock().unwrap_or_else(|e| e.into_inner());
    // SAFETY: for callers that are the only thread of their process (a [`Child`]), so no lock is
    // held by a thread that is not copied.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        pid => pid,
    }
}

/// Ends the child of [`fork_here`], well or not.
pub fn end_here(well: bool) -> ! {
    // SAFETY: ends this process without the handlers that it has from its parent.
    unsafe { libc::_exit(i32::from(!well)) }
}

/// Waits for a process made by [`bare_clone`] or [`fork_here`].
pub fn wait_for_clone(pid: i32) -> End {
    let text = std::fs::File::open("/dev/null").expect("/dev/null");
    let mut child = Child { name: "clone".into(), pid: Pid::from_raw(pid), text, ended: None };
    child.wait()
}

/// Limits the address space of this process to `bytes` more than it has now, because a forked child
/// has its parent's mappings.
pub fn limit_address_space(bytes: u64) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    setrlimit(Resource::RLIMIT_AS, pages * 4096 + bytes, pages * 4096 + bytes).unwrap();
}
