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

/// The longest sleep of the thread before it checks the queue, and whether it is still needed.
const ROUND: Duration = Duration::from_millis(500);
/// The pause of the thread after an error.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest time that dropping the notifier waits for the thread.
const JOIN_TIMEOUT: Duration = Duration::from_secs(2);

/// A file descriptor that becomes readable when a named queue has elements, for `poll`, `epoll` and
/// event loops.
///
/// Wait until the descriptor is readable, [`clear`](Notifier::clear) it (or read 8 bytes from it),
/// and pull until the queue is empty. It signals again for every later push, and may signal even if
/// other processes have pulled everything. A thread of this process serves the notifier until it is
/// dropped; dropping waits for the thread for 2 seconds at most. In a forked child the descriptor
/// shows the signals of its parent: create a new notifier there.
///
/// After an error the thread pauses and tries again ([`error`](Notifier::error)). When the hold is
/// closed or the queue is dropped, the notifier signals for the last time.
pub struct Notifier {
    queue: Queue,
    number: u32,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    mark: ForkMark,
}

/// The state that the thread shares with the notifier.
struct Shared {
    fd: EventFd,
    ended: AtomicBool,
    /// The error of the last check of the queue, or of the recovery during it.
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

    /// Clears the signal. Call this before pulling. No effect in a forked child, because the signal
    /// belongs to its parent.
    pub fn clear(&self) {
        if !self.mark.inherited() {
            self.shared.fd.clear();
        }
    }

    /// The error of the thread's last check of the queue, if it failed. `Closed` and `NotFound`
    /// (the queue was dropped) are final; after any other error the thread tries again. Always
    /// `None` in a forked child.
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
        let late = Instant::now() + JOIN_TIMEOUT;
        while !thread.is_finished() {
            if Instant::now() > late {
                // Another process holds the thread up; the thread ends by itself later.
                return;
            }
            // This changes nothing, so it needs no operation. If the thread falls asleep between
            // the two calls, it soon wakes by itself.
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

/// The state of the thread.
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
            // A panic is mended as elsewhere: a program that polls the descriptor must not wait
            // without end.
            let looked = catch_unwind(AssertUnwindSafe(|| self.wait(signalled_for)));
            match looked.unwrap_or_else(|_| Err(panicked())) {
                Ok(None) => {}
                Ok(Some(pushed)) => {
                    signalled_for = pushed;
                    self.shared.fd.signal();
                }
                // Wakes a program that polls the descriptor, so that it finds the error.
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

    /// Waits until the queue has elements and some were pushed since `before`. Returns the number
    /// pushed so far; `None` if the time of a round ran out.
    fn wait(&self, before: u64) -> Result<Option<u64>> {
        let ring = self.queue.ring(self.number);
        let fresh = || {
            let [_, pushed] = ring.passed();
            (pushed != before && ring.len() > 0).then_some(pushed)
        };
        let end = Instant::now().checked_add(ROUND);
        event(&self.queue, self.number).wait(
            end,
            || self.queue.enter_until(end),
            |lane, look| {
                // First the elements; tidying afterwards may bring more.
                let found = if self.has_ended() { Some(before) } else { fresh() };
                if found.is_some() {
                    self.note(Ok(()));
                }
                if found.is_some() || look == Look::Data {
                    return Ok(found);
                }
                self.note(self.queue.tidy(lane));
                Ok(fresh())
            },
        )
    }
}
