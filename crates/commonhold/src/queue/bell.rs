//! [`Bell`]: a file descriptor that becomes readable when elements are pushed.
//!
//! A futex cannot be polled, so a thread of the process waits on the queue's event and writes to an
//! eventfd. It ends with the bell or the queue; any other error is remembered, and the thread goes
//! on after a pause.

use crate::error::{Error, ErrorKind, Result};
use crate::os::eventfd::EventFd;
use crate::os::fork::ForkMark;
use crate::queue::handle::Queue;
use crate::steps::fault;
use crate::sync::event::{Event, Look};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the thread sleeps at most before it looks at the queue, and whether it is still wanted.
const ROUND: Duration = Duration::from_millis(500);
/// How long it rests after an error.
const PAUSE: Duration = Duration::from_millis(100);
/// How long dropping the bell waits for it.
const FAREWELL: Duration = Duration::from_secs(2);

/// A file descriptor that becomes readable when there are elements in a queue, for `poll`, `epoll` and event loops.
///
/// To use it: wait until it is readable; [`hush`](Bell::hush) it (or read 8 bytes from it); pull until the queue is empty.
/// It rings again for whatever is pushed afterwards, and may ring though others have pulled everything. A thread of this process
/// stands behind it, until it is dropped. In a forked child it never rings: make one there.
///
/// An error does not end it: it looks again after a pause ([`error`](Bell::error)). Only when the
/// hold is closed or the queue dropped it rings for the last time.
pub struct Bell {
    queue: Queue,
    number: u32,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    mark: ForkMark,
}

/// What the thread shares with the bell.
struct Shared {
    fd: EventFd,
    ended: AtomicBool,
    /// Why the last look at the queue failed, or what it could not settle.
    error: Mutex<Option<Error>>,
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.queue.named_at(self.number);
        f.debug_struct("Bell").field("queue", &self.queue.name()).field("name", &name).finish()
    }
}

impl Bell {
    pub(crate) fn new(queue: &Queue, number: u32) -> Result<Bell> {
        let failed = |e: std::io::Error| Error::os(format!("queue '{}': a bell", queue.name()), &e);
        let mark = ForkMark::new().map_err(failed)?;
        let (fd, ended) = (EventFd::new().map_err(failed)?, AtomicBool::new(false));
        let shared = Arc::new(Shared { fd, ended, error: Mutex::new(None) });
        let ringer = Ringer { queue: queue.clone(), number, shared: Arc::clone(&shared) };
        fault!("bell.thread").map_err(failed)?;
        let thread = std::thread::Builder::new().name("commonhold-bell".into());
        let thread = Some(thread.spawn(move || ringer.run()).map_err(failed)?);
        Ok(Bell { queue: queue.clone(), number, shared, thread, mark })
    }

    /// Makes it silent until something is pushed, before one pulls what there is.
    pub fn hush(&self) {
        self.shared.fd.clear();
    }

    /// What went wrong when the thread behind it looked at the queue last, if something did.
    /// `Closed` and `NotFound` (the queue was dropped) are final; after any other error it looks
    /// again. Always `None` in a forked child.
    pub fn error(&self) -> Option<Error> {
        match self.mark.inherited() {
            true => None,
            false => self.shared.error.lock().unwrap_or_else(|e| e.into_inner()).clone(),
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }
}

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // In a forked child there is no such thread.
        if self.mark.inherited() {
            return std::mem::forget(thread);
        }
        self.shared.ended.store(true, Ordering::Release);
        thread.thread().unpark();
        let late = Instant::now() + FAREWELL;
        while !thread.is_finished() {
            if Instant::now() > late {
                // It is kept up by somebody; it ends by itself, when it can.
                return;
            }
            // It needs no operation: nothing is changed. Asleep between the two, it wakes by itself
            // soon.
            event(&self.queue, self.number).rouse();
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = thread.join();
    }
}

fn event(queue: &Queue, number: u32) -> &Event {
    queue.layout().event(queue.space(), number)
}

fn panicked() -> Error {
    Error::new(ErrorKind::Io, "the thread behind a bell panicked; it looks again")
}

/// What the thread knows.
struct Ringer {
    queue: Queue,
    number: u32,
    shared: Arc<Shared>,
}

impl Ringer {
    /// Rings once for whatever was pushed since it last rang. Ends with the bell, or with the queue.
    fn run(self) {
        let mut rung_for = 0;
        while !self.has_ended() {
            // What panics here is mended as elsewhere; who waits for the descriptor must not wait for
            // ever.
            let looked = catch_unwind(AssertUnwindSafe(|| self.wait(rung_for)));
            match looked.unwrap_or_else(|_| Err(panicked())) {
                Ok(None) => {}
                Ok(Some(pushed)) => {
                    rung_for = pushed;
                    self.shared.fd.ring();
                }
                // Who waits for the descriptor shall find out.
                Err(error) if matches!(error.kind(), ErrorKind::Closed | ErrorKind::NotFound) => {
                    self.note(Err(error));
                    return self.shared.fd.ring();
                }
                Err(error) => {
                    self.note(Err(error));
                    std::thread::park_timeout(PAUSE);
                }
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }

    fn note(&self, looked: Result<()>) {
        *self.shared.error.lock().unwrap_or_else(|e| e.into_inner()) = looked.err();
    }

    /// Waits for elements in the queue of which some were pushed since `before`.
    fn wait(&self, before: u64) -> Result<Option<u64>> {
        let ring = self.queue.ring(self.number);
        let fresh = || {
            let [_, pushed] = ring.passed();
            (pushed != before && ring.len() > 0).then_some(pushed)
        };
        event(&self.queue, self.number).wait(
            Instant::now().checked_add(ROUND),
            || self.queue.enter(),
            |lane, look| {
                // First what it is for; what it tidies then may bring more.
                let found = if self.has_ended() { Some(before) } else { fresh() };
                if found.is_some() || look == Look::Data {
                    return Ok(found);
                }
                self.note(self.queue.tidy(lane));
                Ok(fresh())
            },
        )
    }
}
