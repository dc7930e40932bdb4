//! Values that one thread at a time may use, and any thread may close.

use crate::errors::{Answer, error};
use crate::shared_hold::SharedHold;
use crate::waiting::{Patience, wait};
use commonhold::raw::process_number;
use commonhold::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// The part that belongs to the thread that has the turn.
pub trait Used: Send {
    const NAME: &'static str;

    /// Closes it now, unless views of its memory exist.
    fn end(&mut self);
}

/// A consumer or a producer, and the views of its memory.
///
/// A waiting thread has it locked, and then needs the interpreter's lock; so no thread waits for it
/// while holding the interpreter. While views of its memory exist, no thread waits with it.
pub struct Turn<T> {
    used: Mutex<T>,
    /// It must be closed: a waiting thread checks this.
    ends: AtomicBool,
    /// Whose it is: a forked child must not wait for threads that it has not.
    process: u32,
    /// The thread that waits with it locked. A signal's handler runs on this thread, and cannot
    /// have its turn before it returns.
    waits: Mutex<Option<ThreadId>>,
    pub shared: Arc<SharedHold>,
}

pub fn closed<T: Used>() -> Error {
    Error::new(ErrorKind::Closed, format!("the {} is closed", T::NAME))
}

impl<T: Used> Turn<T> {
    pub fn new(used: T, shared: &Arc<SharedHold>) -> Arc<Turn<T>> {
        Arc::new(Turn {
            used: Mutex::new(used),
            ends: AtomicBool::new(false),
            process: process_number(),
            waits: Mutex::new(None),
            shared: Arc::clone(shared),
        })
    }

    pub fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    #[inline]
    fn ensure_goes_on(&self) -> Result<()> {
        if self.ends() { Err(closed::<T>()) } else { Ok(()) }
    }

    /// `None` if another thread has the turn.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.used.try_lock().ok()
    }

    /// Only while views of its memory exist.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For an operation; waits for another thread's with the interpreter released.
    #[inline]
    pub fn enter<'a>(&'a self, py: Python<'_>) -> Answer<MutexGuard<'a, T>> {
        self.shared.ensure()?;
        self.ensure_goes_on()?;
        self.enter_last(py)
    }

    /// The same though it may be closed.
    ///
    /// # Errors
    /// `Busy` in a signal's handler, if the thread had its turn when it was interrupted.
    pub fn enter_last<'a>(&'a self, py: Python<'_>) -> Answer<MutexGuard<'a, T>> {
        loop {
            match self.used.try_lock() {
                Ok(used) => return Ok(used),
                Err(TryLockError::Poisoned(used)) => return Ok(used.into_inner()),
                Err(TryLockError::WouldBlock) if self.is_below() => {
                    let text = format!(
                        "this thread already waits with the {}; it was interrupted by a signal",
                        T::NAME
                    );
                    return Err(error(ErrorKind::Busy, text));
                }
                Err(TryLockError::WouldBlock) if self.process != process_number() => {
                    let text = format!(
                        "the {} belongs to the parent process, a thread of which was using it; \
                         open another one in this process",
                        T::NAME
                    );
                    return Err(error(ErrorKind::Closed, text));
                }
                Err(TryLockError::WouldBlock) => {
                    py.detach(|| thread::sleep(Duration::from_micros(50)));
                    py.check_signals()?;
                }
            }
        }
    }

    fn waits(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This thread waits with it, and was interrupted by a signal, whose handler asks.
    fn is_below(&self) -> bool {
        *self.waits() == Some(thread::current().id())
    }

    /// Retries, like [`wait`], until it must be closed.
    pub fn wait<R: Send>(
        &self,
        py: Python<'_>,
        used: &mut T,
        timeout: Option<f64>,
        mut attempt: impl FnMut(&mut T, Duration) -> Result<Option<R>> + Send,
    ) -> Answer<Option<R>> {
        *self.waits() = Some(thread::current().id());
        let found = wait(py, self.shared.patience, timeout, |slice| {
            self.ensure_goes_on()?;
            attempt(used, slice)
        });
        *self.waits() = None;
        // A handler that closed it left that to this thread.
        if !matches!(found, Ok(Some(_))) && self.ends() {
            used.end();
        }
        found
    }

    /// Closes it, as soon as no view of its memory exists; in a handler that interrupted this
    /// thread's waiting, when that ends.
    pub fn close(&self, py: Python<'_>) -> Answer<()> {
        self.ends.store(true, Ordering::Relaxed);
        if !self.is_below() {
            let mut used = self.enter_last(py)?;
            // It may be what keeps a closed hold's registration; what others left there is then the
            // next one's.
            let _patience = Patience::none();
            used.end();
        }
        Ok(())
    }
}
