//! The threads of a handle, and the process that they run in: a forked child has the handle, and not the threads.
//!
//! Invariant: nobody waits for a thread that another process has, or tells it anything.

use std::mem;
use std::thread::JoinHandle;

/// Threads that this process has started.
#[derive(Debug)]
pub(crate) struct Threads {
    handles: Vec<JoinHandle<()>>,
    process: u32,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads { handles: Vec::new(), process: std::process::id() }
    }
}

impl Threads {
    pub(crate) fn push(&mut self, thread: JoinHandle<()>) {
        self.handles.push(thread);
    }

    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// False in a forked child: there are none, and what they have to do with is the parent's.
    pub(crate) fn are_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// True if all have ended.
    pub(crate) fn have_ended(&self) -> bool {
        self.handles.iter().all(JoinHandle::is_finished)
    }

    /// Waits until all have ended.
    pub(crate) fn join(&mut self) {
        if self.are_here() {
            for thread in self.handles.drain(..) {
                // If it has panicked, that was said already.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if !self.are_here() {
            // What a handle names there may be a new thread's.
            mem::forget(mem::take(&mut self.handles));
        }
    }
}
