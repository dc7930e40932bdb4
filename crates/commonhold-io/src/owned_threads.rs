//! The threads of a handle, and the process that they run in: a forked child has the handle, and
//! not the threads.
//!
//! Invariant: no process waits for a thread of another process, or sends one a message.

use commonhold::raw::process_number;
use std::mem;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long dropping a handle waits for its threads. They end sooner unless a stopped process
/// blocks them.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two checks whether the threads have ended.
const LOOK: Duration = Duration::from_millis(1);

/// Threads that this process has started.
#[derive(Debug)]
pub struct OwnedThreads {
    handles: Vec<JoinHandle<()>>,
    /// The number of the process that started them.
    process: u32,
}

impl Default for OwnedThreads {
    fn default() -> OwnedThreads {
        OwnedThreads { handles: Vec::new(), process: process_number() }
    }
}

impl OwnedThreads {
    /// Adds a thread that this process has just started.
    pub fn push(&mut self, thread: JoinHandle<()>) {
        self.handles.push(thread);
    }

    /// The number of threads.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// True if there are no threads.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// False in a forked child, where the threads and their data belong to the parent.
    #[must_use]
    pub fn are_here(&self) -> bool {
        self.process == process_number()
    }

    /// True if all threads have ended.
    #[must_use]
    pub fn have_ended(&self) -> bool {
        self.handles.iter().all(JoinHandle::is_finished)
    }

    /// Waits until all threads have ended. Does nothing in a forked child.
    pub fn join(&mut self) {
        if self.are_here() {
            for thread in self.handles.drain(..) {
                // A panic of the thread was reported already.
                let _ = thread.join();
            }
        }
    }

    /// Waits until all threads have ended, but at most for `time`. A thread that is still blocked
    /// then ends later.
    pub fn join_for(&mut self, time: Duration) {
        let end = Instant::now().checked_add(time);
        while self.are_here() && !self.have_ended() {
            if end.is_some_and(|end| Instant::now() >= end) {
                return self.handles.clear();
            }
            std::thread::sleep(LOOK);
        }
        self.join();
    }
}

impl Drop for OwnedThreads {
    fn drop(&mut self) {
        if !self.are_here() {
            // A handle of the parent may name a new thread here.
            mem::forget(mem::take(&mut self.handles));
        }
    }
}
