//! [`Notifier`]: a file descriptor that becomes readable when elements are pushed.
//!
//! A futex cannot be polled, so a thread of the process waits on the queue's event and writes to an
//! eventfd. It ends with the notifier or the queue. Any other error is remembered, and the thread
//! continues after a pause.

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
/// How long dropping the notifier waits for it.
const FAREWELL: Duration = Duration::from_secs(2);

/// A file descriptor that becomes readable when there are elements in a queue, for `poll`, `epoll`
/// and event loops.
///
/// To use it: wait until it is readable, [`clear`](Notifier::clear) it (or read 8 bytes from it),
/// pull until the queue is empty. It signals again for every later push, and may signal although
/// others have pulled everything. A thread of this process serves it until it is dropped. In a
/// forked child it never signals: make a new one there.
///
/// An error does not end it: it tries again after a pause ([`error`](Notifier::error)). When the
/// hold is closed or the queue is dropped, it signals for the last time.
pub struct Notifier {
    queue: Queue,
    number: u32,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    mark: ForkMark,
}

/// What the thread shares with the notifier.
struct Shared {
    fd: EventFd,
    ended: AtomicBool,
    /// Why the last look at the queue failed, or what it could not settle.
    error: Mutex<Option<Error>>,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.queue.named_at(self.number);
        f.debug_struct("Notifier").field("queue", &self.queue.name()).field("name", &name).finish()
    }
}

impl Notifier {
    pub(crate) fn new(queue: &Queue, number: u32) -> Result<Notifier> {
        let failed =
            |e: std::io::Error| Error::os(format!("queue '{}': a notifier", queue.name()), &e);
        let mark = ForkMark::new().map_err(failed)?;
        let (fd, ended) = (EventFd::new().map_err(failed)?, AtomicBool::new(false));
        let shared = Arc::new(Shared { fd, ended, error: Mutex::new(None) });
        let worker = Worker { queue: queue.clone(), number, shared: Arc::clone(&shared) };
        fault!("notifier.thread").map_err(failed)?;
        let thread = std::thread::Builder::new().name("commonhold-notifier".into());
        let thread = Some(thread.spawn(move || worker.run()).map_err(failed)?);
        Ok(Notifier { queue: queue.clone(), number, shared, thread, mark })
    }

    /// Clears the signal. Call it before pulling what there is.
    pub fn clear(&self) {
        self.shared.fd.clear();
    }

    /// The error that its thread met when it last looked at the queue, if any. `Closed` and
    /// `NotFound` (the queue was dropped) are final; after any other error the thread tries again.
    /// Always `None` in a forked child.
    pub fn error(&self) -> Option<Error> {
        match self.mark.inherited() {
            true => None,
            false => self.shared.error.lock().unwrap_or_else(|e| e.into_inner()).clone(),
        }
    }
}

impl AsFd for Notifier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }
}

impl AsRawFd for Notifier {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Notifier {
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
    Error::new(ErrorKind::Io, "the thread of a notifier panicked; it retries")
}

/// What the thread knows.
struct Worker {
    queue: Queue,
    number: u32,
    shared: Arc<Shared>,
}

impl Worker {
    /// Signals once for everything pushed since the last signal. Ends with the notifier or the
    /// queue.
    fn run(self) {
        let mut signalled_for = 0;
        while !self.has_ended() {
            // What panics here is mended as elsewhere; who waits for the descriptor must not wait for
            // ever.
            let looked = catch_unwind(AssertUnwindSafe(|| self.wait(signalled_for)));
            match looked.unwrap_or_else(|_| Err(panicked())) {
                Ok(None) => {}
                Ok(Some(pushed)) => {
                    signalled_for = pushed;
                    self.shared.fd.signal();
                }
                // Who waits for the descriptor shall find out.
                Err(error) if matches!(error.kind(), ErrorKind::Closed | ErrorKind::NotFound) => {
                    self.note(Err(error));
                    return self.shared.fd.signal();
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
