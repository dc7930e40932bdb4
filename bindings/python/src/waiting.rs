//! Waiting with the interpreter released, which Ctrl-C ends.
//!
//! A call that may wait, for data or for a lock whose holder is stopped, does so in slices, between
//! which handlers of signals run. Handles are as patient as their hold (`lock_timeout`), whose time
//! is counted here.

use crate::errors::{Answer, Failure, error};
use commonhold::raw::limit_thread_patience_ns;
use commonhold::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use std::ops::Deref;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The most that a signal's handler waits.
const SLICE: Duration = Duration::from_millis(50);

/// This thread's patience with locks, as long as it lives.
pub struct Patience(u64);

impl Patience {
    /// For calls that have the interpreter: never waits.
    #[inline]
    pub fn none() -> Patience {
        Patience(limit_thread_patience_ns(0))
    }

    /// As patient as the handle.
    pub fn unlimited() -> Patience {
        Patience(limit_thread_patience_ns(u64::MAX))
    }

    /// For calls that are made once, with the interpreter released.
    pub fn some() -> Patience {
        Patience(limit_thread_patience_ns(SLICE.as_nanos() as u64))
    }
}

impl Drop for Patience {
    #[inline]
    fn drop(&mut self) {
        limit_thread_patience_ns(self.0);
    }
}

/// Drops a value without waiting: the garbage collector may run anywhere, while
/// holding the interpreter.
pub struct Hurried<T>(Option<T>);

impl<T> Hurried<T> {
    pub fn new(value: T) -> Hurried<T> {
        Hurried(Some(value))
    }
}

impl<T> Deref for Hurried<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Hurried<T> {
    fn drop(&mut self) {
        let _patience = Patience::none();
        self.0 = None;
    }
}

/// Until when: for a number of seconds (none: as long as it takes).
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(timeout: Option<f64>) -> Answer<Deadline> {
        let time = timeout.map(seconds).transpose()?;
        Ok(Deadline(time.and_then(|time| Instant::now().checked_add(time))))
    }

    /// How long to wait in one go; and whether that is all there is.
    fn slice(&self) -> (Duration, bool) {
        let left = self.0.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        (left.min(SLICE), left <= SLICE)
    }
}

/// How long a lock has been in the way.
struct Locked {
    since: Instant,
    patience: Option<Duration>,
}

impl Locked {
    fn new(patience: Option<Duration>) -> Locked {
        Locked { since: Instant::now(), patience }
    }

    /// True for the error of a lock that is still to be waited for.
    fn is_waited_for(&self, error: &Failure) -> bool {
        let timed_out =
            matches!(error, Failure::Ours(error) if error.kind() == ErrorKind::TimedOut);
        timed_out && self.patience.is_none_or(|patience| self.since.elapsed() < patience)
    }
}

/// Runs a call that may have to wait for a lock, within the patience of the hold. A retry does the
/// remaining work: a call that could not get a lock has done nothing.
pub fn patiently<T: Send>(
    py: Python<'_>,
    patience: Option<Duration>,
    mut act: impl FnMut() -> Answer<T> + Send,
) -> Answer<T> {
    let locked = Locked::new(patience);
    loop {
        let done = py.detach(|| {
            let _limit = Patience::some();
            act()
        });
        match done {
            Err(error) if locked.is_waited_for(&error) => py.check_signals()?,
            done => return done,
        }
    }
}

/// Runs a call that is shorter than releasing the interpreter: at once if it has to wait for nobody
/// and to recover nothing, otherwise [`patiently`].
#[inline]
pub fn at_once<T: Send>(
    py: Python<'_>,
    patience: Option<Duration>,
    mut act: impl FnMut() -> Result<T> + Send,
) -> Answer<T> {
    let limit = Patience::none();
    let done = act();
    drop(limit);
    match done {
        Err(error) if error.kind() == ErrorKind::TimedOut => patiently(py, patience, || Ok(act()?)),
        done => Ok(done?),
    }
}

/// Tries again and again for a `timeout` in seconds (none: as long as it takes); `attempt` waits
/// for the time it is given. `None`: the time ran out.
pub fn wait<T: Send>(
    py: Python<'_>,
    patience: Option<Duration>,
    timeout: Option<f64>,
    mut attempt: impl FnMut(Duration) -> Result<Option<T>> + Send,
) -> Answer<Option<T>> {
    let deadline = Deadline::after(timeout)?;
    let mut locked = Locked::new(patience);
    loop {
        let (slice, is_last) = deadline.slice();
        let found = py.detach(|| {
            let _limit = Patience::some();
            attempt(slice).map_err(Failure::from)
        });
        match found {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => locked = Locked::new(patience),
            Err(error) if locked.is_waited_for(&error) => {}
            Err(error) => return Err(error),
        }
        if is_last {
            return Ok(None);
        }
        py.check_signals()?;
    }
}

/// Runs a call that takes long, and cannot wait in slices, in a thread of its own. Ctrl-C ends the
/// wait for it; the thread continues.
pub fn in_a_thread<T: Send + 'static>(
    py: Python<'_>,
    act: impl FnOnce() -> Result<T> + Send + 'static,
) -> Answer<T> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("commonhold".into());
    // A call that cannot begin is dropped, which may wait, too.
    py.detach(|| thread.spawn(move || drop(sender.send(act()))))
        .map_err(|e| error(ErrorKind::Io, format!("cannot start a thread: {e}")))?;
    let panicked = || Error::new(ErrorKind::Io, "the call's thread has panicked");
    let result = wait(py, None, None, move |slice| match receiver.recv_timeout(slice) {
        Ok(result) => Ok(Some(result)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(panicked()),
    })?;
    Ok(result.unwrap_or_else(|| Err(panicked()))?)
}

/// A duration of `time` seconds.
///
/// # Errors
/// `Invalid` for a value that is not a time.
pub fn seconds(time: f64) -> Answer<Duration> {
    if time.is_nan() || time < 0.0 {
        return Err(error(
            ErrorKind::Invalid,
            format!("expected a number of seconds from 0 on, got {time}"),
        ));
    }
    Ok(Duration::try_from_secs_f64(time).unwrap_or(Duration::MAX))
}

/// A span of time from Python: seconds, or a `timedelta`.
pub fn time_span(time: &Bound<'_, PyAny>) -> Answer<Duration> {
    match time.extract::<f64>() {
        Ok(time) => seconds(time),
        Err(_) => Ok(time.extract::<Duration>()?),
    }
}

/// # Errors
/// `TimedOut`, if there is nothing.
pub fn in_time<T>(found: Option<T>, what: &str) -> Answer<T> {
    found.ok_or_else(|| error(ErrorKind::TimedOut, format!("timed out: {what}")))
}
