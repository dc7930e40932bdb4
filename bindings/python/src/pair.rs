//! `Pair`: a handle on one pair of a map.

use crate::convert::bytes;
use crate::errors::Answer;
use crate::ffi::input::Input;
use crate::shared_hold::SharedHold;
use crate::waiting::patiently;
use commonhold::map::{Map, PairHandle};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex};

/// A handle keeps room for a value of at most this many bytes.
const ROOM: usize = 4096;

/// A handle on one pair, for a key that is read or written often: it remembers where the pair is,
/// and finds it again after any change.
#[pyclass(frozen, module = "commonhold._native")]
pub struct Pair {
    map: Map,
    key: Vec<u8>,
    /// The handle, and room for a value.
    handle: Mutex<(PairHandle, Vec<u8>)>,
    shared: Arc<SharedHold>,
}

impl Pair {
    pub fn new(map: &Map, key: &[u8], shared: &Arc<SharedHold>) -> Answer<Pair> {
        let handle = Mutex::new((map.pair(key)?, Vec::new()));
        Ok(Pair { map: map.clone(), key: key.to_vec(), handle, shared: Arc::clone(shared) })
    }

    /// Uses the handle, or another one while another thread uses it. No thread waits for a thread,
    /// which a forked child may not have.
    fn with<T>(
        &self,
        use_it: impl FnOnce(&PairHandle, &mut Vec<u8>) -> commonhold::Result<T>,
    ) -> Answer<T> {
        self.shared.ensure()?;
        match self.handle.try_lock() {
            Ok(mut handle) => {
                let (pair, room) = &mut *handle;
                let done = use_it(pair, room);
                room.shrink_to(ROOM);
                Ok(done?)
            }
            Err(_) => Ok(use_it(&self.map.pair(&self.key)?, &mut Vec::new())?),
        }
    }
}

#[pymethods]
impl Pair {
    /// Its key.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, &self.key)
    }

    /// The value; `None` if the pair is absent.
    fn get<'py>(&self, py: Python<'py>) -> Answer<Option<Bound<'py, PyBytes>>> {
        self.with(|pair, room| Ok(pair.get_into(room)?.then(|| bytes(py, room))))
    }

    /// Sets the value.
    fn set(&self, py: Python<'_>, value: Input<'_>) -> Answer<()> {
        patiently(py, self.shared.patience, || self.with(|pair, _| pair.set(&value).map(drop)))
    }

    /// As `Map.increment`.
    #[pyo3(signature = (by=1))]
    fn increment(&self, py: Python<'_>, by: i64) -> Answer<i64> {
        patiently(py, self.shared.patience, || self.with(|pair, _| pair.increment(by)))
    }
}
