//! Waiting with the interpreter let go, which Ctrl-C ends.

use crate::errors::{Answer, error};
use commonhold::{ErrorKind, Result};
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// So long a signal's handler waits at most.
const SLICE: Duration = Duration::from_millis(50);

/// Tries again and again for a `timeout` in seconds (none: as long as it takes); `attempt` waits for the time it is given.
/// `None`: the time ran out.
pub fn wait<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    mut attempt: impl FnMut(Duration) -> Result<Option<T>> + Send,
) -> Answer<Option<T>> {
    let deadline = match timeout {
        Some(time) => Instant::now().checked_add(seconds(time)?),
        None => None,
    };
    loop {
        let left = deadline.map_or(SLICE, |at| at.saturating_duration_since(Instant::now()));
        let slice = left.min(SLICE);
        if let Some(found) = py.detach(|| attempt(slice))? {
            return Ok(Some(found));
        }
        if deadline.is_some() && left <= slice {
            return Ok(None);
        }
        py.check_signals()?;
    }
}

/// A duration of so many seconds.
///
/// # Errors
/// `Invalid` for what is no time.
pub fn seconds(time: f64) -> Answer<Duration> {
    if time.is_nan() || time < 0.0 {
        return Err(error(ErrorKind::Invalid, format!("{time} seconds: want a number from 0 on")));
    }
    Ok(Duration::try_from_secs_f64(time).unwrap_or(Duration::MAX))
}

/// # Errors
/// `TimedOut`, if there is nothing.
pub fn in_time<T>(found: Option<T>, what: &str) -> Answer<T> {
    found.ok_or_else(|| error(ErrorKind::TimedOut, format!("{what} in time")))
}
