//! The end of the threads of a handle: a flag, and a descriptor for threads that wait.

use commonhold::{Error, ErrorKind, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The pause where the system cannot wait.
const PAUSE: Duration = Duration::from_millis(10);

/// See the module.
pub(crate) struct Ending {
    /// Readable when the threads have to end.
    pub(crate) descriptor: OwnedFd,
    is_over: AtomicBool,
}

impl Ending {
    /// # Errors
    /// `Io` if the system makes no descriptor.
    pub(crate) fn new() -> Result<Ending> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot create an eventfd: {e}")))?;
        Ok(Ending { descriptor, is_over: AtomicBool::new(false) })
    }

    /// Requests the end.
    pub(crate) fn begin(&self) {
        // Release: pairs with the threads' look, which may be all that they learn this by.
        self.is_over.store(true, Ordering::Release);
        // It fails only if the counter is at its end: then it is readable.
        let _ = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
    }

    /// Whether the threads have to end.
    pub(crate) fn is_over(&self) -> bool {
        // Acquire: see `begin`.
        self.is_over.load(Ordering::Acquire)
    }

    /// Sleeps; true if the threads have to end.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        wait(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], time);
        self.is_over()
    }
}

/// Waits for one of the descriptors, at most for `time`, or for a signal.
pub(crate) fn wait(descriptors: &mut [PollFd<'_>], time: Duration) {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    match poll(descriptors, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        // The system is out of memory.
        Err(_) => {
            descriptors.iter_mut().for_each(PollFd::clear_revents);
            std::thread::sleep(PAUSE);
        }
    }
}
