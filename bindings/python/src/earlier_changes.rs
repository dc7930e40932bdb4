//! Waiting until the changes so far have arrived somewhere: in a journal, or in replicas.

use crate::errors::Answer;
use crate::map::Map;
use crate::waiting::{in_time, patiently, wait};
use commonhold::ErrorKind;
use commonhold::stream::StreamPosition;
use pyo3::prelude::*;
use std::time::Duration;

impl Map {
    /// Waits in pieces, so that Ctrl-C ends it, for what is to happen to all changes before the end
    /// of the stream. `attempt` waits for a piece; without success it returns `TimedOut`.
    pub fn wait_for_earlier_changes<T: Send>(
        &self,
        py: Python<'_>,
        timeout: f64,
        attempt: impl Fn(&commonhold::map::Map, StreamPosition, Duration) -> commonhold::Result<T>
        + Send
        + Sync,
    ) -> Answer<T> {
        let map = self.map()?;
        // Changes during the wait do not count.
        let end = patiently(py, self.shared.patience, || Ok(map.follow()?.end()?))?;
        let mut late = None;
        let found = wait(py, self.shared.patience, Some(timeout), |slice| {
            match attempt(map, end, slice) {
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    late = Some(error);
                    Ok(None)
                }
                done => done.map(Some),
            }
        })?;
        match (found, late) {
            (None, Some(late)) => Err(late.into()),
            (found, _) => in_time(found, "the changes are not everywhere yet"),
        }
    }
}
