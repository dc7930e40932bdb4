//! [`Bell`]: a file descriptor that becomes readable when elements are pushed.
//!
//! A futex cannot be polled, so a thread of the process waits on the queue's event and writes to an eventfd.

use crate::error::{Error, Result};
use crate::os::eventfd::EventFd;
use crate::queue::handle::Queue;
use crate::steps::fault;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the thread sleeps at most before it looks at the queue, and whether it is still wanted.
const ROUND: Duration = Duration::from_millis(500);

/// A file descriptor that becomes readable when there are elements in a queue, for `poll`, `epoll` and event loops.
///
/// To use it: wait until it is readable; [`hush`](Bell::hush) it (or read 8 bytes from it); pull until the queue is empty.
/// It rings again for whatever is pushed afterwards, and may ring though others have pulled everything. A thread of this process
/// stands behind it, until it is dropped. In a forked child it never rings: make one there.
#[derive(Debug)]
pub struct Bell {
    fd: Arc<EventFd>,
    queue: Queue,
    number: u32,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pid: u32,
}

impl Bell {
    pub(crate) fn new(queue: &Queue, number: u32) -> Result<Bell> {
        let failed = |e: std::io::Error| Error::os(format!("queue '{}': a bell", queue.name()), &e);
        let fd = Arc::new(EventFd::new().map_err(failed)?);
        let ended = Arc::new(AtomicBool::new(false));
        let ringer =
            Ringer { queue: queue.clone(), number, fd: Arc::clone(&fd), ended: Arc::clone(&ended) };
        fault!("bell.thread").map_err(failed)?;
        let thread = std::thread::Builder::new().name("commonhold-bell".into());
        let thread = Some(thread.spawn(move || ringer.run()).map_err(failed)?);
        Ok(Bell { fd, queue: queue.clone(), number, ended, thread, pid: std::process::id() })
    }

    /// Makes it silent until something is pushed, before one pulls what there is.
    pub fn hush(&self) {
        self.fd.clear();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        // In a forked child there is no such thread.
        if self.pid == std::process::id() {
            if let Ok(_inside) = self.queue.enter() {
                self.queue.layout().event(self.queue.space(), self.number).wake_all();
            }
            let _ = thread.join();
        } else {
            std::mem::forget(thread);
        }
    }
}

/// What the thread knows.
struct Ringer {
    queue: Queue,
    number: u32,
    fd: Arc<EventFd>,
    ended: Arc<AtomicBool>,
}

impl Ringer {
    /// Rings once for whatever was pushed since it last rang. Ends with the bell, or with the queue.
    fn run(self) {
        let mut rung_for = 0;
        while !self.ended.load(Ordering::Acquire) {
            let pushed = match self.wait(rung_for) {
                Ok(pushed) => pushed,
                // Dropped or closed: who waits for the descriptor shall find out.
                Err(_) => return self.fd.ring(),
            };
            if let Some(pushed) = pushed {
                rung_for = pushed;
                self.fd.ring();
            }
        }
    }

    /// Waits for elements in the queue of which some were pushed since `before`.
    fn wait(&self, before: u64) -> Result<Option<u64>> {
        let event = self.queue.layout().event(self.queue.space(), self.number);
        let ring = self.queue.ring(self.number);
        event.wait(
            std::time::Instant::now().checked_add(ROUND),
            || self.queue.enter(),
            |lane, look| {
                if look == crate::sync::event::Look::Doubt {
                    self.queue.settle_dead(lane)?;
                }
                let [_, pushed] = ring.passed();
                let fresh = pushed != before && ring.len() > 0;
                let ended = self.ended.load(Ordering::Acquire);
                Ok(if ended { Some(before) } else { fresh.then_some(pushed) })
            },
        )
    }
}
