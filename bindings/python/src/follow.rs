//! `Follower`: a map's changes as they happen.

use crate::convert::bytes;
use crate::errors::{Answer, error};
use crate::shared_hold::SharedHold;
use crate::waiting::wait;
use commonhold::ErrorKind;
use commonhold::stream::StreamFrame;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, MutexGuard};

/// Reads a map's stream.
#[pyclass(subclass, frozen, module = "commonhold._native")]
pub struct Follower {
    follower: Mutex<commonhold::stream::Follower>,
    shared: Arc<SharedHold>,
}

/// Kind, key, value, when it expires (ms since 1970, 0: never), position behind it.
type Frame<'py> = (u32, Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64, u64);

/// The same, without Python.
pub struct Owned(pub u32, pub Vec<u8>, pub Vec<u8>, pub u64, pub u64);

pub fn owned(frame: &StreamFrame<'_>) -> Owned {
    let StreamFrame { kind, key, value, expires_ms, end, .. } = *frame;
    Owned(kind as u32, key.to_vec(), value.to_vec(), expires_ms, end)
}

impl Follower {
    pub fn new(follower: commonhold::stream::Follower, shared: &Arc<SharedHold>) -> Follower {
        Follower { follower: Mutex::new(follower), shared: Arc::clone(shared) }
    }

    fn alone(&self) -> Answer<MutexGuard<'_, commonhold::stream::Follower>> {
        self.shared.ensure()?;
        self.follower.try_lock().map_err(|_| {
            error(
                ErrorKind::Busy,
                "another thread is waiting for this follower; create one per thread",
            )
        })
    }
}

#[pymethods]
impl Follower {
    /// The next change as a tuple; `None` if there is none within `timeout` seconds (`None`: waits
    /// as long as it takes).
    fn _next<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> Answer<Option<Frame<'py>>> {
        let mut follower = self.alone()?;
        let follower = &mut *follower;
        let found = wait(py, self.shared.patience, timeout, |slice| {
            if slice.is_zero() {
                return Ok(follower.try_recv()?.map(|frame| owned(&frame)));
            }
            Ok(follower.recv_timeout(slice)?.map(|frame| owned(&frame)))
        })?;
        Ok(found.map(|Owned(kind, key, value, expires, end)| {
            (kind, bytes(py, &key), bytes(py, &value), expires, end)
        }))
    }

    /// How far it has read: for `Map.watch(position)`, here or in another process.
    #[getter]
    fn position(&self) -> Answer<String> {
        Ok(self.alone()?.position().to_string())
    }

    /// How many bytes of the stream it has not read yet, and how many the stream keeps.
    fn lag_bytes(&self) -> Answer<(u64, u64)> {
        Ok(self.alone()?.lag_bytes()?)
    }
}
